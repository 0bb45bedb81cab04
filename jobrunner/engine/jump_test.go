package engine_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// jumping is an engine whose clock's time of day jumps.
type jumping struct {
	*engine.Engine
	t  *testing.T
	db *sqldb.DB
	by atomic.Int64
}

func jumps(t *testing.T, test func(t *testing.T, j *jumping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := sqldb.Open(t.Context(), sqldb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		j := &jumping{t: t, db: db}
		j.open()
		defer func() {
			j.Close()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(t, j)
	})
}

func (j *jumping) open() {
	wall := func() time.Time { return time.Now().Add(time.Duration(j.by.Load())).Round(0) }
	e, err := engine.Open(j.t.Context(), engine.Config{DB: j.db, Clock: clock.New(wall), Logger: slog.New(slog.NewTextHandler(j.t.Output(), nil))})
	if err != nil {
		j.t.Fatal(err)
	}
	j.Engine = e
}

func (j *jumping) jump(d time.Duration) { j.by.Add(int64(d)) }

// pass lets time pass until everything due has happened.
func (j *jumping) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (j *jumping) submit(ttl time.Duration) string {
	j.t.Helper()
	job, err := j.Submit(j.t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}"), TTL: ttl})
	if err != nil {
		j.t.Fatal(err)
	}
	return job.ID
}

func (j *jumping) take() engine.Taken {
	j.t.Helper()
	jobs, err := j.Take(j.t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
	if err != nil || len(jobs) != 1 {
		j.t.Fatal(jobs, err)
	}
	return jobs[0]
}

// is checks a job's state; "" means that the job doesn't exist.
func (j *jumping) is(id string, want engine.State) engine.Job {
	j.t.Helper()
	job, err := j.Get(j.t.Context(), "ep", id)
	if job.State != want || want != "" && err != nil {
		j.t.Errorf("the job is %q, %v; want %q", job.State, err, want)
	}
	if job.Delay < 0 || job.Execution < 0 {
		j.t.Errorf("a delay of %s and an execution of %s", job.Delay, job.Execution)
	}
	return job
}

// If a machine has slept, running jobs continue, and the time of the sleep doesn't count.
func TestClockJumpsForward(t *testing.T) {
	jumps(t, func(t *testing.T, j *jumping) {
		running, queued := j.submit(time.Hour), j.submit(time.Hour)
		first := j.take()
		if first.ID != running {
			t.Fatal("the jobs were taken in another order")
		}
		j.jump(2 * time.Hour)
		j.pass(time.Minute)
		j.is(running, engine.InProgress)
		second := j.take() // hasn't expired either
		for _, job := range []engine.Taken{first, second} {
			if got, err := j.Report(t.Context(), job.Ref, engine.Done([]byte("1"))); err != nil || got != engine.Accepted {
				t.Errorf("a result after the jump: %v, %v", got, err)
			}
		}
		if job := j.is(running, engine.Completed); job.Execution != time.Minute || job.Delay != 0 {
			t.Errorf("it waited %s and ran %s", job.Delay, job.Execution)
		}
		if job := j.is(queued, engine.Completed); job.Execution != 0 || job.Delay != time.Minute {
			t.Errorf("it waited %s and ran %s", job.Delay, job.Execution)
		}
		j.jump(2 * time.Hour)
		j.pass(29 * time.Minute)
		j.is(queued, engine.Completed) // the retention doesn't count the sleep either
		j.pass(time.Minute)
		j.is(queued, "")
	})
}

// If the clock is set back, no timeout gets longer and no duration negative, in the same
// process and after a restart.
func TestClockJumpsBackward(t *testing.T) {
	jumps(t, func(t *testing.T, j *jumping) {
		late, short := j.submit(0), j.submit(time.Minute)
		j.pass(time.Second)
		j.take()
		j.jump(-2 * time.Hour)
		j.pass(time.Minute)
		j.is(short, "")
		j.is(late, engine.InProgress)
		j.pass(engine.DefaultTimeout)
		if job := j.is(late, engine.TimedOut); job.Execution != engine.DefaultTimeout || job.Delay != time.Second {
			t.Errorf("it waited %s and ran %s", job.Delay, job.Execution)
		}

		short = j.submit(time.Minute)
		j.Close()
		j.open() // the restarted engine reads the time of day, which is now two hours earlier
		j.pass(30 * time.Second)
		j.is(short, engine.InQueue)
		j.pass(31 * time.Second)
		j.is(short, "")
		j.is(late, engine.TimedOut)
		j.pass(time.Hour)
		j.is(late, "")
	})
}
