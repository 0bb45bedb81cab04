package engine_test

import (
	"errors"
	"fmt"
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
	return &node{newTester(t, c, func(c *engine.Config) { c.SetPoll(poll) })}
}

func (n *node) take() engine.Taken {
	n.Helper()
	return must.Do(n.Take(n.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1}))(n)[0]
}

// A process rejects changes of jobs whose endpoint another process leads, but reads their stored states.
func TestOtherProcessLeads(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoNotify: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		id := a.submit(engine.NewJob{})
		ref := a.take().Ref
		a.report(ref, engine.Chunk([]byte("1"), nil), engine.Accepted)
		b.expectState(id, engine.InProgress)
		must.Equal(t, b.Counts("ep"), a.Counts("ep"), "the counts that the other process reads")
		for what, err := range map[string]error{
			"a submission": must.Err(b.Submit(b.ctx, engine.NewJob{Endpoint: "ep", Input: []byte("{}")})),
			"a take":       must.Err(b.TakeQueued(b.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1})),
			"a report":     must.Err(b.Report(b.ctx, ref, engine.Done(nil))),
			"a cancel":     must.Err(b.Cancel(b.ctx, "ep", id)),
			"a purge":      must.Err(b.Purge(b.ctx, "ep")),
			"a batch":      must.Err(b.CreateBatch(b.ctx, "ep", nil)),
		} {
			must.ErrorIs(t, err, engine.ErrNotLeader, what)
		}
		must.Do(a.CreateBatch(a.ctx, "ep", nil))(t)
		_, n, err := b.Batches(b.ctx, "ep", 0, 10)
		must.Hold(t, n == 1 && err == nil, "the other process reads", n, "batches, want 1;", err)
		time.Sleep(engine.DefaultTimeout) // the leader records the timeout; other processes see it at once
		b.expectState(id, engine.TimedOut)
	})
}

// A stopping process requeues its jobs. If a process dies, the next leader requeues its jobs, which counts
// a retry. If the process that seemed dead is alive, it can't store anything any more.
func TestProcessStopsOrDies(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoNotify: true}
	proxy, proxyURL := pgtest.NewProxy(t, c.URL) // a process behind a cut proxy looks dead
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, sqldb.Config{URL: proxyURL, NoNotify: true}, 0), startNode(t, c, 0)
		id, job := a.submit(engine.NewJob{}), a.take()
		time.Sleep(time.Minute + time.Second/4) // between two polls: the database may commit a heartbeat after the cut
		proxy.Cut()
		a.report(job.Ref, engine.Done(nil), engine.SpooledInMemory)
		time.Sleep(4 * time.Second)
		_, ok := b.claim()
		must.Hold(t, !ok, "another process took over from a live one")
		time.Sleep(2 * time.Second)
		_, ok = b.claim()
		must.Require(t, ok, "no process took over")
		must.Equal(t, b.expectState(id, engine.InQueue).Retries, 1, "the retries after the process died")
		again := b.take()
		must.Hold(t, again.ID == id && again.Attempt == job.Attempt+1, "took", again)

		proxy.Mend(t)
		time.Sleep(10 * time.Second)
		b.expectState(id, engine.InProgress) // the result of the former leader isn't stored under its new id
		must.ErrorIs(t, must.Err(a.Submit(a.ctx, engine.NewJob{Endpoint: "ep", Input: []byte("{}")})), engine.ErrNotLeader)
		b.expectState(id, engine.InProgress)
		b.stop()
		third := startNode(t, c, 0)
		third.claim()
		must.Equal(t, third.expectState(id, engine.InQueue).Retries, 1, "the retries after the next process stopped")
	})
}

// During an outage of the database no process counts as dead.
func TestSharedOutage(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	c := sqldb.Config{URL: proxyURL, NoNotify: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		id := a.submit(engine.NewJob{})
		job := a.take()
		cancelled := a.submit(engine.NewJob{})
		submit := func() error {
			return must.Err(a.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}")}))
		}
		createBatch := func() error { return must.Err(a.CreateBatch(t.Context(), "ep", inputs(1))) }
		for _, call := range []func() error{submit, createBatch, submit} {
			time.Sleep(3 * time.Second)
			proxy.Cut()
			must.ErrorIs(t, call(), sqldb.ErrUnavailable, "a call during an outage of the database")
			must.ErrorIs(t, must.Err(a.Cancel(t.Context(), "ep", cancelled)), sqldb.ErrUnavailable, "a cancel during the outage")
			time.Sleep(time.Minute)
			proxy.Mend(t)
		}
		time.Sleep(10 * time.Second)
		b.expectState(id, engine.InProgress)
		b.expectState(cancelled, engine.Cancelled)
		a.report(job.Ref, engine.Done(nil), engine.Accepted)
		_, batches, err := a.Batches(t.Context(), "ep", 0, 1)
		must.Hold(t, err == nil && batches == 0, batches, "batches exist", err)
		a.expectCounts(engine.Counts{Completed: 1}) // the submissions are withdrawn
		b.expectCounts(engine.Counts{Completed: 1})
	})
}

