package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// openEmpty opens an engine on an empty database until the end of the test.
func openEmpty(t *testing.T, config sqldb.Config) (*Engine, *sqldb.DB) {
	t.Helper()
	db := must.Do(sqldb.Open(t.Context(), config))(t)
	e := must.Do(Open(t.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))(t)
	t.Cleanup(func() {
		e.Close()
		must.Equal(t, db.Close(), nil)
	})
	return e, db
}

// withBusyHost fills in a list of one busy host.
func withBusyHost(statement string) string {
	statement, _ = withBusyHosts(statement, []BusyHost{{}})
	return statement
}

// byIndex has the statements for one job or endpoint, and the sweeper's.
var byIndex = []string{
	addTally, deleteTallies, selectTally, startJob, startAndEndJob, endRunningJob, waitingJobs, waitingJobsOfLead, completeJob, failJob, cancelJob, lockHeldKey, updateTTL,
	timeOutJob, timeOutDue,
	requeueHeld, failHeld,
	deleteGone, deleteOfEndpoint, selectJob, oldestQueued,
	nextGone, nextDeadline,
	deleteOutput, deleteChunks, requeueOwn, requeueOrphans, failOrphans, returnHeld,
	lockJob, latestTimes, selectStreamed, nextJobsOfLead, claimLead, releaseLead, setLeadFailure,
	retryJob, deleteQueued, purgeableLeft, selectQueueEnd, deleteWebhook,
	addStreamed, deleteReadChunks, unreadChunks, countUnread, selectHeld, selectHeldJob, recentJobs, latestJobsOf,
	withBusyHost(callQueues), withBusyHost(claimWebhook),
	lockBatchRow + batchByID, selectBatchRow + dueBatch, selectDueBatches, nextBatch, selectBatches, selectBatch, countBatches, countActive,
	insertInput, deleteRequest, releaseRequests, cancelRequests, deleteBatchesOf,
	selectCall, deleteCall, rescheduleCall,
}

// The statements for one job or endpoint and the sweeper's use indexes, so that their
// cost doesn't depend on the number of jobs.
func TestStatementsUseIndexes(t *testing.T) {
	_, db := openEmpty(t, sqldb.Config{})
	for _, statement := range byIndex {
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			rows, err := tx.Query("EXPLAIN QUERY PLAN "+statement, make([]any, strings.Count(statement, "?"))...)
			if err != nil {
				return err
			}
			defer rows.Close()
			jumps := !strings.Contains(statement, "RECURSIVE")
			for rows.Next() {
				var id, parent, unused int
				var detail string
				if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
					return err
				}
				jumps = jumps || strings.Contains(detail, "(owner=? AND endpoint>?)")
				indexed := strings.HasPrefix(detail, "SEARCH") || strings.Contains(detail, "USING INDEX") || strings.Contains(detail, "USING COVERING INDEX")
				if strings.Contains(detail, "TEMP B-TREE") || (strings.HasPrefix(detail, "SCAN jobs") || strings.HasPrefix(detail, "SCAN webhooks")) && !indexed {
					t.Errorf("%s: %s", statement, detail)
				}
			}
			must.Hold(t, jumps, statement, "reads the calls of a queue one by one")
			return rows.Err()
		})
		must.Hold(t, err == nil, statement, err)
	}
}

// The same on PostgreSQL, with cached plans that were made when inputs was empty.
func TestStatementsUseIndexesOnPostgreSQL(t *testing.T) {
	address := pgtest.Start(t)
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: address}))(t)
	defer db.Close()
	e := must.Do(Open(t.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))(t)
	defer e.Close()
	pgtest.Exec(t, address, "VACUUM ANALYZE inputs")
	for _, statement := range byIndex {
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			// A generic plan: the plan for NULL arguments would read nothing.
			for _, set := range []string{"SET LOCAL plan_cache_mode = force_generic_plan", "PREPARE planned AS " + statement} {
				if _, err := tx.Exec(set); err != nil {
					return err
				}
			}
			execute := "EXECUTE planned"
			if n := strings.Count(statement, "?"); n > 0 {
				execute += "(NULL" + strings.Repeat(", NULL", n-1) + ")"
			}
			rows, err := tx.Query("EXPLAIN " + execute)
			if err != nil {
				return err
			}
			defer rows.Close()
			var plan []string
			for rows.Next() {
				var line string
				if err := rows.Scan(&line); err != nil {
					return err
				}
				plan = append(plan, line)
			}
			must.Equal(t, readsAll(plan), "", statement, strings.Join(plan, "\n"))
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
			return must.Err(tx.Exec("DEALLOCATE planned"))
		})
		must.Hold(t, err == nil, statement, err)
	}
}

