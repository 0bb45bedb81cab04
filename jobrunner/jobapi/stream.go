package jobapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// streamWait is the default wait of a request for a stream without new chunks (field notes: /stream). It is shorter
// than the read time-out of the Python SDK, 10 s.
const streamWait = 9 * time.Second

// streamShape is the header that names the form of a stream, and where the other form is served.
const streamShape = "X-Stream-Shape"

// sdkAgent is part of the User-Agent of the public SDKs, in lower case.
const sdkAgent = "runpod"

// explainStream says in a header that a stream at /v2 has the service description's form. If the client is a public
// SDK, explainStream also logs that: these SDKs expect an object, and fail with an error that doesn't say why.
func (a *api) explainStream(w http.ResponseWriter, r *http.Request, t target) {
	w.Header().Set(streamShape, "array of chunks; {status, stream} is at /live"+r.URL.Path)
	if !strings.Contains(strings.ToLower(r.UserAgent()), sdkAgent) {
		return
	}
	if _, logged := a.explainedStreams.LoadOrStore(t.endpoint, true); !logged {
		a.Logger.WarnContext(r.Context(), "a public SDK reads a stream at /v2, where it is an array of chunks as the contract says, and not the object that the SDK expects: set its base URL to /live/v2",
			"endpoint", t.endpoint, "client", r.UserAgent())
	}
}

// unreadHeader has the number of a job's unread chunks: the body of a status has no member for the number.
const unreadHeader = "X-Unread-Chunks"

// setUnreadChunksHeader sets unreadHeader if the job has chunks that aren't in its output, because the worker didn't
// aggregate them.
func (a *api) setUnreadChunksHeader(w http.ResponseWriter, r *http.Request, t target, job engine.Job) {
	if output := string(job.Output); job.State != engine.Completed || job.Size > engine.SmallOutput || output != "" && output != "[]" {
		return
	}
	if n, err := a.Engine.Unread(r.Context(), t.endpoint, t.job); err == nil && n > 0 {
		w.Header().Set(unreadHeader, strconv.Itoa(n))
	}
}

// stream responds with the unread chunks. If there are none, it waits until some come, the job ends, or
// the wait is over (service description: GET /stream). At /v2 the answer has only the chunks. In the SDK
// dialect it also has the status: a terminal status comes with the last chunks.
func (a *api) stream(w http.ResponseWriter, r *http.Request, t target) error {
	wait, err := queryDuration(r, "wait", waitBounds, streamWait)
	if err != nil {
		return err
	}
	var job engine.Job
	var chunks [][]byte
	var reservation *httplimit.Reservation
	defer func() { reservation.Release() }()
	err = a.waitUntil(r.Context(), a.Engine.Watch(t.endpoint, t.job), wait, func() (done bool, err error) {
		more := false
		reservation.Release()
		job, chunks, more, reservation, err = a.drain(r.Context(), t, engine.MaxDrain)
		if more {
			job.State = engine.InProgress // until the client has the last chunks
		}
		return len(chunks) > 0 || job.State.Terminal(), err
	})
	if err != nil {
		return err
	}
	var b []byte
	if t.live {
		b = append(append(append(b, `{"status":"`...), job.State...), `","stream":`...)
	} else {
		a.explainStream(w, r, t)
	}
	b = appendList(b, chunks, func(b []byte, chunk []byte) []byte { return append(b, chunk...) })
	if t.live {
		b = append(b, '}')
	}
	chunks = nil
	reservation.Shrink(int64(len(b)))
	write(a.yielding(w, slowResult), b)
	return nil
}

// drain removes unread chunks of up to limit bytes from the job's stream and returns them. If memory is short, or the
// first element is larger, chunks has at most one element. If more is true, the stream has further chunks.
func (a *api) drain(ctx context.Context, t target, limit int) (job engine.Job, chunks [][]byte, more bool, reservation *httplimit.Reservation, err error) {
	if reservation, err = a.Answers.Reserve(int64(2 * limit)); err != nil { // the chunks and the answer
		limit = 0
	}
	job, chunks, more, err = a.Engine.Drain(httplimit.AnswerContext(ctx), t.endpoint, t.job, limit)
	size := 0
	for _, chunk := range chunks {
		size += len(chunk)
	}
	reservation.Shrink(int64(2 * size)) // without chunks, the caller may wait for long
	return job, chunks, more, reservation, err
}
