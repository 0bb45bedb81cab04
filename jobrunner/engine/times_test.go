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
)

// expectChange checks that the job changes its state after a duration, and not a millisecond earlier.
func (t *tester) expectChange(id string, d time.Duration, from, to engine.State) {
	t.Helper()
	t.advance(d - ms)
	t.expectState(id, from)
	t.advance(ms)
	t.expectState(id, to)
}

func testTTL(t *tester) {
	const ttl = 10 * time.Second
	for state, reach := range map[engine.State]func(id string){
		engine.InQueue:    func(string) {},
		engine.InProgress: func(string) { t.take(engine.Take{}) },
		engine.Completed:  func(string) { t.report(t.take(engine.Take{}).Ref, engine.Done(nil), engine.Accepted) },
		engine.Failed:     func(string) { t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted) },
		engine.TimedOut:   func(string) { t.take(engine.Take{Timeout: 5 * time.Second}); t.advance(5 * time.Second) },
		engine.Cancelled:  func(id string) { must.Equal(t, must.Err(t.Cancel(t.ctx, "ep", id)), nil) },
	} {
		id := t.submit(engine.NewJob{TTL: ttl})
		reach(id)
		rest := ttl
		if state == engine.TimedOut {
			rest -= 5 * time.Second
		}
		t.expectChange(id, rest, state, "")
		must.ErrorIs(t, must.Err(t.Cancel(t.ctx, "ep", id)), engine.ErrNotFound, "cancel of a job whose ttl passed")
		t.expectEmptyQueue("ep")
	}
	t.expectCounts(engine.Counts{Completed: 1, Failed: 1})

	// The ttl counts from the submission, through queue and execution.
	id := t.submit(engine.NewJob{TTL: 20 * time.Second})
	t.advance(15 * time.Second)
	t.take(engine.Take{})
	t.expectChange(id, 5*time.Second, engine.InProgress, "")

	// The default ttl.
	id = t.submit(engine.NewJob{})
	t.expectChange(id, 24*time.Hour, engine.InQueue, "")
}

func testSevenDays(t *tester) {
	const day = 24 * time.Hour
	id := t.submit(engine.NewJob{TTL: 7 * day, Timeout: 7 * day})
	t.advance(2 * day)
	must.Equal(t, t.take(engine.Take{}).Delay, 2*day, "waited")
	t.expectChange(id, 5*day, engine.InProgress, "")
}

func testSetTTL(t *tester) {
	set := func(id string, ttl time.Duration) {
		t.Helper()
		must.Equal(t, t.SetTTL(t.ctx, "ep", id, ttl), nil)
	}
	id := t.submit(engine.NewJob{})
	t.advance(4 * time.Second)
	set(id, 10*time.Second)
	t.expectChange(id, 6*time.Second, engine.InQueue, "")
	must.ErrorIs(t, t.SetTTL(t.ctx, "ep", id, time.Hour), engine.ErrNotFound, "setting the ttl of a deleted job")

	// A longer ttl, and a ttl that is over already.
	id = t.submit(engine.NewJob{TTL: 10 * time.Second})
	set(id, time.Minute)
	t.expectChange(id, time.Minute, engine.InQueue, "")
	id = t.submit(engine.NewJob{})
	t.advance(time.Minute)
	set(id, 10*time.Second)
	t.expectState(id, "")
	synctest.Wait()
	t.expectCounts(engine.Counts{})

	// A ttl that ends after the retention doesn't extend it. One that ends earlier takes precedence.
	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Done(nil), engine.Accepted)
	set(id, time.Hour)
	t.expectChange(id, 30*time.Minute, engine.Completed, "")
	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Done(nil), engine.Accepted)
	set(id, time.Minute)
	t.expectChange(id, time.Minute, engine.Completed, "")
}

