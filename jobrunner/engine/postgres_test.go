package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// node is a process that shares a database.
type node struct{ *tester }

func startNode(t *testing.T, c sqldb.Config, poll time.Duration) *node {
	t.Helper()
	return &node{newTester(t, c, func(c *engine.Config) { c.Poll = poll })}
}

// take waits for a job.
func (n *node) take() engine.Taken {
	n.Helper()
	jobs, err := n.TakeOrWait(n.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
	must.Require(n, err == nil && len(jobs) == 1, jobs, err)
	return jobs[0]
}

// awaitCompleted waits until a job is COMPLETED.
func (n *node) awaitCompleted(id string) {
	n.Helper()
	watch := n.Watch("ep", id)
	defer watch.Stop()
	for {
		job, err := n.Get(n.ctx, "ep", id)
		if err != nil {
			n.Error(err)
			return
		}
		if job.State == engine.Completed {
			return
		}
		<-watch.C
	}
}

// work takes jobs and calls done for each until ctx ends.
func (n *node) work(ctx context.Context, k engine.Take, done func(engine.Taken)) {
	for {
		taken, err := n.TakeOrWait(ctx, k)
		if err != nil {
			must.FailWith(n, err, context.Canceled)
			return
		}
		for _, job := range taken {
			done(job)
		}
	}
}

// Each job goes to one of many takers on two processes, and each process sees changes at once.
func TestSharedQueue(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t)}
	nodes := []*node{startNode(t, c, 0), startNode(t, c, 0)}
	const jobs, workers = 200, 6
	ctx, done := context.WithCancel(t.Context())
	defer done()
	var mu sync.Mutex
	takes := map[string]int{}
	var working, submitting sync.WaitGroup
	for i, n := range nodes {
		for w := range workers {
			working.Go(func() {
				n.work(ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(i, "-", w), Max: 1 + w%3}, func(job engine.Taken) {
					mu.Lock()
					takes[job.ID]++
					mu.Unlock()
					nodes[w%2].report(job.Ref, engine.Done(nil), engine.Accepted)
				})
			})
		}
		submitting.Go(func() {
			for j := range jobs / 2 {
				id, other := n.submit(engine.NewJob{}), nodes[1-i]
				other.awaitCompleted(id)
				got := other.Counts("ep")
				must.Hold(t, got.Completed > j, "counts are", got, "after", j+1, "jobs")
			}
		})
	}
	submitting.Wait()
	done()
	working.Wait()
	must.Equal(t, len(takes), jobs, "jobs were taken")
	for id, n := range takes {
		must.Equal(t, n, 1, "job", id, "was taken", "times")
	}
	for _, n := range nodes {
		got := n.Counts("ep")
		must.Hold(t, got.InQueue == 0 && got.InProgress == 0 && got.Completed == jobs && got.Retried == 0, "counts are", got)
	}
}

// A hint of a submission wakes a worker that waits on another process, and a hint of a job's
// end wakes its watches there. Without polls, nothing else could wake them.
func TestHintsBetweenProcesses(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t)}
	a, b := startNode(t, c, never), startNode(t, c, never)
	awaitHints(t, a, b)
	awaitHints(t, b, a)
	ctx, done := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		b.work(ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1}, func(job engine.Taken) { b.report(job.Ref, engine.Done(nil), engine.Accepted) })
	})
	var roundTrips []time.Duration
	for range 20 {
		start := time.Now()
		a.awaitCompleted(a.submit(engine.NewJob{}))
		roundTrips = append(roundTrips, time.Since(start))
	}
	slices.Sort(roundTrips)
	t.Logf("round trips: median %s, maximum %s", roundTrips[len(roundTrips)/2], roundTrips[len(roundTrips)-1])
	done()
	working.Wait()
}

// awaitHints waits until hints arrive.
func awaitHints(t *testing.T, from, to *node) {
	t.Helper()
	watch := to.Watch("nowhere", "nothing")
	defer watch.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		from.db.Notify("nowhere\tnothing\t")
		select {
		case <-watch.C:
			return
		case <-tick.C:
		}
	}
}

