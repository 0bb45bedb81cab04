package jobapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// writeJob answers a job as it stands. What is there depends on the state
// (field notes: fields). The output is spliced in as the bytes that the worker
// sent: encoding it anew would cost more than all the rest.
func writeJob(w http.ResponseWriter, job engine.Job) {
	b := make([]byte, 0, 256+len(job.Output))
	b = append(b, '{')
	if job.Worker != "" {
		b = append(b, `"delayTime":`...)
		b = strconv.AppendInt(b, job.Delay.Milliseconds(), 10)
		b = append(b, ',')
	}
	if job.Worker != "" && job.State.Terminal() {
		b = append(b, `"executionTime":`...)
		b = strconv.AppendInt(b, job.Execution.Milliseconds(), 10)
		b = append(b, ',')
	}
	b = append(b, `"id":`...)
	b = appendString(b, job.ID)
	if job.Error != "" {
		b = append(b, `,"error":`...)
		b = appendString(b, job.Error)
	}
	if job.Output != nil {
		b = append(b, `,"output":`...)
		b = append(b, job.Output...)
	}
	if job.Retries > 0 {
		b = append(b, `,"retries":`...)
		b = strconv.AppendInt(b, int64(job.Retries), 10)
	}
	b = append(b, `,"status":"`...)
	b = append(b, job.State...)
	b = append(b, '"')
	if job.Worker != "" {
		b = append(b, `,"workerId":`...)
		b = appendString(b, job.Worker)
	}
	write(w, append(b, '}'))
}

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string always can be
	return append(b, text...)
}

func write(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that is gone needs no answer
}
