package jobapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// streamWait is how long a stream that has nothing new is held, where the
// client does not say (field notes: /stream).
const streamWait = 10 * time.Second

// streamShape is the header that tells a client which form a stream has, and
// where it is served in the other one.
const streamShape = "X-Stream-Shape"

// publicSDKs are how the public SDKs name themselves.
const publicSDKs = "runpod"

// explainStream says to who reads the described dialect what it is about: the public
// SDKs expect an object, and end with an error that does not tell why.
func (a *api) explainStream(w http.ResponseWriter, r *http.Request, t target) {
	w.Header().Set(streamShape, "array of chunks; {status, stream} is at /live"+r.URL.Path)
	if !strings.Contains(strings.ToLower(r.UserAgent()), publicSDKs) {
		return
	}
	if _, said := a.advised.LoadOrStore(t.endpoint, true); !said {
		a.Logger.WarnContext(r.Context(), "a public SDK reads a stream at /v2, where it is an array of chunks as the contract says, and not the object that the SDK expects: set its base URL to /live/v2",
			"endpoint", t.endpoint, "client", r.UserAgent())
	}
}

// unreadHeader is the header that says how many chunks of a job wait to be read. The body
// of a status has no place for it.
const unreadHeader = "X-Unread-Chunks"

// countUnread says in the header of an answer that the job has chunks, where its output
// has none of them: the handler yields, and asked for no aggregate.
func (a *api) countUnread(w http.ResponseWriter, r *http.Request, t target, job engine.Job) {
	if output := string(job.Output); job.State != engine.Completed || output != "" && output != "[]" {
		return
	}
	if n, err := a.Engine.Unread(r.Context(), t.endpoint, t.job); err == nil && n > 0 {
		w.Header().Set(unreadHeader, strconv.Itoa(n))
	}
}

// stream answers the chunks that nobody has read yet. Where there are none the
// answer waits until some come, the job ends, or the wait is over (description:
// GET /stream). The described dialect answers the chunks alone, the live one the
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
		job, chunks, more, err = a.Engine.Drain(httplimit.Answering(r.Context()), t.endpoint, t.job)
		if more {
			job.State = engine.InProgress // as far as the client can see
		}
		return len(chunks) > 0 || job.State.Terminal(), err
	})
	if err != nil {
		return err
	}
	var b []byte
	if !t.live {
		a.explainStream(w, r, t)
	}
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