// Without hints the next poll wakes takers and watches within half a second.
func TestPolls(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoHints: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		ctx, done := context.WithCancel(t.Context())
		var working sync.WaitGroup
		for w := range 3 {
			working.Go(func() {
				b.work(ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(w), Max: 1}, func(job engine.Taken) {
					b.report(job.Ref, engine.Done(nil), engine.Accepted)
				})
			})
		}
		for range 5 {
			synctest.Wait()
			start := time.Now()
			ids := []string{a.submit(engine.NewJob{}), a.submit(engine.NewJob{}), a.submit(engine.NewJob{})}
			for _, id := range ids {
				a.awaitCompleted(id)
			}
			d := time.Since(start) // one poll for the take, one for the end
			must.Hold(t, d <= time.Second, "the round trip took", d)
		}
		done()
		working.Wait()
	})
}

// A result is Stale if another process has ended the job, although this one still remembers
// that the job runs. The other results of the same commit are recorded.
func TestEndedByAnotherProcess(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoHints: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		ids := []string{a.submit(engine.NewJob{}), a.submit(engine.NewJob{})}
		cancelled, other := a.take(), a.take()
		must.Do(b.Cancel(b.ctx, "ep", ids[0]))(t)
		var reports sync.WaitGroup
		reports.Go(func() { a.report(cancelled.Ref, engine.Done(nil), engine.Stale) })
		reports.Go(func() { a.report(other.Ref, engine.Done(nil), engine.Accepted) })
		reports.Wait()
		for i, state := range []engine.State{engine.Cancelled, engine.Completed} {
			must.Equal(t, must.Do(b.Get(b.ctx, "ep", ids[i]))(t).State, state, "the state of job", i, "is")
		}
	})
}

// If a process is gone, another one expires its jobs.
func TestSharedExpiry(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoHints: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		job := must.Do(a.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}"), TTL: time.Minute}))(t)
		a.stop()
		watch := b.Watch("ep", job.ID)
		defer watch.Stop()
		time.Sleep(time.Minute + time.Second)
		got := b.Counts("ep")
		must.Hold(t, got.InQueue == 0, "counts are", got, "after the job's time")
	})
}

// A starting process doesn't change the jobs of others. A stopping process returns its jobs.
// If a process dies, the others requeue its jobs, which counts a retry.
func TestSharedStops(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoHints: true}
	proxy, proxyURL := pgtest.NewProxy(t, c.URL) // a process behind a cut proxy looks dead
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, sqldb.Config{URL: proxyURL, NoHints: true}, 0)
		idA, idB := a.submit(engine.NewJob{}), a.submit(engine.NewJob{})
		a.take()
		jobB := b.take()
		must.Require(t, jobB.ID == idB, "the jobs were taken in another order")
		third := startNode(t, c, 0)
		expectStates := func(wantB engine.State) {
			t.Helper()
			third.is(idA, engine.InProgress)
			want := 0
			if wantB == engine.InQueue {
				want = 1
			}
			must.Equal(t, third.is(idB, wantB).Retries, want, "retries were used up")
		}
		time.Sleep(time.Minute + time.Second/4) // between two polls: the database may commit a heartbeat after the cut
		expectStates(engine.InProgress)
		proxy.Cut()
		time.Sleep(4 * time.Second)
		expectStates(engine.InProgress)
		time.Sleep(2 * time.Second)
		expectStates(engine.InQueue)
		again := third.take()
		must.Hold(t, again.ID == idB && again.Attempt == jobB.Attempt+1, "took", again)

		// The process was alive, and learns that another one has its job.
		proxy.Mend(t)
		b.report(jobB.Ref, engine.Done(nil), engine.Stale)
		third.is(idB, engine.InProgress)

		a.stop()
		must.Equal(t, third.is(idA, engine.InQueue).Retries, 0, "a process that stopped used up", "retries")
		third.stop()
		b.is(idB, engine.InQueue)
	})
}