func testTimeout(t *tester) {
	for _, c := range []struct{ job, endpoint, want time.Duration }{
		{0, 0, 10 * time.Minute},
		{0, time.Minute, time.Minute},
		{5 * time.Second, time.Minute, 5 * time.Second},
		{time.Hour, time.Minute, time.Hour},
	} {
		id := t.submit(engine.NewJob{Timeout: c.job})
		t.advance(20 * time.Minute) // time in the queue doesn't count
		job := t.take(engine.Take{Timeout: c.endpoint})
		t.expectChange(id, c.want, engine.InProgress, engine.TimedOut)
		late := t.expectState(id, engine.TimedOut)
		must.Hold(t, late.Execution == c.want && late.Delay == 20*time.Minute, "timed out after", late.Execution, "delay", late.Delay)
		t.report(job.Ref, engine.Done(nil), engine.Stale)
		t.expectChange(id, 30*time.Minute, engine.TimedOut, "")
	}
	t.expectCounts(engine.Counts{})

	// A report in the last millisecond counts.
	id := t.submit(engine.NewJob{Timeout: 5 * time.Second})
	job := t.take(engine.Take{})
	t.advance(5*time.Second - ms)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	t.expectState(id, engine.Completed)
}

func testRetention(t *tester) {
	for _, c := range []struct {
		name string
		job  engine.NewJob
		want time.Duration
	}{
		{"run", engine.NewJob{}, 30 * time.Minute},
		{"runsync", engine.NewJob{Sync: true}, time.Minute},
		{"runsync with a short wait", engine.NewJob{Sync: true, Wait: time.Second}, time.Minute},
		{"runsync with a wait", engine.NewJob{Sync: true, Wait: 2 * time.Minute}, 2 * time.Minute},
		{"runsync with the longest wait", engine.NewJob{Sync: true, Wait: 5 * time.Minute}, 5 * time.Minute},
	} {
		id := t.submit(c.job)
		job := t.take(engine.Take{Timeout: time.Hour})
		t.advance(20 * time.Minute) // the retention counts from the end
		t.report(job.Ref, engine.Done(nil), engine.Accepted)
		t.advance(c.want / 2)
		t.expectState(id, engine.Completed) // reading doesn't extend it
		t.Logf("%s", c.name)
		t.expectChange(id, c.want-c.want/2, engine.Completed, "")
	}
	// The job is deleted at the end of its ttl if that is earlier.
	id := t.submit(engine.NewJob{TTL: 20 * time.Second})
	t.report(t.take(engine.Take{}).Ref, engine.Done(nil), engine.Accepted)
	t.expectChange(id, 20*time.Second, engine.Completed, "")
}

func testLost(t *tester) {
	id := t.submit(engine.NewJob{})
	next := t.submit(engine.NewJob{})
	t.advance(time.Second)
	job := t.take(engine.Take{})
	t.report(job.Ref, engine.Progress([]byte(`"old"`)), engine.Accepted)
	t.advance(time.Second)
	t.report(job.Ref, engine.Lost(), engine.Accepted)
	got := t.expectState(id, engine.InQueue)
	must.Hold(t, got.Retries == 1 && got.Output == nil && got.Worker == "" && got.Delay == 0, "lost once:", got)
	t.expectCounts(engine.Counts{InQueue: 2, Retried: 1})
	t.advance(3 * time.Second)
	second := t.take(engine.Take{Worker: "w2"})
	must.Hold(t, second.ID == id && second.Retries == 1 && second.Attempt == 2 && second.Delay == 3*time.Second, "the second take", second, "expected it before", next)
	t.advance(4 * time.Second)
	t.report(second.Ref, engine.Lost(), engine.Accepted)
	failed := t.expectState(id, engine.Failed)
	must.Hold(t, failed.Retries == 1 && failed.Error == "job timed out after 1 retries: its worker died" && failed.Execution == 4*time.Second &&
		failed.Delay == 3*time.Second, "lost twice:", failed)
	t.expectCounts(engine.Counts{InQueue: 1, Failed: 1, Retried: 1})
	t.expectChange(id, 30*time.Minute, engine.Failed, "")
	t.expectCounts(engine.Counts{InQueue: 1, Failed: 1, Retried: 1})
}

