package jobapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// run queues a job and answers at once (service description: POST /run).
func (a *api) run(w http.ResponseWriter, r *http.Request, t target) error {
	n, reservation, err := a.readSubmission(w, r, t, maxRun)
	if err != nil {
		return err
	}
	job, _, err := a.enqueue(r.Context(), n)
	reservation.Release()
	if err != nil {
		return err
	}
	a.explainWait(w, t, job)
	writeJob(w, job)
	return nil
}

// runSync queues a job and waits for its end (service description: POST /runsync; field notes: runsync).
func (a *api) runSync(w http.ResponseWriter, r *http.Request, t target) error {
	wait, err := queryDuration(r, "wait", waitBounds, 0)
	if err != nil {
		return err
	}
	n, reservation, err := a.readSubmission(w, r, t, maxRunSync)
	if err != nil {
		return err
	}
	n.Sync, n.Wait = true, wait
	job, watch, err := a.enqueue(r.Context(), n)
	reservation.Release()
	if err != nil {
		return err
	}
	t.job = job.ID
	return a.answerWhenEnded(a.yielding(w, slowResult), r, t, cmp.Or(wait, engine.DefaultWait), job, watch)
}

// readSubmission reads a submitted job. The caller releases the reservation once the job is queued.
func (a *api) readSubmission(w http.ResponseWriter, r *http.Request, t target, limit int64) (engine.NewJob, *httplimit.Reservation, error) {
	body, reservation, err := a.readBody(w, r, limit, 1)
	if err != nil {
		return engine.NewJob{}, nil, err
	}
	n, err := a.parseSubmission(body)
	if err != nil {
		reservation.Release()
		return engine.NewJob{}, nil, err
	}
	n.Endpoint, n.Owner = t.endpoint, t.owner
	return n, reservation, nil
}

// enqueue stores a job and informs the pools. For a Sync job it returns a watch that the caller stops.
func (a *api) enqueue(ctx context.Context, n engine.NewJob) (job engine.Job, watch *engine.Watch, err error) {
	if n.Sync {
		job, watch, err = a.Engine.SubmitAndWatch(ctx, n)
	} else {
		job, err = a.Engine.Submit(ctx, n)
	}
	if err != nil {
		return engine.Job{}, nil, err
	}
	if err := a.dropIfDeleted(ctx, n.Endpoint); err != nil {
		watch.Stop()
		return engine.Job{}, nil, err
	}
	a.OnQueued(n.Endpoint)
	return job, watch, nil
}

// status responds with a job. ?ttl= sets its time to live from the submission (GET /status).
func (a *api) status(w http.ResponseWriter, r *http.Request, t target) error {
	ttl, err := queryDuration(r, "ttl", ttlBounds, 0)
	if err == nil && ttl != 0 {
		err = a.Engine.SetTTL(r.Context(), t.endpoint, t.job, ttl)
	}
	if err != nil {
		return err
	}
	job, err := a.readJob(r.Context(), t)
	if err != nil {
		return err
	}
	a.setUnreadChunksHeader(w, r, t, job)
	return a.answerJob(a.yielding(w, slowAnswer), r, t, job)
}

// statusSync, in the SDK dialect, is status that waits for the job's end (field notes: /status-sync).
func (a *api) statusSync(w http.ResponseWriter, r *http.Request, t target) error {
	wait, err := queryDuration(r, "wait", waitBounds, engine.DefaultWait)
	if err != nil {
		return err
	}
	return a.answerWhenEnded(a.yielding(w, slowAnswer), r, t, wait, engine.Job{}, a.Engine.Watch(t.endpoint, t.job))
}

// cancel ends a job, or returns an ended one's status (field notes: cancel of a finished job).
func (a *api) cancel(w http.ResponseWriter, r *http.Request, t target) error {
	job, err := a.Engine.Cancel(r.Context(), t.endpoint, t.job)
	if err != nil {
		return err
	}
	writeJob(w, engine.Job{ID: job.ID, State: job.State})
	return nil
}

// health counts jobs and workers (service description: Health response; field notes: health).
func (a *api) health(w http.ResponseWriter, r *http.Request, t target) error {
	jobs, err := a.Engine.CountsNow(r.Context(), t.endpoint)
	if err != nil {
		return err
	}
	workers := a.Workers(t.endpoint)
	answer := map[string]any{
		"jobs": map[string]int{
			"completed": jobs.Completed, "failed": jobs.Failed, "inProgress": jobs.InProgress, "inQueue": jobs.InQueue, "retried": jobs.Retried,
		},
		"workers": struct {
			worker.Counts
			Ready int `json:"ready"`
		}{workers, workers.Idle + workers.Running},
	}
	if reason := a.Failure(t.endpoint); reason != "" {
		answer["reason"] = reason // an extra member, which the contract allows
	}
	write(w, bytes.TrimSpace(httpanswer.Encode(answer)))
	return nil
}

// retry requeues a job that failed or timed out (service description: Endpoints, section B, rule 2).
func (a *api) retry(w http.ResponseWriter, r *http.Request, t target) error {
	job, err := a.Engine.Retry(r.Context(), t.endpoint, t.job)
	if notRetryable, ok := errors.AsType[*engine.NotRetryable](err); ok {
		return httpanswer.Refuse(http.StatusBadRequest, "%s", notRetryable)
	}
	if err != nil {
		return err
	}
	a.OnQueued(t.endpoint)
	writeJob(w, job)
	return nil
}