// During an outage of the database no process counts as dead.
func TestSharedOutage(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	c := sqldb.Config{URL: proxyURL, NoHints: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		id := a.submit(engine.NewJob{})
		job := a.take()
		for range 3 {
			time.Sleep(3 * time.Second)
			proxy.Cut()
			must.FailWith(t, must.Err(a.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}")})), sqldb.ErrUnavailable, "a submission during an outage of the database")
			time.Sleep(time.Minute)
			proxy.Mend(t)
		}
		time.Sleep(10 * time.Second)
		b.is(id, engine.InProgress)
		b.report(job.Ref, engine.Done(nil), engine.Accepted)
	})
}

// takeBy takes a job under a lead, which may be outdated.
func (n *node) takeBy(l engine.Lead) (got bool) {
	n.Helper()
	return len(must.Do(n.Take(n.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1, Lead: l}))(n)) > 0
}

func (n *node) claim() (l engine.Lead, ok bool) {
	n.Helper()
	l, ok = must.Do(n.Claim(n.ctx, "ep"))(n)["ep"]
	return l, ok
}

// One process leads an endpoint. If it releases the lead or dies, another process can claim
// the endpoint with a higher epoch, and the old lead takes no jobs.
func TestLead(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	// A process without a heartbeat for ten polls is removed. With shorter polls a busy machine
	// could cause that, too.
	const poll = 500 * time.Millisecond
	b := startNode(t, sqldb.Config{URL: address}, never) // sends no heartbeat
	a := startNode(t, sqldb.Config{URL: address}, poll)
	first, ok := b.claim()
	must.Require(t, ok && first.Epoch == 1, "the first claim:", first, ok)
	if again, ok := b.claim(); !ok || again != first {
		t.Errorf("the second claim: %+v, %v", again, ok)
	}
	if l, ok := a.claim(); ok {
		t.Errorf("two processes lead at once: %+v", l)
	}
	a.submit(engine.NewJob{})
	must.Hold(t, b.takeBy(first), "the leader took no job")
	var second engine.Lead
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if second, ok = a.claim(); ok {
			break
		}
		must.Require(t, !time.Now().After(deadline), "no process took over from one without a heartbeat")
	}
	must.Hold(t, second.Epoch == 2 && !a.MayScale(first), "the second lead is", second, "and MayScale accepts the first")
	for deadline := time.Now().Add(time.Minute); !a.MayScale(second); time.Sleep(10 * time.Millisecond) { // needs a recent heartbeat
		must.Require(t, !time.Now().After(deadline), "the new leader may not scale")
	}
	a.submit(engine.NewJob{})
	must.Hold(t, !b.takeBy(first), "the former leader took a job")
	_, ok = b.claim()
	must.Hold(t, !ok, "a removed process claimed the endpoint")
	must.Hold(t, a.takeBy(second), "the new leader took no job")
	must.Succeed(t, a.Release(t.Context(), "ep", second))
	a.submit(engine.NewJob{})
	must.Hold(t, !a.takeBy(second), "a released lead took a job")
	third, ok := startNode(t, sqldb.Config{URL: address}, poll).claim()
	must.Hold(t, ok && third.Epoch == 3, "claiming a released endpoint:", third, ok)
	leaders, err := a.Leaders(t.Context())
	l := leaders["ep"]
	must.Hold(t, err == nil && !l.Own && l.Epoch == 3, "the leader is", l, err)
}

// A removed process joins again by itself, with a new id.
func TestRemovedProcessJoinsAgain(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	n := startNode(t, sqldb.Config{URL: address}, 20*time.Millisecond)
	lead, ok := n.claim()
	must.Require(t, ok, "no claim")
	id := n.submit(engine.NewJob{})
	must.Require(t, n.takeBy(lead), "no job")
	pgtest.Exec(t, address, "DELETE FROM processes")
	for deadline := time.Now().Add(time.Minute); n.Process() == lead.Process; time.Sleep(10 * time.Millisecond) {
		must.Require(t, !time.Now().After(deadline), "the process didn't join again")
	}
	must.Hold(t, !n.MayScale(lead) && !n.takeBy(lead), "the lead from before the removal is still valid")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if job, err := n.Get(t.Context(), "ep", id); err == nil && job.State == engine.InQueue && job.Retries == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("its running job was not requeued: %+v, %v", job, err)
		}
	}
	again, ok := n.claim()
	must.Hold(t, ok && again.Epoch == 2, "the second claim:", again, ok)
}

