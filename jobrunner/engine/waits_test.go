package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func testWaitingTakers(t *tester) {
	type outcome struct {
		worker int
		jobs   []engine.Taken
		err    error
	}
	outcomes := make(chan outcome, 10)
	var takers sync.WaitGroup
	startTaker := func(ctx context.Context, worker int) {
		takers.Go(func() {
			jobs, err := t.Take(ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(worker), Max: 1})
			outcomes <- outcome{worker, jobs, err}
		})
		synctest.Wait()
	}
	expectNone := func() {
		t.Helper()
		synctest.Wait()
		must.Equal(t, len(outcomes), 0, "how many waiting takers returned")
	}
	first, stopWaiting := context.WithCancel(t.ctx)
	startTaker(first, 0)
	startTaker(t.ctx, 1)
	startTaker(t.ctx, 2)
	t.advance(time.Hour)
	expectNone()
	t.submit(engine.NewJob{Endpoint: "other"})
	expectNone()

	// A taker that has stopped waiting gets no job.
	stopWaiting()
	o := <-outcomes
	must.Hold(t, o.worker == 0 && errors.Is(o.err, context.Canceled) && len(o.jobs) == 0, "a taker that had stopped waiting got", o)
	for worker := 1; worker <= 2; worker++ { // the worker that has waited longest is first
		id := t.submit(engine.NewJob{})
		o := <-outcomes
		must.Hold(t, o.err == nil && o.worker == worker && len(o.jobs) == 1 && o.jobs[0].ID == id, "got", o, "want job", id, "for worker", worker)
		expectNone()
	}
	// A requeued job also wakes a taker.
	id := t.submit(engine.NewJob{})
	job := t.take(engine.Take{})
	startTaker(t.ctx, 3)
	expectNone()
	t.report(job.Ref, engine.Lost(""), engine.Accepted)
	o = <-outcomes
	must.Hold(t, len(o.jobs) == 1 && o.jobs[0].ID == id && o.jobs[0].Attempt == job.Attempt+1, "the taker got", o, "want the next attempt of the lost job", id)
	// A queued job is taken at once.
	id = t.submit(engine.NewJob{})
	startTaker(t.ctx, 4)
	o = <-outcomes
	must.Hold(t, len(o.jobs) == 1 && o.jobs[0].ID == id, "the taker got", o, "want job", id)
	takers.Wait()

	// A taker that gets a job while it stops waiting returns the job: no job is lost, or queued while a taker waits.
	const rounds = 25
	for i := range rounds {
		ctx, cancel := context.WithCancel(t.ctx)
		startTaker(ctx, 5)
		startTaker(t.ctx, 6)
		takers.Go(cancel)
		id := t.submit(engine.NewJob{})
		synctest.Wait()
		var jobs []engine.Taken
		for range 2 {
			select {
			case o := <-outcomes:
				jobs = append(jobs, o.jobs...)
			default:
			}
		}
		must.Require(t, len(jobs) == 1 && jobs[0].ID == id, "round", i, "took", jobs)
		t.submit(engine.NewJob{}) // for the taker that still waits, if any
		synctest.Wait()
		select {
		case <-outcomes:
		default:
			t.take(engine.Take{})
		}
		takers.Wait()
		cancel()
	}
}

func testWatch(t *tester) {
	w, other := t.Watch("ep", t.submit(engine.NewJob{TTL: time.Hour})), t.Watch("ep", "another")
	defer other.Stop()
	expectWake := func(what string, want bool) {
		t.Helper()
		synctest.Wait() // for the commit
		got := false
		select {
		case <-w.C:
			got = true
		default:
		}
		must.Equal(t, got, want, "whether the watch was woken after:", what)
	}
	expectWake("nothing", false)
	job := t.take(engine.Take{})
	expectWake("taken", true)
	t.report(job.Ref, engine.Lost(""), engine.Accepted)
	expectWake("lost", true)
	job = t.take(engine.Take{})
	expectWake("taken again", true)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	expectWake("done", true)
	w.Stop()
	w.Stop()
	must.Equal(t, len(other.C), 0, "how often another job woke a watch")
}

// With many concurrent clients and workers each job ends exactly once.
func testMany(t *tester) {
	const jobs, workers = 200, 8
	var all sync.WaitGroup
	var mu sync.Mutex
	takes, ends, cancels := map[string]int{}, map[string]int{}, map[string]int{}
	var ids []string
	count := func(m map[string]int, id string) {
		mu.Lock()
		defer mu.Unlock()
		m[id]++
	}
	ctx, stop := context.WithCancel(t.ctx)
	for n := range workers {
		all.Go(func() {
			for i := 0; ; i++ {
				taken, err := t.Take(ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(n), Max: 1 + n%3})
				if err != nil {
					return
				}
				for _, job := range taken {
					count(takes, fmt.Sprint(job.ID, "#", job.Attempt))
					lost, r := i%7 == 0 && job.Retries == 0, engine.Done([]byte(`"`+job.ID+`"`))
					if lost {
						r = engine.Lost("")
					}
					d, err := t.Report(t.ctx, job.Ref, r)
					must.Hold(t, err == nil, err)
					if d == engine.Accepted && !lost {
						count(ends, job.ID)
					}
				}
			}
		})
	}
	var submitters sync.WaitGroup
	for c := range 4 {
		submitters.Go(func() {
			for i := range jobs / 4 {
				job, err := t.Submit(t.ctx, engine.NewJob{Endpoint: "ep", Input: []byte(`{}`)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids = append(ids, job.ID)
				mu.Unlock()
				if (i+c)%5 == 0 {
					job, err := t.Cancel(t.ctx, "ep", job.ID)
					must.Hold(t, err == nil, err)
					if job.State == engine.Cancelled {
						count(cancels, job.ID)
					}
				}
			}
		})
	}
	submitters.Wait()
	synctest.Wait()
	stop()
	all.Wait()

	for take, n := range takes {
		must.Equal(t, n, 1, "the number of times that the attempt", take, "was handed out")
	}
	completed := 0
	for _, id := range ids {
		job := t.get(id)
		switch {
		case job.State == engine.Completed && ends[id] == 1 && cancels[id] == 0 && string(job.Output) == `"`+id+`"`:
			completed++
		case job.State == engine.Cancelled && ends[id] == 0 && cancels[id] == 1:
		default:
			t.Errorf("%s is %s with output %s, ended %d times, was cancelled %d times", id, job.State, job.Output, ends[id], cancels[id])
		}
	}
	got := t.Counts("ep")
	must.Hold(t, len(ids) == jobs && got.Completed == completed && got.InQueue == 0 && got.InProgress == 0 && got.Failed == 0,
		len(ids), "of", jobs, "jobs were submitted, and", completed, "completed; the counts are", got)
}