func testRestart(t *tester) {
	var running []string
	for range 2 {
		running = append(running, t.submit(engine.NewJob{Timeout: 5 * time.Second}))
	}
	low := t.submit(engine.NewJob{Low: true})
	job := t.take(engine.Take{})
	t.report(job.Ref, engine.Progress([]byte(`"old"`)), engine.Accepted)
	t.take(engine.Take{})
	done := t.submit(engine.NewJob{Endpoint: "ep2"})
	t.report(t.take(engine.Take{Endpoint: "ep2"}).Ref, engine.Done([]byte(`1`)), engine.Accepted)

	t.restart()
	for _, id := range running {
		job := t.expectState(id, engine.InQueue)
		must.Hold(t, job.Retries == 0 && job.Output == nil && job.Worker == "", "after a restart", job)
	}
	t.expectState(low, engine.InQueue)
	must.Equal(t, string(must.Do(t.Get(t.ctx, "ep2", done))(t).Output), "1", "the output of the finished job")
	t.expectCounts(engine.Counts{InQueue: 3})
	load := must.Do(t.Load(t.ctx, "ep"))(t)
	must.Hold(t, load.Waiting == 2, "waiting jobs that aren't low", load)
	t.report(job.Ref, engine.Done(nil), engine.Stale)
	t.advance(10 * time.Second) // longer than the timeout; the restart ended the execution that it limited
	for _, id := range running {
		job := t.take(engine.Take{})
		must.Hold(t, job.ID == id && job.Delay == 10*time.Second, "taken after the restart", job, id)
	}
	// The execution timeout ends a job even if nothing reads the job.
	t.expectChange(running[0], 5*time.Second, engine.InProgress, engine.TimedOut)

	// Counts outlive restarts and the jobs themselves.
	t.advance(31 * time.Minute)
	t.restart()
	c := t.Counts("ep2")
	must.Hold(t, c.Completed == 1, "counts", c)
}

func testCounts(t *tester) {
	t.expectCounts(engine.Counts{})
	for range 5 {
		t.submit(engine.NewJob{})
	}
	t.submit(engine.NewJob{Endpoint: "other"})
	t.expectCounts(engine.Counts{InQueue: 5})
	a, b := t.take(engine.Take{}), t.take(engine.Take{})
	t.expectCounts(engine.Counts{InQueue: 3, InProgress: 2})
	t.report(a.Ref, engine.Done(nil), engine.Accepted)
	t.report(b.Ref, engine.Fail("x", nil), engine.Accepted)
	t.expectCounts(engine.Counts{InQueue: 3, Completed: 1, Failed: 1})
	for _, id := range []string{t.take(engine.Take{}).ID, t.submit(engine.NewJob{})} {
		must.Equal(t, must.Err(t.Cancel(t.ctx, "ep", id)), nil)
	}
	t.expectCounts(engine.Counts{InQueue: 2, Completed: 1, Failed: 1})
	t.advance(24 * time.Hour)
	t.expectCounts(engine.Counts{Completed: 1, Failed: 1})
	t.restart()
	t.expectCounts(engine.Counts{Completed: 1, Failed: 1})
}

func testLoad(t *tester) {
	expectLoad := func(want engine.Load) {
		t.Helper()
		got, err := t.Load(t.ctx, "ep")
		must.Hold(t, err == nil && got.Waiting == want.Waiting && got.Running == want.Running && got.Oldest.Equal(want.Oldest), "load is", got, err, want)
	}
	expectLoad(engine.Load{})
	t.submit(engine.NewJob{Low: true})
	expectLoad(engine.Load{})
	first := time.Now()
	t.submit(engine.NewJob{})
	t.advance(time.Second)
	second := time.Now()
	t.submit(engine.NewJob{})
	expectLoad(engine.Load{Waiting: 2, Oldest: first})
	t.take(engine.Take{})
	expectLoad(engine.Load{Waiting: 2, Running: 1, Oldest: first})
	t.take(engine.Take{})
	expectLoad(engine.Load{Waiting: 1, Running: 2, Oldest: second})
}

