package billing

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// indexedStatements are the statements that run for each span, at each start, or every few seconds.
var indexedStatements = map[string]string{"checkpoint": checkpoint, "endSpan": endSpan, "readSpan": readSpan, "openSpans": openSpans}

// Running spans are updated by an index: the cost doesn't grow with the number of ended spans.
func TestStatementsUseIndexes(t *testing.T) {
	testPlans(t, sqldb.Config{}, "SEARCH billing_spans USING", func(tx *sqldb.Tx, statement string) (string, error) {
		return readPlan(tx, 4, "EXPLAIN QUERY PLAN "+statement, make([]any, strings.Count(statement, "?"))...)
	})
}

// TestStatementsUseIndexesOnPostgreSQL forbids sequential scans, which so small a table would get.
func TestStatementsUseIndexesOnPostgreSQL(t *testing.T) {
	testPlans(t, sqldb.Config{URL: pgtest.Start(t)}, "Index Cond:", func(tx *sqldb.Tx, statement string) (string, error) {
		// A generic plan: the plan for NULL arguments would read nothing.
		for _, set := range []string{"SET LOCAL enable_seqscan = off", "SET LOCAL plan_cache_mode = force_generic_plan", "PREPARE planned AS " + statement} {
			if _, err := tx.Exec(set); err != nil {
				return "", err
			}
		}
		plan, err := readPlan(tx, 1, "EXPLAIN EXECUTE planned(NULL"+strings.Repeat(", NULL", strings.Count(statement, "?")-1)+")")
		if err != nil {
			return "", err
		}
		_, err = tx.Exec("DEALLOCATE planned")
		return plan, err
	})
}

// testPlans checks that the plan of each statement contains a text.
func testPlans(t *testing.T, c sqldb.Config, want string, explain func(tx *sqldb.Tx, statement string) (string, error)) {
	t.Helper()
	db := must.Do(sqldb.Open(t.Context(), c))(t)
	defer db.Close()
	m := must.Do(Open(t.Context(), Config{DB: db, Clock: new(clock.Clock)}))(t)
	defer m.Close()
	for name, statement := range indexedStatements {
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			plan, err := explain(tx, statement)
			must.Hold(t, err != nil || strings.Contains(plan, want), name, "reads the whole table", plan)
			return err
		})
		must.Hold(t, err == nil, name, err)
	}
}

// readPlan reads the last column.
func readPlan(tx *sqldb.Tx, columns int, query string, arguments ...any) (plan string, err error) {
	err = tx.Each(func(row sqldb.Row) error {
		var numbers [3]int
		var line string
		targets := []any{&numbers[0], &numbers[1], &numbers[2], &line}
		err := row.Scan(targets[len(targets)-columns:]...)
		plan += line + "\n"
		return err
	}, query, arguments...)
	return plan, err
}

// A failure that needn't be logged, such as one of a call whose context has ended, doesn't keep the next failure from the log.
func TestFirstPermanentFailureIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		defer db.Close()
		var log bytes.Buffer
		m := must.Do(Open(t.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
		m.Start(Resource{Kind: Worker, ID: "w"})
		synctest.Wait() // it is written
		must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec("DROP TABLE billing_spans"); return err }))
		ended, end := context.WithCancel(t.Context())
		end()
		for _, ctx := range []context.Context{ended, t.Context(), t.Context()} {
			m.Checkpoint(ctx)
		}
		must.Equal(t, strings.Count(log.String(), "could not be recorded for billing"), 1, "the number of logged failures")
		m.Close()
	})
}
