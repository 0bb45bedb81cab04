package engine

import (
	"encoding/json"
	"strconv"
)

// AppendJSON appends the job as JSON (service description, Job). The members depend on the
// state. The output is copied unchanged, because encoding it again would cost more than
// everything else.
func (j Job) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if j.Worker != "" {
		b = append(b, `"delayTime":`...)
		b = strconv.AppendInt(b, j.Delay.Milliseconds(), 10)
		b = append(b, ',')
	}
	if j.Worker != "" && j.State.Terminal() {
		b = append(b, `"executionTime":`...)
		b = strconv.AppendInt(b, j.Execution.Milliseconds(), 10)
		b = append(b, ',')
	}
	b = append(b, `"id":`...)
	b = appendString(b, j.ID)
	if j.Error != "" {
		b = append(b, `,"error":`...)
		b = appendString(b, j.Error)
	}
	if j.Output != nil {
		b = append(b, `,"output":`...)
		b = append(b, j.Output...)
	}
	if j.Retries > 0 {
		b = append(b, `,"retries":`...)
		b = strconv.AppendInt(b, int64(j.Retries), 10)
	}
	b = append(b, `,"status":"`...)
	b = append(b, j.State...)
	b = append(b, '"')
	if j.Worker != "" {
		b = append(b, `,"workerId":`...)
		b = appendString(b, j.Worker)
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // never fails for a string
	return append(b, text...)
}
