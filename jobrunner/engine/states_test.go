package engine_test

import (
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
	must.Hold(t, got.Worker == "" && got.Delay == 0 && got.Output == nil, "the queued job is", got)
	t.advance(1234 * time.Millisecond)
	job := t.take(engine.Take{Worker: "w1"})
	must.Hold(t, job.ID == id && job.Worker == "w1" && job.Attempt == 1 && job.Delay == 1234*time.Millisecond && string(job.Input) == "{}" && job.Rest == nil, "the taken job is", job)
	t.expectEmptyQueue("ep")
	got = t.expectState(id, engine.InProgress)
	must.Hold(t, got.Worker == "w1" && got.Delay == 1234*time.Millisecond && got.Execution == 0, "the running job is", got)
	t.report(job.Ref, engine.Progress([]byte(`"half"`)), engine.Accepted)
	must.Equal(t, string(t.expectState(id, engine.InProgress).Output), `"half"`, "the intermediate output")
	t.advance(5678 * time.Millisecond)
	t.report(job.Ref, engine.Done([]byte(`"whole"`)), engine.Accepted)
	for range 2 { // reading changes nothing
		done := t.expectState(id, engine.Completed)
		must.Hold(t, done.Worker == "w1" && done.Delay == 1234*time.Millisecond && done.Execution == 5678*time.Millisecond &&
			string(done.Output) == `"whole"` && done.Retries == 0 && done.Error == "", "the completed job is", done)
		t.advance(time.Second)
	}
	must.ErrorIs(t, must.Err(t.Get(t.ctx, "other", id)), engine.ErrNotFound, "read through another endpoint")
	for _, id := range []string{"unknown", ""} {
		must.ErrorIs(t, must.Err(t.Cancel(t.ctx, "ep", id)), engine.ErrNotFound, "cancel of", id)
	}

	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no luck", []byte(`1`)), engine.Accepted)
	got = t.expectState(id, engine.Failed)
	must.Hold(t, got.Error == "no luck" && string(got.Output) == "1", "the failed job is", got)

	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("begin"+strings.Repeat("é", 1<<20)+"end", nil), engine.Accepted)
	long := t.expectState(id, engine.Failed).Error
	must.Hold(t, strings.HasPrefix(long, "beginé") && strings.HasSuffix(long, "éend") && len(long) < 33<<10 && utf8.ValidString(long), "a long error:", long)

	// A result without output replaces an intermediate output.
	id = t.submit(engine.NewJob{})
	job = t.take(engine.Take{})
	t.report(job.Ref, engine.Progress([]byte(`"half"`)), engine.Accepted)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	must.Hold(t, t.expectState(id, engine.Completed).Output == nil, "a job without a result has an output")

	retried, running := t.submit(engine.NewJob{Attached: true}), t.submit(engine.NewJob{Attached: true})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no luck", nil), engine.Accepted)
	must.Equal(t, t.take(engine.Take{}).ID, running)
	t.advance(time.Millisecond)
	must.Do(t.Retry(t.ctx, "ep", retried))(t)
	waiting := t.submit(engine.NewJob{Attached: true})
	t.restart()
	t.expectState(running, engine.Cancelled)
	t.expectState(waiting, engine.Cancelled)
	t.expectState(retried, engine.InQueue) // not cancelled by the restart, because it was retried
}

func testOrder(t *tester) {
	var ids []string
	for i := range 20 { // some in the same millisecond
		ids = append(ids, t.submit(engine.NewJob{LowPriority: i%3 == 0}))
		if i%5 == 0 {
			t.advance(time.Millisecond)
		}
	}
	other := t.submit(engine.NewJob{Endpoint: "other"})
	jobs, err := t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 15})
	must.Require(t, err == nil && len(jobs) == 15, "took", len(jobs), "jobs,", err, "want 15")
	for i, job := range jobs {
		must.Hold(t, job.ID == ids[i] && job.LowPriority == (i%3 == 0), "job", i, "was taken out of order")
	}
	jobs, err = t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 15})
	must.Hold(t, err == nil && len(jobs) == 5, "took", len(jobs), "jobs,", err, "want the last 5")
	must.Equal(t, t.take(engine.Take{Endpoint: "other"}).ID, other, "the job of the other endpoint")
}

func testPurge(t *tester) {
	purge := func(want int) {
		t.Helper()
		n, err := t.Purge(t.ctx, "ep")
		must.Hold(t, err == nil && n == want, "purged", n, "jobs,", err, "want", want)
	}
	purge(0)
	done, running, failed, requeued := t.submit(engine.NewJob{}), t.submit(engine.NewJob{}), t.submit(engine.NewJob{}), t.submit(engine.NewJob{})
	other := t.submit(engine.NewJob{Endpoint: "other"})
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`1`)), engine.Accepted)
	job := t.take(engine.Take{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(""), engine.Accepted)
	many := t.repetitions(1300) // so that the purge needs several transactions
	ids := []string{requeued}
	for i := range many {
		ids = append(ids, t.submit(engine.NewJob{LowPriority: i%2 == 0}))
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
