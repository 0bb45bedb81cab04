package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func testSuccess(t *tester) {
	id := t.submit(engine.NewJob{})
	must.Hold(t, idForm.MatchString(id) && !strings.HasPrefix(id, "sync-"), "id", id)
	synchronous := t.submit(engine.NewJob{Endpoint: "other", Sync: true})
	must.Hold(t, idForm.MatchString(synchronous) && strings.HasPrefix(synchronous, "sync-"), "id of a synchronous job", synchronous)
	got := t.expectState(id, engine.InQueue)
	must.Hold(t, got.Worker == "" && got.Delay == 0 && got.Output == nil, "in the queue:", got)
	t.advance(1234 * time.Millisecond)
	job := t.take(engine.Take{Worker: "w1"})
	must.Hold(t, job.ID == id && job.Worker == "w1" && job.Attempt == 1 && job.Delay == 1234*time.Millisecond && string(job.Input) == "{}" && job.Rest == nil, "taken", job)
	t.expectEmptyQueue("ep")
	got = t.expectState(id, engine.InProgress)
	must.Hold(t, got.Worker == "w1" && got.Delay == 1234*time.Millisecond && got.Execution == 0, "in progress:", got)
	t.report(job.Ref, engine.Progress([]byte(`"half"`)), engine.Accepted)
	must.Equal(t, string(t.expectState(id, engine.InProgress).Output), `"half"`, "progress")
	t.advance(5678 * time.Millisecond)
	t.report(job.Ref, engine.Done([]byte(`"whole"`)), engine.Accepted)
	for range 2 { // reading changes nothing
		done := t.expectState(id, engine.Completed)
		must.Hold(t, done.Worker == "w1" && done.Delay == 1234*time.Millisecond && done.Execution == 5678*time.Millisecond &&
			string(done.Output) == `"whole"` && done.Retries == 0 && done.Error == "", "completed:", done)
		t.advance(time.Second)
	}
	must.ErrorIs(t, must.Err(t.Get(t.ctx, "other", id)), engine.ErrNotFound, "read through another endpoint")

	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no luck", []byte(`1`)), engine.Accepted)
	got = t.expectState(id, engine.Failed)
	must.Hold(t, got.Error == "no luck" && string(got.Output) == "1", "failed:", got)

	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("begin"+strings.Repeat("é", 1<<20)+"end", nil), engine.Accepted)
	long := t.expectState(id, engine.Failed).Error
	must.Hold(t, strings.HasPrefix(long, "beginé") && strings.HasSuffix(long, "éend") && len(long) < 33<<10 && utf8.ValidString(long), "a long error:", long)

	// A result without output, even after progress.
	id = t.submit(engine.NewJob{})
	job = t.take(engine.Take{})
	t.report(job.Ref, engine.Progress([]byte(`"half"`)), engine.Accepted)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	must.Hold(t, t.expectState(id, engine.Completed).Output == nil, "a job without a result has an output")
}

func testOrder(t *tester) {
	var ids []string
	for i := range 20 { // some in the same millisecond
		ids = append(ids, t.submit(engine.NewJob{Low: i%3 == 0}))
		if i%5 == 0 {
			t.advance(time.Millisecond)
		}
	}
	other := t.submit(engine.NewJob{Endpoint: "other"})
	jobs, err := t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 15})
	must.Require(t, err == nil && len(jobs) == 15, "took", len(jobs), err)
	for i, job := range jobs {
		must.Hold(t, job.ID == ids[i] && job.Low == (i%3 == 0), "job", i, "was taken out of order")
	}
	jobs, err = t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 15})
	must.Hold(t, err == nil && len(jobs) == 5, "took", len(jobs), err, "want the last 5")
	must.Equal(t, t.take(engine.Take{Endpoint: "other"}).ID, other, "the other endpoint returned")
}

func testCancel(t *tester) {
	cancel := func(id string, want engine.State) engine.Job {
		t.Helper()
		job, err := t.Cancel(t.ctx, "ep", id)
		must.Hold(t, err == nil && job.State == want && job.ID == id, "the cancellation returned", job, err, want)
		return job
	}
	waiting := t.submit(engine.NewJob{})
	cancel(waiting, engine.Cancelled)
	t.expectEmptyQueue("ep")
	cancel(waiting, engine.Cancelled)

	running := t.submit(engine.NewJob{})
	job := t.take(engine.Take{})
	t.advance(2 * time.Second)
	must.Equal(t, cancel(running, engine.Cancelled).Execution, 2*time.Second, "ran for")
	t.report(job.Ref, engine.Done([]byte(`1`)), engine.Stale)
	must.Hold(t, t.expectState(running, engine.Cancelled).Output == nil, "a cancelled job has an output")

	done := t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`1`)), engine.Accepted)
	must.Equal(t, string(cancel(done, engine.Completed).Output), "1", "output")
	failed := t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted)
	cancel(failed, engine.Failed)
	late := t.submit(engine.NewJob{Timeout: 5 * time.Second})
	t.take(engine.Take{})
	t.advance(5 * time.Second)
	cancel(late, engine.TimedOut)

	for _, id := range []string{"unknown", ""} {
		must.ErrorIs(t, must.Err(t.Cancel(t.ctx, "ep", id)), engine.ErrNotFound, "cancel of", id)
	}
	must.ErrorIs(t, must.Err(t.Cancel(t.ctx, "other", t.submit(engine.NewJob{}))), engine.ErrNotFound, "cancel through another endpoint")
}

