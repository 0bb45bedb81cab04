package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

func openEmpty(t *testing.T) (*Engine, *sqldb.DB) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return e, db
}

// Whatever is done for one job, and whatever the sweeper asks, finds its rows
// by an index: it costs the same with ten jobs and with a million.
func TestStatementsUseIndexes(t *testing.T) {
	e, db := openEmpty(t)
	defer db.Close()
	defer e.Close()
	for name, statement := range map[string]string{
		"taken": taken, "completed": completed, "failed": failed, "cancelled": cancelled, "beaten": beaten, "setTTL": setTTL,
		"timedOutOne": timedOutOne, "timedOutAll": timedOutAll,
		"requeuedOne": requeuedOne, "requeuedAll": requeuedAll, "givenUpOne": givenUpOne, "givenUpAll": givenUpAll,
		"removed": removed, "dropped": dropped, "oneJob": oneJob, "longestWaiting": longestWaiting,
		"nextGone": nextGone, "nextDeadline": nextDeadline, "nextLease": nextLease,
		"noOutput": noOutput, "noChunks": noChunks, "resumed": resumed, "waitingJobs": waitingJobs,
		"retried": retried, "purged": purged, "purgeableLeft": purgeableLeft, "newest": newest, "noWebhook": noWebhook,
		"chunked": chunked, "drained": drained, "undrained": undrained, "held": held, "recent": recent, "latestOf": latestOf,
		"nextCall": strings.Replace(nextCall, "{hosts}", "?", 1), "claimed": strings.Replace(claimed, "{hosts}", "?", 1),
		"called": called, "callOver": callOver, "callAgain": callAgain,
	} {
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			rows, err := tx.Query("EXPLAIN QUERY PLAN "+statement, make([]any, strings.Count(statement, "?"))...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id, parent, unused int
				var detail string
				if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
					return err
				}
				byIndex := strings.HasPrefix(detail, "SEARCH") || strings.Contains(detail, "USING INDEX") || strings.Contains(detail, "USING COVERING INDEX")
				if strings.Contains(detail, "TEMP B-TREE") || strings.HasPrefix(detail, "SCAN jobs") && !byIndex {
					t.Errorf("%s: %s", name, detail)
				}
			}
			return rows.Err()
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The call that tells of a job's end is ordered in the transaction that ends
// it, for the states in which one is due.
func TestWebhooksAreOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db := openEmpty(t)
		defer db.Close()
		defer e.Close()
		ordered := func() (urls string) {
			err := db.Read(t.Context(), func(r *sqldb.Reader) error {
				return r.QueryRow("SELECT COALESCE(group_concat(url || ' ' || host || ' ' || attempt || ' ' || next_at), '') FROM webhooks").Scan(&urls)
			})
			if err != nil {
				t.Fatal(err)
			}
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
				if _, err := e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}"), Webhook: url}); err != nil {
					t.Fatal(err)
				}
				jobs, err := e.Take(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
				if err != nil || len(jobs) != 1 {
					t.Fatal(jobs, err)
				}
				if got := ordered(); got != "" {
					t.Errorf("%s: ordered before the end: %s", name, got)
				}
				if err := end(jobs[0]); err != nil {
					t.Fatal(err)
				}
				want := ""
				if url != "" && due[name] {
					want = fmt.Sprintf("%s 127.0.0.1 0 %d", url, e.now())
				}
				if got := ordered(); got != want {
					t.Errorf("%s: ordered %q, want %q", name, got, want)
				}
			}
			if err := e.DropEndpoint(t.Context(), "ep"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// With a deep queue everything that is done for one job stays quick.
func BenchmarkDeepQueue(b *testing.B) {
	db, err := sqldb.Open(b.Context(), sqldb.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	e, err := Open(b.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	submit := func() {
		if _, err := e.Submit(context.Background(), NewJob{Endpoint: "ep", Input: []byte("{}")}); err != nil {
			b.Fatal(err)
		}
	}
	for range 20_000 {
		submit()
	}
	for b.Loop() {
		submit()
		jobs, err := e.Take(b.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
		if err != nil || len(jobs) != 1 {
			b.Fatal(jobs, err)
		}
		if _, err := e.Report(b.Context(), jobs[0].Ref, Done([]byte("1"))); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Get(b.Context(), "ep", jobs[0].ID); err != nil {
			b.Fatal(err)
		}
	}
}

// A job's way: submitted, taken and done, in memory.
func BenchmarkJob(b *testing.B) {
	db, err := sqldb.Open(b.Context(), sqldb.Config{})
	if err != nil {
		b.Fatal(err)
	}
	e, err := Open(b.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		e.Close()
		_ = db.Close()
	}()
	for b.Loop() {
		if _, err := e.Submit(b.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}); err != nil {
			b.Fatal(err)
		}
		jobs, err := e.Take(b.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1})
		if err != nil || len(jobs) != 1 {
			b.Fatal(len(jobs), err)
		}
		if _, err := e.Report(b.Context(), jobs[0].Ref, Done([]byte("{}"))); err != nil {
			b.Fatal(err)
		}
	}
}
