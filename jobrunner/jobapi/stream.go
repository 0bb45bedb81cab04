package jobapi

import (
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// streamWait is how long a stream that has nothing new is held, where the
// client does not say (field notes: /stream).
const streamWait = 10 * time.Second

// stream answers the chunks that nobody has read yet. Where there are none the
// answer waits until some come, the job ends, or the wait is over (description:
// GET /stream). The described door answers the chunks alone, the live one the
// status with them: a terminal status comes with the last chunks.
func (a *api) stream(w http.ResponseWriter, r *http.Request, t target) error {
	wait, err := queryDuration(r, "wait", waitBounds, streamWait)
	if err != nil {
		return err
	}
	var job engine.Job
	var chunks [][]byte
	err = a.hold(r.Context(), t, wait, func() (enough bool, err error) {
		more := false
		job, chunks, more, err = a.Engine.Drain(r.Context(), t.endpoint, t.job)
		if more {
			job.State = engine.InProgress // as far as the client can see
		}
		return len(chunks) > 0 || job.State.Terminal(), err
	})
	if err != nil {
		return err
	}
	var b []byte
	if t.live {
		b = append(append(append(b, `{"status":"`...), job.State...), `","stream":`...)
	}
	b = appendList(b, chunks, func(b []byte, chunk []byte) []byte { return append(b, chunk...) })
	if t.live {
		b = append(b, '}')
	}
	write(w, b)
	return nil
}