// If the reply to a successful commit is lost, nothing is done twice and nothing is lost.
func TestLostReplyToACommit(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	n := startNode(t, sqldb.Config{URL: proxyURL, NoHints: true}, never) // no poll: it would commit in between
	expectUnknown := func(what string, err error) {
		t.Helper()
		must.FailWith(t, err, sqldb.ErrUnavailable, what)
	}
	for round := range 5 {
		id := n.submit(engine.NewJob{})
		proxy.LoseCommit()
		_, err := n.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
		expectUnknown("a take", err)
		job := n.take()
		must.Require(t, job.ID == id && job.Retries == 0, "after a take whose outcome is unknown:", job)
		report := func(lose bool, r engine.Report) {
			t.Helper()
			if lose {
				proxy.LoseCommit()
			}
			got, err := n.Report(t.Context(), job.Ref, r)
			must.Hold(t, err == nil && (!lose || got == engine.SpooledInMemory), "the report returned", got, err)
		}
		for chunk := range 4 {
			report(chunk%2 == 0, engine.Chunk(fmt.Appendf(nil, "%d", chunk), nil))
			if chunk == round%4 { // otherwise the next report is spooled behind it
				must.Equal(t, n.Delivered(t.Context(), job.Ref), nil)
			}
		}
		must.Equal(t, n.Delivered(t.Context(), job.Ref), nil)
		report(true, engine.Done([]byte(`"output"`)))
		must.Equal(t, n.Delivered(t.Context(), job.Ref), nil)
		must.Equal(t, string(n.is(id, engine.Completed).Output), `"output"`, "output")
		proxy.LoseCommit()
		_, _, _, err = n.Drain(t.Context(), "ep", id)
		expectUnknown("a read of the stream", err)
		_, chunks, _, err := n.Drain(t.Context(), "ep", id)
		got := fmt.Sprintf("%s", chunks)
		must.Hold(t, err == nil && got == `[{"output":0} {"output":1} {"output":2} {"output":3}]`, "the stream has", got, err)
		if _, chunks, _, err := n.Drain(t.Context(), "ep", id); err != nil || len(chunks) > 0 {
			t.Errorf("the stream still has %s, %v", chunks, err)
		}
	}
}

// A result that arrived in time counts, even if the job's timeout passed during a database outage.
func TestResultIsInTime(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	now := new(clock.Clock)
	e := newTester(t, sqldb.Config{URL: proxyURL, NoHints: true}, func(c *engine.Config) { c.Clock, c.Spool = now, t.TempDir() })
	for round := range 6 {
		e.submit(engine.NewJob{})
		job := e.take(engine.Take{})
		late := round%2 == 1
		if late {
			now.Advance(engine.DefaultTimeout)
		}
		proxy.Cut()
		if got, err := e.Report(t.Context(), job.Ref, engine.Done([]byte("1"))); err != nil || got != engine.Spooled && !late {
			t.Errorf("the report returned %v, %v", got, err)
		}
		now.Advance(2 * engine.DefaultTimeout)
		proxy.Mend(t)
		got, err := e.Get(t.Context(), "ep", job.ID)
		for err != nil && errors.Is(err, sqldb.ErrUnavailable) {
			got, err = e.Get(t.Context(), "ep", job.ID)
		}
		want := engine.Completed
		if late {
			want = engine.TimedOut
		}
		for got.State == engine.InProgress { // the first delivery may have failed
			got = must.Do(e.Get(t.Context(), "ep", job.ID))(t)
		}
		must.Hold(t, err == nil && got.State == want && got.Execution <= engine.DefaultTimeout, "round", round, "the job is", got.State, "after", got.Execution, err, want)
	}
}