// Reports that are spooled during an outage outlive their process.
func TestSpooledReports(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		start := func() *node {
			return &node{newTester(t, sqldb.Config{URL: proxyURL, NoNotify: true}, func(c *engine.Config) { c.DataDir = dir; c.SetPoll(0) })}
		}
		a := start()
		id, job := a.submit(engine.NewJob{}), a.take()
		a.report(job.Ref, engine.Chunk([]byte("1"), nil), engine.Accepted)
		proxy.Cut()
		a.report(job.Ref, engine.Chunk([]byte("2"), nil), engine.Spooled)
		a.report(job.Ref, engine.Done([]byte("3")), engine.Spooled)
		a.stop()
		proxy.Mend(t)
		b := start()
		time.Sleep(10 * time.Second) // until a counts as dead
		_, ok := b.claim()
		must.Require(t, ok, "the next process can't claim the endpoint")
		must.Equal(t, string(b.expectState(id, engine.Completed).Output), "3", "the output")
		_, chunks, _, err := b.Drain(t.Context(), "ep", id, engine.MaxDrain)
		must.Equal(t, fmt.Sprintf("%s %v", chunks, err), `[{"output":1} {"output":2}] <nil>`, "the stream")
	})
}

// takeWith takes a job with a leadership, which may be outdated.
func (n *node) takeWith(l engine.Leadership) (ok bool) {
	n.Helper()
	jobs, err := n.TakeQueued(n.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1, Leadership: l})
	must.Hold(n, err == nil || errors.Is(err, engine.ErrNotLeader), err)
	return len(jobs) > 0
}

func (n *node) claim() (l engine.Leadership, ok bool) {
	n.Helper()
	l, ok = must.Do(n.Claim(n.ctx, "ep"))(n)["ep"]
	return l, ok
}

// One process leads an endpoint. After its release or death another can claim it, and the old epoch takes no jobs.
func TestLeadership(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	// A process without a heartbeat for ten polls is removed. With shorter polls, a busy process could be removed, too.
	const poll = 500 * time.Millisecond
	b := startNode(t, sqldb.Config{URL: address}, noPoll) // sends no heartbeat
	a := startNode(t, sqldb.Config{URL: address}, poll)
	first, ok := b.claim()
	must.Require(t, ok && first.Epoch == 1, "the first claim:", first, ok)
	again, ok := b.claim()
	must.Hold(t, ok && again == first, "the second claim:", again, ok)
	if l, ok := a.claim(); ok {
		t.Errorf("two processes lead at once: %+v", l)
	}
	b.submit(engine.NewJob{})
	must.Hold(t, b.takeWith(first), "the leader took no job")
	var second engine.Leadership
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if second, ok = a.claim(); ok {
			break
		}
		must.Require(t, !time.Now().After(deadline), "no process took over from one without a heartbeat")
	}
	must.Hold(t, second.Epoch == 2 && !a.MayScale(first), "the second leadership is", second, "and MayScale(first) is", a.MayScale(first))
	for deadline := time.Now().Add(time.Minute); !a.MayScale(second); time.Sleep(10 * time.Millisecond) { // needs a recent heartbeat
		must.Require(t, !time.Now().After(deadline), "MayScale still rejects the new leader")
	}
	a.submit(engine.NewJob{})
	must.Hold(t, !b.takeWith(first), "the former leader took a job")
	_, ok = b.claim()
	must.Hold(t, !ok, "a removed process claimed the endpoint")
	must.Hold(t, a.takeWith(second), "the new leader took no job")
	must.Succeed(t, a.Release(t.Context(), "ep", second))
	third, ok := startNode(t, sqldb.Config{URL: address}, poll).claim()
	must.Hold(t, ok && third.Epoch == 3, "claiming a released endpoint:", third, ok)
	leaders, err := a.Leaders(t.Context())
	l := leaders["ep"]
	must.Hold(t, err == nil && !l.Own && l.Epoch == 3, "the leader is", l, err)
}