// readsAll returns the line of a PostgreSQL plan that scans a whole table or index, or "". It
// ignores scans with a condition or below a limit, and the small partial indexes of queued
// and running jobs.
func readsAll(plan []string) string {
	limited := false
	for i, line := range plan {
		if strings.Contains(line, "Join Filter") && strings.Contains(line, "inputs.k") { // of all inputs
			return strings.TrimSpace(line)
		}
		limited = limited || strings.Contains(line, "Limit ")
		scan := strings.Contains(line, "Scan on ") || strings.Contains(line, "Scan using ")
		few := strings.Contains(line, " on processes") || strings.Contains(line, "CTE Scan") || strings.Contains(line, "Subquery Scan") ||
			strings.Contains(line, "jobs_queue") || strings.Contains(line, "jobs_deadline")
		if !scan || few || limited {
			continue
		}
		hasCondition := false
		for _, below := range plan[i+1:] {
			if strings.Contains(below, "->") {
				break
			}
			hasCondition = hasCondition || strings.Contains(below, "Index Cond") || strings.Contains(below, "Recheck Cond")
		}
		if !hasCondition && !strings.Contains(line, "Bitmap Index Scan") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// After a restart the counts are the sums of the stored tallies.
func TestTallies(t *testing.T) {
	for name, config := range map[string]func(t *testing.T) sqldb.Config{
		"SQLite":     func(t *testing.T) sqldb.Config { return sqldb.Config{Dir: t.TempDir()} },
		"PostgreSQL": func(t *testing.T) sqldb.Config { return sqldb.Config{URL: pgtest.Start(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			at := config(t)
			db := must.Do(sqldb.Open(t.Context(), at))(t)
			must.Succeed(t, db.Migrate(t.Context(), "engine", schema))
			far := time.Now().Add(time.Hour).UnixMilli()
			err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
				for i, state := range []State{InQueue, InQueue, Completed, Failed, Failed, Failed, Cancelled, TimedOut} {
					if _, err := tx.Exec("INSERT INTO jobs (endpoint, id, state, low, webhook, exec_ms, keep_ms, submitted, turn, queued, expires, gone) VALUES ('ep', ?, ?, ?, '', 0, 0, 0, 0, 0, ?, ?)",
						fmt.Sprint(i), string(state), i%2, far, far); err != nil {
						return err
					}
				}
				return must.Err(tx.Exec("INSERT INTO tallies VALUES ('ep', 0, 2, 1, 0, 1, 3, 0), ('ep', 1, 0, 0, 0, 10, 20, 30)"))
			})
			must.Succeed(t, err)
			want := Counts{InQueue: 2, Completed: 11, Failed: 23, Retried: 30, waiting: 1}
			for range 2 { // the second time, after a retry
				e := must.Do(Open(t.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))(t)
				must.Equal(t, e.Counts("ep"), want, "counts")
				must.Do(e.Cancel(t.Context(), "ep", must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t).ID))(t)
				if _, err := e.Retry(t.Context(), "ep", "3"); err == nil { // stays in the count of FAILED jobs
					want.InQueue++ // has low priority, so it isn't in waiting
				}
				e.Close()
				must.Succeed(t, db.Close())
				db = must.Do(sqldb.Open(t.Context(), at))(t)
			}
			must.Succeed(t, db.Close())
		})
	}
}

// The transaction that ends a job adds its webhook call, if the state has one.
func TestEndAddsWebhookCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db := openEmpty(t, sqldb.Config{})
		ordered := func() (urls string) {
			must.Succeed(t, db.Read(t.Context(), func(r *sqldb.Reader) error {
				return r.QueryRow("SELECT COALESCE(group_concat(url || ' ' || host || ' ' || attempt || ' ' || next_at), '') FROM webhooks").Scan(&urls)
			}))
			return urls
		}
		ends := map[string]func(Taken) error{
			"completed": func(job Taken) error { _, err := e.Report(t.Context(), job.Ref, Done(nil)); return err },
			"failed":    func(job Taken) error { _, err := e.Report(t.Context(), job.Ref, Fail("x", nil)); return err },
			"cancelled": func(job Taken) error { _, err := e.Cancel(t.Context(), "ep", job.ID); return err },
			"timed out": func(Taken) error { time.Sleep(DefaultTimeout); synctest.Wait(); return nil },
		}
		due := map[string]bool{"completed": true, "failed": true}
		for name, end := range ends {
			for _, url := range []string{"", "http://127.0.0.1/" + name} {
				must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}"), Webhook: url}))(t)
				jobs, err := e.Take(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
				must.Require(t, err == nil && len(jobs) == 1, jobs, err)
				must.Equal(t, ordered(), "", name, "ordered before the end")
				must.Succeed(t, end(jobs[0]))
				want := ""
				if url != "" && due[name] {
					want = fmt.Sprintf("%s 127.0.0.1 0 %d", url, e.now())
				}
				must.Equal(t, ordered(), want, name, "ordered")
			}
			must.Succeed(t, e.DropEndpoint(t.Context(), "ep"))
		}
	})
}

// newBenchEngine returns an engine for a benchmark, in a folder or, for "", in memory.
func newBenchEngine(b *testing.B, dir string) *Engine {
	b.Helper()
	db := must.Do(sqldb.Open(b.Context(), sqldb.Config{Dir: dir}))(b)
	b.Cleanup(func() { _ = db.Close() })
	e := must.Do(Open(b.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)}))(b)
	b.Cleanup(e.Close)
	return e
}

// BenchmarkDeepQueue measures a job while the queue is long.
func BenchmarkDeepQueue(b *testing.B) {
	e := newBenchEngine(b, b.TempDir())
	submit := func() { must.Do(e.Submit(context.Background(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(b) }
	for range 20_000 {
		submit()
	}
	for b.Loop() {
		submit()
		jobs, err := e.Take(b.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
		must.Require(b, err == nil && len(jobs) == 1, jobs, err)
		must.Do(e.Report(b.Context(), jobs[0].Ref, Done([]byte("1"))))(b)
		must.Do(e.Get(b.Context(), "ep", jobs[0].ID))(b)
	}
}

// BenchmarkJob measures a job's submission, take and result in memory.
func BenchmarkJob(b *testing.B) {
	e := newBenchEngine(b, "")
	for b.Loop() {
		must.Do(e.Submit(b.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(b)
		jobs, err := e.Take(b.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
		must.Require(b, err == nil && len(jobs) == 1, len(jobs), err)
		must.Do(e.Report(b.Context(), jobs[0].Ref, Done([]byte("{}"))))(b)
	}
}