// A report counts only for its own take, and only while that runs.
func testFence(t *tester) {
	reports := map[string]engine.Report{
		"done": engine.Done([]byte(`"late"`)), "fail": engine.Fail("late", nil), "progress": engine.Progress([]byte(`"late"`)),
		"lost": engine.Lost(),
	}
	expectStale := func(what, id string, ref engine.Ref) {
		t.Helper()
		before, err := t.Get(t.ctx, "ep", id)
		for name, r := range reports {
			got, err := t.Report(t.ctx, ref, r)
			must.Hold(t, got == engine.Stale && err == nil, what, name, "returned", got, err)
		}
		after, err2 := t.Get(t.ctx, "ep", id)
		must.Equal(t, fmt.Sprint(before, err), fmt.Sprint(after, err2), what, before, "became", after)
	}
	id := t.submit(engine.NewJob{})
	job := t.take(engine.Take{Worker: "w1"})
	for what, change := range map[string]func(*engine.Ref){
		"another worker":   func(r *engine.Ref) { r.Worker = "w2" },
		"another attempt":  func(r *engine.Ref) { r.Attempt++ },
		"another endpoint": func(r *engine.Ref) { r.Endpoint = "other" },
		"another job":      func(r *engine.Ref) { r.ID = "unknown" },
	} {
		ref := job.Ref
		change(&ref)
		expectStale(what, id, ref)
	}
	t.report(job.Ref, engine.Lost(), engine.Accepted)
	expectStale("requeued", id, job.Ref)
	second := t.take(engine.Take{Worker: "w1"})
	expectStale("taken again", id, job.Ref)
	t.report(second.Ref, engine.Done([]byte(`"good"`)), engine.Accepted)
	expectStale("completed", id, second.Ref)

	id = t.submit(engine.NewJob{Timeout: 5 * time.Second})
	job = t.take(engine.Take{})
	t.advance(5 * time.Second)
	expectStale("timed out", id, job.Ref)

	id = t.submit(engine.NewJob{TTL: 10 * time.Second})
	job = t.take(engine.Take{})
	t.advance(10 * time.Second)
	expectStale("expired", id, job.Ref)
}

func (t *tester) retry(id string) {
	t.Helper()
	job, err := t.Retry(t.ctx, "ep", id)
	must.Require(t, err == nil && job.ID == id && job.State == engine.InQueue, "the retry returned", job, err)
}

func (t *tester) expectNotRetryable(id string, state engine.State) {
	t.Helper()
	before := t.expectState(id, state)
	_, err := t.Retry(t.ctx, "ep", id)
	var refused *engine.NotRetryable
	must.Hold(t, errors.As(err, &refused) && refused.State == state, "the retry of a job in state", state, "returned", err)
	after := t.expectState(id, state)
	must.Hold(t, fmt.Sprintf("%+v", after) == fmt.Sprintf("%+v", before), "a rejected retry changed", before, "to", after)
}