// A process doesn't lead an endpoint if its claim wasn't committed, because another process may claim the endpoint.
func TestFailedClaim(t *testing.T) {
	address := pgtest.Start(t)
	n := startNode(t, sqldb.Config{URL: address}, noPoll)
	pgtest.Exec(t, address, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'down' USING ERRCODE = 'admin_shutdown'; END $$`)
	pgtest.Exec(t, address, `CREATE CONSTRAINT TRIGGER fail_commit AFTER INSERT ON leads DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`)
	must.ErrorIs(t, must.Err(n.Claim(t.Context(), "ep")), sqldb.ErrUnavailable)
	_, own := n.Epoch("ep")
	must.Hold(t, !own, "the process leads the endpoint")
}

// A removed process joins again by itself, with a new id.
func TestRemovedProcessJoinsAgain(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	n := startNode(t, sqldb.Config{URL: address}, 20*time.Millisecond)
	l, ok := n.claim()
	must.Require(t, ok, "the only process can't claim the endpoint")
	id := n.submit(engine.NewJob{})
	must.Require(t, n.takeWith(l), "the leader took no job")
	n.expectState(id, engine.InProgress) // waits for the commit of the take
	pgtest.Exec(t, address, "DELETE FROM processes")
	for deadline := time.Now().Add(time.Minute); n.Process() == l.Process; time.Sleep(10 * time.Millisecond) {
		must.Require(t, !time.Now().After(deadline), "the process didn't join again")
	}
	must.Hold(t, !n.MayScale(l) && !n.takeWith(l), "the leadership from before the removal is still valid")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if job, err := n.Get(t.Context(), "ep", id); err == nil && job.State == engine.InQueue && job.Retries == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the running job of the removed process was not requeued: %+v, %v", job, err)
		}
	}
	again, ok := n.claim()
	must.Hold(t, ok && again.Epoch == 2, "the second claim returned", again, ok)
}

// If the reply to a successful commit is lost, nothing is done twice and nothing is lost.
func TestLostReplyToACommit(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	n := startNode(t, sqldb.Config{URL: proxyURL, NoNotify: true}, noPoll) // a poll would commit in between
	n.claim()
	var ids []string
	for range 17 {
		proxy.LoseCommit()
		id := n.submit(engine.NewJob{})
		ids = append(ids, id)
		taken := n.take()
		must.Equal(t, n.WaitUntilStored(t.Context(), taken.Ref), nil)
		report := func(loseReply bool, r engine.Report) {
			t.Helper()
			if loseReply {
				proxy.LoseCommit()
			}
			n.report(taken.Ref, r, engine.Accepted)
		}
		for chunk := range 4 {
			report(chunk%2 == 0, engine.Chunk(fmt.Appendf(nil, "%d", chunk), nil))
		}
		report(true, engine.Done([]byte(`"output"`)))
		must.Equal(t, string(n.expectState(id, engine.Completed).Output), `"output"`, "the output")
		proxy.LoseCommit()
		_, _, _, err := n.Drain(t.Context(), "ep", id, engine.MaxDrain)
		must.ErrorIs(t, err, sqldb.ErrUnavailable, "a read of the stream")
	}
	for _, id := range ids {
		_, chunks, _, err := n.Drain(t.Context(), "ep", id, engine.MaxDrain)
		got := fmt.Sprintf("%s", chunks)
		must.Hold(t, err == nil && got == `[{"output":0} {"output":1} {"output":2} {"output":3}]`, "the stream has", got, err)
		_, chunks, _, err = n.Drain(t.Context(), "ep", id, engine.MaxDrain)
		must.Hold(t, err == nil && len(chunks) == 0, "the stream still has", len(chunks), "chunks", err)
	}
	n.expectCounts(engine.Counts{Completed: 17})
}

// If the reply to the commit of a chunk was lost, the commit is repeated, but the chunk is read once.
func TestUncertainChunkIsReadOnce(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	n := startNode(t, sqldb.Config{URL: proxyURL, NoNotify: true}, noPoll)
	id, taken := n.submit(engine.NewJob{}), n.take()
	must.Succeed(t, n.WaitUntilStored(t.Context(), taken.Ref))
	proxy.CutAtCommit()
	n.report(taken.Ref, engine.Chunk([]byte("1"), nil), engine.SpooledInMemory)
	proxy.Mend(t)
	_, first, _, err := n.Drain(t.Context(), "ep", id, engine.MaxDrain)
	must.Succeed(t, n.WaitUntilStored(t.Context(), taken.Ref))
	_, second, _, secondErr := n.Drain(t.Context(), "ep", id, engine.MaxDrain)
	must.Hold(t, secondErr == nil && len(first)+len(second) == 1, "read", first, err, "and then", second, secondErr)
}

// A result that arrived in time counts, even if the job's timeout passed during a database outage. A late result doesn't.
func TestResultInTimeCounts(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	engineClock := new(clock.Clock)
	e := newTester(t, sqldb.Config{URL: proxyURL, NoNotify: true}, func(c *engine.Config) { c.Clock, c.DataDir = engineClock, t.TempDir() })
	for round := range 6 {
		e.submit(engine.NewJob{})
		job := e.take(engine.Take{})
		must.Succeed(t, e.WaitUntilStored(t.Context(), job.Ref))
		late := round%2 == 1
		if late {
			engineClock.Advance(engine.DefaultTimeout)
		}
		proxy.Cut()
		result, err := e.Report(t.Context(), job.Ref, engine.Done([]byte("1")))
		must.Hold(t, err == nil && (result == engine.Spooled || late), "the report returned", result, err)
		engineClock.Advance(2 * engine.DefaultTimeout)
		proxy.Mend(t)
		got, err := e.Get(t.Context(), "ep", job.ID)
		for err != nil && errors.Is(err, sqldb.ErrUnavailable) {
			got, err = e.Get(t.Context(), "ep", job.ID)
		}
		want := engine.Completed
		if late {
			want = engine.TimedOut
		}
		for !got.State.Terminal() { // until the commit is repeated
			got = must.Do(e.Get(t.Context(), "ep", job.ID))(t)
		}
		must.Succeed(t, e.WaitUntilStored(t.Context(), job.Ref))
		must.Hold(t, err == nil && got.State == want && got.Execution <= engine.DefaultTimeout, "in round", round, "the job is", got.State, "after", got.Execution, err, "want", want)
	}
}
