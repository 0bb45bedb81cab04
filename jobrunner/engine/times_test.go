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

// withClockJumps runs a test with an engine and a function that moves its clock's time of day.
func withClockJumps(t *testing.T, db sqldb.Config, test func(t *tester, jump func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		wall := func() time.Time { return time.Now().Add(time.Duration(offset.Load())).Round(0) }
		e := newTester(t, db, func(c *engine.Config) { c.Clock, c.Node.FolderID = clock.New(wall), "folder" })
		test(e, func(d time.Duration) { offset.Add(int64(d)) })
	})
}

// If a machine has slept, running jobs continue, and the time of the sleep doesn't count.
func TestClockJumpsForward(t *testing.T) {
	withClockJumps(t, sqldb.Config{}, func(t *tester, jump func(time.Duration)) {
		running, queued := t.submit(engine.NewJob{TTL: time.Hour}), t.submit(engine.NewJob{TTL: time.Hour})
		first := t.take(engine.Take{})
		must.Require(t, first.ID == running, "the jobs were taken in another order")
		jump(2 * time.Hour)
		t.advance(time.Minute)
		t.expectState(running, engine.InProgress)
		second := t.take(engine.Take{}) // the queued job hasn't expired either
		for _, job := range []engine.Taken{first, second} {
			t.report(job.Ref, engine.Done([]byte("1")), engine.Accepted)
		}
		job := t.expectState(running, engine.Completed)
		must.Hold(t, job.Execution == time.Minute && job.Delay == 0, "the first job waited", job.Delay, "and ran", job.Execution)
		job = t.expectState(queued, engine.Completed)
		must.Hold(t, job.Execution == 0 && job.Delay == time.Minute, "the second job waited", job.Delay, "and ran", job.Execution)
		jump(2 * time.Hour)
		t.advance(29 * time.Minute)
		t.expectState(queued, engine.Completed) // the retention doesn't count the sleep either
		t.advance(time.Minute)
		t.expectState(queued, "")
	})
}

// If the clock is set back, also before a restart, no timeout gets longer, and no duration is negative.
func TestClockJumpsBackward(t *testing.T) {
	address := pgtest.Start(t)
	test := func(t *tester, jump func(time.Duration)) {
		late, short := t.submit(engine.NewJob{TTL: 0}), t.submit(engine.NewJob{TTL: time.Minute})
		t.advance(time.Second)
		t.take(engine.Take{})
		jump(-2 * time.Hour)
		t.advance(time.Minute)
		t.expectState(short, "")
		t.expectState(late, engine.InProgress)
		t.advance(engine.DefaultTimeout)
		job := t.expectState(late, engine.TimedOut)
		must.Hold(t, job.Execution == engine.DefaultTimeout && job.Delay == time.Second, "the job waited", job.Delay, "and ran", job.Execution)

		short = t.submit(engine.NewJob{TTL: time.Minute})
		if t.db.Shared() { // this process's own record from before a crash
			pgtest.Exec(t, address, "INSERT INTO processes (id, beats, url, machine, number) VALUES ('killed', 1, '', 'folder', 500)")
		}
		t.restart() // the restarted engine reads the time of day, which is now two hours earlier
		t.advance(30 * time.Second)
		t.expectState(short, engine.InQueue)
		t.advance(31 * time.Second)
		t.expectState(short, "")
		t.expectState(late, engine.TimedOut)
		t.advance(time.Hour)
		t.expectState(late, "")
	}
	withClockJumps(t, sqldb.Config{Dir: t.TempDir(), NoSync: true}, test)
	withClockJumps(t, sqldb.Config{URL: address, NoNotify: true}, test)
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
		must.Equal(t, rows, 0, "the number of rows")
	})
}
