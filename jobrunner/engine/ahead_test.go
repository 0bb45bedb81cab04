package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// If a transaction that handed out a job before its commit runs again, it may take another
// job. The worker's report on the first job is then Stale, the other job goes back to the
// queue, and both jobs run.
func TestJobHandedOutBeforeARerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db := openEmpty(t, sqldb.Config{Dir: t.TempDir(), NoSync: true})
		ctx, next := t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}

		got := make(chan Taken)
		taker := e.NewTaker()
		var group sync.WaitGroup
		group.Go(func() {
			jobs, err := taker.Take(ctx, next)
			if err != nil || len(jobs) != 1 {
				t.Errorf("%v, %v, expected one job", jobs, err)
				close(got)
				return
			}
			got <- jobs[0]
		})
		synctest.Wait() // the taker waits in the queue

		release := make(chan struct{})
		group.Go(func() { _ = db.Write(ctx, func(*sqldb.Tx) error { <-release; return nil }) })
		synctest.Wait()
		// When the batch runs again, there is a job before the submitted one.
		runs := 0
		group.Go(func() {
			_, err := e.transition(ctx, e.db.Write, func(tx *sqldb.Tx) ([]change, error) {
				if runs++; runs == 1 {
					return nil, nil
				}
				row := NewJob{Endpoint: "ep", Input: []byte("{}")}.row("other", 0)
				row.gone = e.now() + DefaultTTL.Milliseconds()
				row.expires = row.gone
				rows := rowWrites{}
				rows.addJob(&row, "", 0)
				err := rows.run(tx)
				return []change{{endpoint: "ep", id: "other", from: absent, to: InQueue, due: row.gone}}, err
			})
			must.Hold(t, err == nil, err)
		})
		synctest.Wait()
		var own Job
		group.Go(func() {
			var err error
			own, err = e.Submit(ctx, NewJob{Endpoint: "ep", Input: []byte("{}")})
			must.Hold(t, err == nil, err)
		})
		synctest.Wait()
		group.Go(func() { _ = db.Write(ctx, func(*sqldb.Tx) error { return errors.New("the batch runs again") }) })
		synctest.Wait()
		close(release)
		first := <-got
		group.Wait()
		must.Require(t, runs == 2 && first.ID == own.ID, runs, "runs, and the worker has", first.ID, "expected 2, and", own.ID)
		taker.Close()

		if got, err := e.Report(ctx, first.Ref, Done([]byte("1"))); got != Stale || err != nil {
			t.Errorf("a report on the job whose take was rolled back: %v, %v, expected Stale", got, err)
		}
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		for range 2 {
			jobs, err := e.TakeOrWait(ctx, next)
			must.Require(t, err == nil && len(jobs) == 1, jobs, err, "expected one job")
			if got, err := e.Report(ctx, jobs[0].Ref, Done([]byte("2"))); got != Accepted || err != nil {
				t.Errorf("%s: %v, %v, expected Accepted", jobs[0].ID, got, err)
			}
		}
		for _, id := range []string{"other", own.ID} {
			job := must.Do(e.Get(context.Background(), "ep", id))(t)
			must.Hold(t, job.State == Completed && string(job.Output) == "2" && job.Retries == 0, id, job, "expected COMPLETED at the first try")
		}
	})
}

// The worker of a job that was handed out before the commit has the job, even if the commit
// takes long.
func TestHoldsWaitsForTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db := openEmpty(t, sqldb.Config{Dir: t.TempDir(), NoSync: true})
		got := make(chan Taken, 1)
		var group sync.WaitGroup
		group.Go(func() {
			taker := e.NewTaker()
			defer taker.Close()
			jobs, err := taker.Take(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
			if err != nil || len(jobs) != 1 {
				t.Errorf("%v, %v, expected one job", jobs, err)
				close(got)
				return
			}
			got <- jobs[0]
		})
		synctest.Wait() // the taker waits in the queue
		release, stalled := make(chan struct{}), make(chan struct{})
		group.Go(func() { _ = db.Write(t.Context(), func(*sqldb.Tx) error { <-release; return nil }) })
		synctest.Wait()
		group.Go(func() {
			must.Equal(t, must.Err(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")})), nil)
		})
		synctest.Wait()
		group.Go(func() { _ = db.Write(t.Context(), func(*sqldb.Tx) error { <-stalled; return nil }) })
		synctest.Wait()
		close(release)
		job := <-got
		group.Go(func() {
			held, err := e.Holds(t.Context(), job.Ref)
			must.Hold(t, held && err == nil, held, err, "expected that the worker holds the job")
		})
		time.Sleep(time.Minute)
		close(stalled)
		group.Wait()
	})
}

func TestTxLimitAdapts(t *testing.T) {
	for _, c := range []struct {
		jobs, changed int
		took          time.Duration
		want          int
	}{
		{minTxJobs, minTxJobs, 0, 2 * minTxJobs},
		{minTxJobs, minTxJobs, time.Microsecond, 2 * minTxJobs},
		{200, 200, 2 * txTarget, 100},
		{200, 200, txTarget, 200},
		{200, 200, txTarget * 100 / 150, 300},
		{200, 200, txTarget / 100, 400},
		{400, 400, txTarget / 100, maxTxJobs},
		{maxTxJobs, maxTxJobs, 0, maxTxJobs},
		{200, 200, time.Hour, minTxJobs},
		{200, 100, txTarget, 100},
		{200, 0, txTarget, minTxJobs},
	} {
		l := txLimit{c.jobs, txTarget}
		l.adapt(c.changed, c.took)
		must.Hold(t, l.jobs == c.want, "after", c.changed, "of", c.jobs, "jobs in", c.took, l.jobs, "expected", c.want)
	}
}