func testRetry(t *tester) {
	input := []byte(`{"n":  1}`)
	id := t.submit(engine.NewJob{Input: input, Rest: []byte(`{"policy":{}}`)})
	t.expectNotRetryable(id, engine.InQueue)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(), engine.Accepted)
	t.advance(time.Second)
	job := t.take(engine.Take{})
	t.expectNotRetryable(id, engine.InProgress)
	t.report(job.Ref, engine.Chunk([]byte(`"old"`), nil), engine.Accepted)
	t.report(job.Ref, engine.Fail("no luck", []byte(`"old"`)), engine.Accepted)

	other := t.submit(engine.NewJob{}) // precedes the retried job in the queue
	t.advance(30*time.Minute - ms)
	t.retry(id)
	got := t.expectState(id, engine.InQueue)
	must.Hold(t, got.Output == nil && got.Error == "" && got.Retries == 0 && got.Delay == 0 && got.Worker == "", "after the retry", got)
	_, chunks, _, err := t.Drain(t.ctx, "ep", id)
	must.Hold(t, err == nil && len(chunks) == 0, "after the retry its stream has", chunks, err)
	t.expectNotRetryable(id, engine.InQueue)
	t.expectCounts(engine.Counts{InQueue: 2, Failed: 1, Retried: 1})
	t.restart()
	t.expectCounts(engine.Counts{InQueue: 2, Failed: 1, Retried: 1})

	t.advance(3 * time.Second)
	must.Equal(t, t.take(engine.Take{}).ID, other, "the retried job went to the head of the queue")
	second := t.take(engine.Take{})
	must.Hold(t, second.ID == id && string(second.Input) == string(input) && string(second.Rest) == `{"policy":{}}` && second.Retries == 0 &&
		second.Delay == 3*time.Second, "the second take:", second)
	t.report(job.Ref, engine.Done([]byte(`"late"`)), engine.Stale)
	t.report(second.Ref, engine.Lost(), engine.Accepted) // the client's retry has reset the job's retries
	third := t.take(engine.Take{})
	t.report(third.Ref, engine.Done([]byte(`"new"`)), engine.Accepted)
	got = t.expectState(id, engine.Completed)
	must.Hold(t, string(got.Output) == `"new"` && got.Retries == 1, "done", got)
	t.expectNotRetryable(id, engine.Completed)
	t.advance(30*time.Minute - ms) // the retention starts again
	t.expectState(id, engine.Completed)
	t.advance(ms)
	t.expectState(id, "")

	// An overdue job is TIMED_OUT, the ttl counts from the submission, and an expired job can't be retried.
	id = t.submit(engine.NewJob{Timeout: 5 * time.Second, TTL: time.Minute})
	t.take(engine.Take{})
	t.advance(5 * time.Second)
	t.retry(id)
	t.take(engine.Take{})
	t.advance(5 * time.Second)
	t.expectState(id, engine.TimedOut)
	t.retry(id)
	t.advance(50*time.Second - ms)
	t.expectState(id, engine.InQueue)
	t.advance(ms)
	must.ErrorIs(t, must.Err(t.Retry(t.ctx, "ep", id)), engine.ErrNotFound, "retry after the ttl")
	id = t.submit(engine.NewJob{})
	must.ErrorIs(t, must.Err(t.Retry(t.ctx, "other", id)), engine.ErrNotFound, "a retry through another endpoint")
	must.Do(t.Cancel(t.ctx, "ep", id))(t)
	t.expectNotRetryable(id, engine.Cancelled)
	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted)
	t.advance(30 * time.Minute)
	must.ErrorIs(t, must.Err(t.Retry(t.ctx, "ep", id)), engine.ErrNotFound, "retry after the retention")
}

func testPurge(t *tester) {
	purge := func(want int) {
		t.Helper()
		n, err := t.Purge(t.ctx, "ep")
		must.Hold(t, err == nil && n == want, "purged", n, err, "want", want)
	}
	purge(0)
	done, running, failed, requeued := t.submit(engine.NewJob{}), t.submit(engine.NewJob{}), t.submit(engine.NewJob{}), t.submit(engine.NewJob{})
	other := t.submit(engine.NewJob{Endpoint: "other"})
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`1`)), engine.Accepted)
	job := t.take(engine.Take{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(), engine.Accepted)
	many := t.many(1300) // more than one transaction purges
	ids := []string{requeued}
	for i := range many {
		ids = append(ids, t.submit(engine.NewJob{Low: i%2 == 0}))
	}
	t.submit(engine.NewJob{TTL: 10 * time.Second})
	t.advance(10 * time.Second) // the last job expires
	purge(many + 1)
	for _, id := range ids {
		t.expectState(id, "")
	}
	t.expectEmptyQueue("ep")
	t.expectCounts(engine.Counts{InProgress: 1, Completed: 1, Failed: 1, Retried: 1})
	t.expectState(done, engine.Completed)
	t.expectState(running, engine.InProgress)
	t.expectState(failed, engine.Failed)
	t.report(job.Ref, engine.Done([]byte(`1`)), engine.Accepted)
	must.Equal(t, must.Do(t.Get(t.ctx, "other", other))(t).State, engine.InQueue, "the other endpoint's job")
	purge(0)
	t.submit(engine.NewJob{})
	purge(1)
}

func (t *tester) expectEmptyQueue(name string) {
	t.Helper()
	jobs, err := t.TakeQueued(t.ctx, engine.Take{Endpoint: name, Worker: "w", Max: 1})
	must.Require(t, err == nil && len(jobs) == 0, "took", jobs, err, "from a queue that should be empty:", name)
}