// withClockJumps runs a test with an engine and a function that moves its clock's time of day.
func withClockJumps(t *testing.T, test func(t *tester, jump func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		wall := func() time.Time { return time.Now().Add(time.Duration(offset.Load())).Round(0) }
		e := newTester(t, sqldb.Config{}, func(c *engine.Config) { c.Clock = clock.New(wall) })
		test(e, func(d time.Duration) { offset.Add(int64(d)) })
	})
}

// If a machine has slept, running jobs continue, and the time of the sleep doesn't count.
func TestClockJumpsForward(t *testing.T) {
	withClockJumps(t, func(t *tester, jump func(time.Duration)) {
		running, queued := t.submit(engine.NewJob{TTL: time.Hour}), t.submit(engine.NewJob{TTL: time.Hour})
		first := t.take(engine.Take{})
		must.Require(t, first.ID == running, "the jobs were taken in another order")
		jump(2 * time.Hour)
		t.advance(time.Minute)
		t.expectState(running, engine.InProgress)
		second := t.take(engine.Take{}) // hasn't expired either
		for _, job := range []engine.Taken{first, second} {
			t.report(job.Ref, engine.Done([]byte("1")), engine.Accepted)
		}
		job := t.expectState(running, engine.Completed)
		must.Hold(t, job.Execution == time.Minute && job.Delay == 0, "it waited", job.Delay, "and ran", job.Execution)
		job = t.expectState(queued, engine.Completed)
		must.Hold(t, job.Execution == 0 && job.Delay == time.Minute, "it waited", job.Delay, "and ran", job.Execution)
		jump(2 * time.Hour)
		t.advance(29 * time.Minute)
		t.expectState(queued, engine.Completed) // the retention doesn't count the sleep either
		t.advance(time.Minute)
		t.expectState(queued, "")
	})
}

// If the clock is set back, also before a restart, no timeout gets longer and no duration negative.
func TestClockJumpsBackward(t *testing.T) {
	withClockJumps(t, func(t *tester, jump func(time.Duration)) {
		late, short := t.submit(engine.NewJob{TTL: 0}), t.submit(engine.NewJob{TTL: time.Minute})
		t.advance(time.Second)
		t.take(engine.Take{})
		jump(-2 * time.Hour)
		t.advance(time.Minute)
		t.expectState(short, "")
		t.expectState(late, engine.InProgress)
		t.advance(engine.DefaultTimeout)
		job := t.expectState(late, engine.TimedOut)
		must.Hold(t, job.Execution == engine.DefaultTimeout && job.Delay == time.Second, "it waited", job.Delay, "and ran", job.Execution)

		short = t.submit(engine.NewJob{TTL: time.Minute})
		t.restart() // the restarted engine reads the time of day, which is now two hours earlier
		t.advance(30 * time.Second)
		t.expectState(short, engine.InQueue)
		t.advance(31 * time.Second)
		t.expectState(short, "")
		t.expectState(late, engine.TimedOut)
		t.advance(time.Hour)
		t.expectState(late, "")
	})
}

// A running job whose ttl ends leaves no rows.
func TestDeletedJobLeavesNoRows(t *testing.T) {
	c := sqldb.Config{Dir: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		s := newTester(t, c, nil)
		s.submit(engine.NewJob{TTL: time.Minute})
		ref := s.take(engine.Take{}).Ref
		s.report(ref, engine.Chunk([]byte("1"), nil), engine.Accepted)
		s.report(ref, engine.Progress([]byte("2")), engine.Accepted)
		s.advance(time.Hour)
		var rows int
		must.Succeed(t, s.db.Read(s.ctx, func(r *sqldb.Reader) error {
			return r.QueryRow("SELECT (SELECT COUNT(*) FROM jobs) + (SELECT COUNT(*) FROM inputs) + (SELECT COUNT(*) FROM outputs) + (SELECT COUNT(*) FROM chunks)").Scan(&rows)
		}))
		must.Equal(t, rows, 0, "rows")
	})
}
