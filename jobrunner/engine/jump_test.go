package engine_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// jumps runs a test with an engine whose clock's time of day jumps by the durations that the
// test passes to jump.
func jumps(t *testing.T, test func(t *tester, jump func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var by atomic.Int64
		wall := func() time.Time { return time.Now().Add(time.Duration(by.Load())).Round(0) }
		e := newTester(t, sqldb.Config{}, func(c *engine.Config) { c.Clock = clock.New(wall) })
		test(e, func(d time.Duration) { by.Add(int64(d)) })
	})
}

// If a machine has slept, running jobs continue, and the time of the sleep doesn't count.
func TestClockJumpsForward(t *testing.T) {
	jumps(t, func(t *tester, jump func(time.Duration)) {
		running, queued := t.submit(engine.NewJob{TTL: time.Hour}), t.submit(engine.NewJob{TTL: time.Hour})
		first := t.take(engine.Take{})
		must.Require(t, first.ID == running, "the jobs were taken in another order")
		jump(2 * time.Hour)
		t.advance(time.Minute)
		t.is(running, engine.InProgress)
		second := t.take(engine.Take{}) // hasn't expired either
		for _, job := range []engine.Taken{first, second} {
			t.report(job.Ref, engine.Done([]byte("1")), engine.Accepted)
		}
		job := t.is(running, engine.Completed)
		must.Hold(t, job.Execution == time.Minute && job.Delay == 0, "it waited", job.Delay, "and ran", job.Execution)
		job = t.is(queued, engine.Completed)
		must.Hold(t, job.Execution == 0 && job.Delay == time.Minute, "it waited", job.Delay, "and ran", job.Execution)
		jump(2 * time.Hour)
		t.advance(29 * time.Minute)
		t.is(queued, engine.Completed) // the retention doesn't count the sleep either
		t.advance(time.Minute)
		t.is(queued, "")
	})
}

// If the clock is set back, no timeout gets longer and no duration negative, in the same
// process and after a restart.
func TestClockJumpsBackward(t *testing.T) {
	jumps(t, func(t *tester, jump func(time.Duration)) {
		late, short := t.submit(engine.NewJob{TTL: 0}), t.submit(engine.NewJob{TTL: time.Minute})
		t.advance(time.Second)
		t.take(engine.Take{})
		jump(-2 * time.Hour)
		t.advance(time.Minute)
		t.is(short, "")
		t.is(late, engine.InProgress)
		t.advance(engine.DefaultTimeout)
		job := t.is(late, engine.TimedOut)
		must.Hold(t, job.Execution == engine.DefaultTimeout && job.Delay == time.Second, "it waited", job.Delay, "and ran", job.Execution)

		short = t.submit(engine.NewJob{TTL: time.Minute})
		t.restart() // the restarted engine reads the time of day, which is now two hours earlier
		t.advance(30 * time.Second)
		t.is(short, engine.InQueue)
		t.advance(31 * time.Second)
		t.is(short, "")
		t.is(late, engine.TimedOut)
		t.advance(time.Hour)
		t.is(late, "")
	})
}

// The clocks of processes that share a database differ by some milliseconds. A purge by a
// process whose clock is behind also removes jobs that another process submitted or retried
// before the purge.
func TestPurgeBetweenClocks(t *testing.T) {
	address := pgtest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		const skew = 50 * time.Millisecond
		start := func(wall func() time.Time) *node {
			return &node{newTester(t, sqldb.Config{URL: address, NoHints: true}, func(c *engine.Config) { c.Clock = clock.New(wall) })}
		}
		behind := start(time.Now)
		ahead := start(func() time.Time { return time.Now().Add(skew) })
		for _, c := range []struct {
			name            string
			queued, purging *node
		}{{"purged by the one behind", ahead, behind}, {"purged by the one ahead", behind, ahead}} {
			failed := c.queued.submit(engine.NewJob{})
			job := c.queued.take()
			d, err := c.queued.Report(t.Context(), job.Ref, engine.Fail("failed", nil))
			must.Require(t, err == nil && d == engine.Accepted, d, err)
			waiting := []string{c.queued.submit(engine.NewJob{}), c.queued.submit(engine.NewJob{}), failed}
			must.Do(c.queued.Retry(t.Context(), "ep", failed))(t)
			must.Equal(t, must.Do(c.purging.Purge(t.Context(), "ep"))(t), len(waiting), c.name, "removed")
			for _, n := range []*node{c.queued, c.purging} {
				for _, id := range waiting {
					job, err := n.Get(t.Context(), "ep", id)
					must.Hold(t, err != nil, c.name, "job", id, "is", job.State)
				}
			}
		}
	})
}