// purgeQueue removes the waiting jobs (service description: Endpoints, section B, rule 3).
func (a *api) purgeQueue(w http.ResponseWriter, r *http.Request, t target) error {
	removed, err := a.Engine.Purge(r.Context(), t.endpoint)
	if err != nil {
		return err
	}
	write(w, append(strconv.AppendInt([]byte(`{"removed":`), int64(removed), 10), `,"status":"completed"}`...))
	return nil
}

// maxRequests is the maximum number of jobs that GET /requests lists.
const maxRequests = 100

// requests lists the endpoint's newest jobs, without large outputs (field notes: GET /requests).
func (a *api) requests(w http.ResponseWriter, r *http.Request, t target) error {
	jobs, err := a.Engine.Newest(r.Context(), t.endpoint, maxRequests, engine.SmallOutput)
	if err != nil {
		return err
	}
	b := append(appendList([]byte(`{"requests":`), jobs, func(b []byte, job engine.Job) []byte { return job.AppendJSON(b) }), '}')
	if len(b) > engine.SmallOutput {
		reservation, err := a.Answers.ReserveWhenFree(httplimit.AnswerContext(r.Context()), int64(len(b)))
		if err != nil {
			return err
		}
		defer reservation.Release()
	}
	write(a.yielding(w, slowAnswer), b)
	return nil
}

// readJob reads a job, without its output if that is large.
func (a *api) readJob(ctx context.Context, t target) (engine.Job, error) {
	return a.Engine.GetUpTo(ctx, t.endpoint, t.job, engine.SmallOutput)
}

// answerJob responds with a job, once there is memory for its output.
func (a *api) answerJob(w http.ResponseWriter, r *http.Request, t target, job engine.Job) error {
	a.explainWait(w, t, job)
	reservation, err := a.readOutput(httplimit.AnswerContext(r.Context()), t, &job)
	defer reservation.Release()
	if err != nil {
		return err
	}
	body := encodeJob(job)
	job.Output = nil
	reservation.Shrink(int64(len(body)))
	write(w, body)
	return nil
}

const (
	// slowAnswer is how long an answer may take while others wait for memory; slowResult, if it can't be repeated.
	slowAnswer, slowResult = 2 * time.Minute, 10 * time.Minute
	// yieldPiece is the size of the pieces of a yieldingWriter, in bytes.
	yieldPiece = 64 << 10
)

// yieldingWriter aborts an answer that takes longer than limit if others wait for its memory. Otherwise a few
// slow clients could hold the memory for more than an hour.
type yieldingWriter struct {
	http.ResponseWriter
	memory *httplimit.Memory
	limit  time.Duration
	start  time.Time // of the first Write
}

func (a *api) yielding(w http.ResponseWriter, limit time.Duration) http.ResponseWriter {
	return &yieldingWriter{ResponseWriter: w, memory: a.Answers, limit: limit}
}

func (y *yieldingWriter) Write(p []byte) (written int, err error) {
	if y.start.IsZero() {
		y.start = time.Now()
	}
	for piece := range slices.Chunk(p, yieldPiece) {
		n, err := y.ResponseWriter.Write(piece)
		if written += n; err != nil {
			return written, err
		}
		if time.Since(y.start) > y.limit && y.memory.Contended() {
			panic(http.ErrAbortHandler)
		}
	}
	return written, nil
}

// readOutput reads a job's output if it is large. It reserves memory for the output and its copy in the answer.
func (a *api) readOutput(ctx context.Context, t target, job *engine.Job) (reservation *httplimit.Reservation, err error) {
	if job.Size <= engine.SmallOutput {
		return nil, nil
	}
	size := job.Size
	if reservation, err = a.Answers.Reserve(int64(2 * size)); err != nil {
		job.Output = nil // frees its memory during the wait
		reservation, err = a.Answers.ReserveWhenFree(ctx, int64(2*size))
	}
	if err == nil && job.Output == nil {
		*job, err = a.Engine.GetUpTo(ctx, t.endpoint, t.job, size)
		if job.Size > size { // the output has grown
			reservation.Release()
			return a.readOutput(ctx, t, job)
		}
	}
	return reservation, err
}

func encodeJob(job engine.Job) []byte { return job.AppendJSON(make([]byte, 0, 256+len(job.Output))) }

func writeJob(w http.ResponseWriter, job engine.Job) { write(w, encodeJob(job)) }

// appendList appends a JSON array. appendItem appends an item, which is already JSON.
func appendList[T any](b []byte, all []T, appendItem func(b []byte, v T) []byte) []byte {
	b = append(b, '[')
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, v)
	}
	return append(b, ']')
}

func write(w http.ResponseWriter, body []byte) { httpanswer.Bytes(w, http.StatusOK, body) }

// queueReason is the header that says why no worker can run the job: the body has no member for the reason.
const queueReason = "X-Queue-Reason"

// explainWait sets queueReason if the job waits and no worker of its endpoint can work.
func (a *api) explainWait(w http.ResponseWriter, t target, job engine.Job) {
	if job.State != engine.InQueue {
		return
	}
	if reason := a.Failure(t.endpoint); reason != "" {
		w.Header().Set(queueReason, headerText(reason))
	}
}

// maxReason is the maximum length of a reason in a header, in bytes.
const maxReason = 500

// headerText makes a text fit for a header: programs disagree on anything but visible ASCII.
func headerText(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r == 0x7f:
			return ' '
		case r > 0x7e:
			return '?'
		}
		return r
	}, strings.ReplaceAll(text, "…", "..."))
	return text[:min(len(text), maxReason)]
}
