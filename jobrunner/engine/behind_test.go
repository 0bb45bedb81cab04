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

// If a take in the same transaction fails, the submission or the result is rolled back.
func TestFailedTakeRollsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db := openEmpty(t, sqldb.Config{})
		next := Take{Endpoint: "ep", Worker: "w", Max: 1}
		rename := func(from, to string) {
			must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error { return must.Err(tx.Exec("ALTER TABLE " + from + " RENAME TO " + to)) }))
		}
		expectCounts := func(want Counts) {
			t.Helper()
			must.Equal(t, e.Counts("ep"), want, "counts")
			rename("away", "inputs")
			lines := tables(t, db)
			must.Hold(t, want != (Counts{}) || len(lines) == 0, "rows", lines, "expected none")
		}

		waiting, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			taker := e.NewTaker()
			defer taker.Close()
			for waiting.Err() == nil {
				_, _ = taker.Take(waiting, next)
			}
		}()
		synctest.Wait() // the taker waits in the queue
		rename("inputs", "away")
		if job, err := e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}); err == nil {
			t.Errorf("a submission was accepted without a table: %+v", job)
		}
		stop()
		<-done
		expectCounts(Counts{})

		job := must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t)
		jobs, err := e.Take(t.Context(), next)
		must.Require(t, err == nil && len(jobs) == 1, jobs, err, "expected one job")
		for _, written := range []bool{false, true} {
			if written {
				_ = tables(t, db)
			}
			held, err := e.Holds(t.Context(), jobs[0].Ref)
			must.Hold(t, held && err == nil, "written", written, held, err, "expected that the worker holds the job")
			other := jobs[0].Ref
			other.Worker = "other"
			held, err = e.Holds(t.Context(), other)
			must.Hold(t, !held && err == nil, "written", written, held, err, "expected that another does not")
		}
		rename("inputs", "away")
		h := &handoff{to: make(chan []Taken, 1)}
		if got, err := e.reportAndTake(t.Context(), jobs[0].Ref, Done([]byte("1")), next, h); err == nil {
			t.Errorf("a result was accepted without a table: %v", got)
		}
		expectCounts(Counts{InProgress: 1})
		got := must.Do(e.Get(t.Context(), "ep", job.ID))(t)
		must.Hold(t, got.State == InProgress, got, "expected IN_PROGRESS")
	})
}

// Ended jobs are written from time to time, even without reads. Queued jobs keep their order.
func TestEndedJobsAreWrittenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db := openEmpty(t, sqldb.Config{})
		unwritten := func() (jobs, ended int) {
			must.Succeed(t, db.WriteBehind(t.Context(), func(tx *sqldb.Tx) error {
				u := unwrittenIn(tx)
				jobs, ended = len(u.order), u.ended
				return nil
			}))
			return jobs, ended
		}
		var queue []string
		submit := func() {
			queue = append(queue, must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t).ID)
		}
		takeNext := func() Taken {
			jobs, err := e.Take(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
			must.Require(t, err == nil && len(jobs) == 1 && jobs[0].ID == queue[0], jobs, err, "expected", queue[0])
			queue = queue[1:]
			return jobs[0]
		}
		submit()
		_ = takeNext()
		synctest.Wait() // the sweeper has read the job's expiry, and doesn't read again
		for range 3 {
			submit()
		}
		maxEnded := 0
		for range 4 * dueEnded {
			submit()
			got, err := e.Report(t.Context(), takeNext().Ref, Done([]byte("1")))
			must.Require(t, got == Accepted && err == nil, got, err)
			n, ended := unwritten()
			must.Require(t, n-ended == 3, n-ended, "queued jobs are unwritten, expected 3")
			maxEnded = max(maxEnded, ended)
		}
		must.Equal(t, maxEnded, dueEnded-1, "up to", "ended jobs were unwritten")
		got := e.Counts("ep")
		must.Hold(t, got.Completed == 4*dueEnded && got.InProgress == 1 && got.InQueue == 3, "counts", got)
	})
}

// The result of a job with a written row is also deferred: otherwise each result would write
// all other jobs. It counts once.
func TestResultOfAWrittenJobIsWrittenBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db := openEmpty(t, sqldb.Config{})
		for _, webhook := range []string{"", "http://127.0.0.1:1/"} {
			must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}"), Webhook: webhook}))(t)
			jobs, err := e.Take(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
			must.Require(t, err == nil && len(jobs) == 1, jobs, err, "expected one job")
			synctest.Wait() // for the sweeper's read
			_ = tables(t, db)
			for _, want := range []Directive{Accepted, Stale} {
				got, err := e.Report(t.Context(), jobs[0].Ref, Done([]byte("1")))
				must.Hold(t, got == want && err == nil, got, err, "expected", want)
			}
			must.Succeed(t, db.WriteBehind(t.Context(), func(tx *sqldb.Tx) error {
				ended := unwrittenIn(tx).ended
				must.Hold(t, (ended == 1) == (webhook == ""), "webhook", webhook, ended, "ends are unwritten")
				return nil
			}))
		}
		must.Equal(t, e.Counts("ep"), Counts{Completed: 2}, "counts", "expected 2 COMPLETED")
	})
}

// Queued and running jobs stay unwritten while others end, if they are recent and few.
func TestDeferral(t *testing.T) {
	now := int64(1_000_000)
	row := func(state State, age int64, size int) *jobRow {
		return &jobRow{endpoint: "ep", id: string(state), state: state, queued: now - age, input: make([]byte, size)}
	}
	for name, c := range map[string]struct {
		rows []*jobRow
		want bool
	}{
		"young":          {[]*jobRow{row(InQueue, maxDeferral, 1), row(InProgress, 0, 1)}, true},
		"an old one":     {[]*jobRow{row(InQueue, 0, 1), row(InProgress, maxDeferral+1, 1)}, false},
		"an old end":     {[]*jobRow{row(Completed, maxDeferral+1, 1)}, true},
		"large ones":     {[]*jobRow{row(InQueue, 0, maxDeferredBytes/2), row(InQueue, 0, maxDeferredBytes/2+1)}, false},
		"as many as can": {make([]*jobRow, maxDeferred), true},
		"many":           {make([]*jobRow, maxDeferred+1), false},
	} {
		u := newUnwritten()
		for _, j := range c.rows {
			if j == nil {
				j = row(InQueue, 0, 0)
			}
			if u.add(j); j.state.Terminal() {
				u.ended, u.endedBytes = u.ended+1, u.endedBytes+len(j.input)
			}
		}
		must.Equal(t, u.canDefer(now), c.want, name)
	}
}

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
				return []change{{endpoint: "ep", id: "other", from: absent, to: InQueue, due: row.gone}}, rows.run(tx)
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

// The worker of a job that was handed out before the commit has the job during a slow commit, too.
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
