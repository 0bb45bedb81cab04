package jobapi

import (
	"net/http"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// writeJob answers a job as it stands.
func writeJob(w http.ResponseWriter, job engine.Job) {
	write(w, job.AppendJSON(make([]byte, 0, 256+len(job.Output))))
}

// appendList appends a JSON array of what is JSON already.
func appendList[T any](b []byte, all []T, one func(b []byte, v T) []byte) []byte {
	b = append(b, '[')
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func write(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that is gone needs no answer
}
