package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Writes that share a commit have the same results, and leave the same tables, as writes with
// their own commits.
func TestSharedCommitsEqualSeparateCommits(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		compareHistories(t, seed, onDisk, together)
	}
}

// Writes behind in memory have the same results, and leave the same tables, as writes with
// their own commits on a disk, however often they are written out.
func TestWritesBehindEqualSeparateCommits(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 15
	}
	usual := dueEnded
	defer func() { dueEnded = usual }()
	for seed := range seeds {
		dueEnded = []int{1, 3, usual}[seed%3]
		compareHistories(t, seed, onDisk, inMemory)
	}
}

// mode is how a history runs: with a commit per operation on a disk, with one commit per
// round, or with one operation after another in memory.
type mode string

const (
	onDisk   mode = "on disk"
	together mode = "together"
	inMemory mode = "in memory"
)

func compareHistories(t *testing.T, seed int, modes ...mode) {
	t.Helper()
	var first []string
	for i, mode := range modes {
		var lines []string
		synctest.Test(t, func(t *testing.T) { lines = runHistory(t, seed, mode) })
		if i == 0 {
			first = lines
			continue
		}
		for i := range min(len(first), len(lines)) {
			if first[i] != lines[i] {
				t.Fatalf("seed %d: %s\n%s\n%s\n%s\nafter\n%s", seed, mode, lines[i], modes[0], first[i], strings.Join(first[:i], "\n"))
			}
		}
		if len(first) != len(lines) {
			t.Fatalf("seed %d: %d lines %s, %d %s", seed, len(lines), mode, len(first), modes[0])
		}
	}
}

// runHistory runs rounds of random operations, and returns a line for each result and each
// row.
func runHistory(t *testing.T, seed int, mode mode) (lines []string) {
	config := sqldb.Config{}
	if mode != inMemory {
		config = sqldb.Config{Dir: t.TempDir(), NoSync: true}
	}
	e, db := openEmpty(t, config)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	submitted := 0
	for round := range 6 {
		answers := make([]string, 1+random.IntN(25))
		var group sync.WaitGroup
		release := make(chan struct{})
		if mode == together {
			group.Go(func() { _ = db.Write(t.Context(), func(*sqldb.Tx) error { <-release; return nil }) })
			synctest.Wait()
		}
		for i := range answers {
			name, do := randomOperation(e, random, &submitted)
			group.Go(func() { answers[i] = fmt.Sprintf("%d.%d %s: %s", round, i, name, do(t.Context())) })
			synctest.Wait()
		}
		close(release)
		group.Wait()
		synctest.Wait() // for the sweeper
		lines = append(lines, answers...)
		lines = append(lines, tables(t, db)...)
		lines = append(lines, fmt.Sprintf("%d counts %+v", round, e.Counts("a")))
		time.Sleep([]time.Duration{0, time.Second, 10 * time.Second, time.Minute, 11 * time.Minute}[random.IntN(5)])
		synctest.Wait()
	}
	return lines
}

// randomOperation returns an operation of one transaction. The ids of jobs are numbers, so
// that an operation can use a job of the same commit.
func randomOperation(e *Engine, random *rand.Rand, submitted *int) (name string, do func(context.Context) string) {
	endpoint := []string{"a", "a", "a", "b"}[random.IntN(4)]
	id := fmt.Sprint(max(0, *submitted-random.IntN(8)))
	ref := Ref{Endpoint: endpoint, ID: id, Worker: fmt.Sprint("w", random.IntN(2)), Attempt: 1 + random.IntN(8)/7}
	next := Take{Endpoint: endpoint, Worker: ref.Worker, Max: 1 + random.IntN(3), Timeout: time.Duration(random.IntN(2)) * 30 * time.Second}
	report := []Report{Done([]byte(`{"a":1}`)), Done(nil), Done([]byte("2")), Fail("it failed", nil), Fail("it failed", []byte("3")),
		Chunk([]byte("4"), nil), Progress([]byte("5")), Lost()}[random.IntN(8)]
	switch n := random.IntN(20); {
	case n < 7:
		*submitted++
		id = fmt.Sprint(*submitted)
		job := NewJob{Endpoint: endpoint, Input: []byte(`{"input":` + id + `}`), Low: random.IntN(4) == 0, Sync: random.IntN(2) == 0,
			TTL: time.Duration(random.IntN(2)) * 15 * time.Second, Timeout: time.Duration(random.IntN(2)) * 5 * time.Second}
		if random.IntN(8) == 0 {
			job.Webhook = "http://127.0.0.1:1/"
		}
		return fmt.Sprintf("submit %+v", job), func(ctx context.Context) string {
			job, err := e.submit(ctx, job, id)
			return fmt.Sprint(job, err)
		}
	case n < 11:
		return fmt.Sprintf("take %+v", next), func(ctx context.Context) string {
			jobs, err := e.Take(ctx, next)
			return fmt.Sprint(jobs, err)
		}
	case n < 15:
		return fmt.Sprintf("report %+v of %+v", report, ref), func(ctx context.Context) string {
			return fmt.Sprint(e.Report(ctx, ref, report))
		}
	case n < 18:
		return fmt.Sprintf("report %+v of %+v, and take %+v", report, ref, next), func(ctx context.Context) string {
			h := &handoff{to: make(chan []Taken, 1)}
			got, err := e.reportAndTake(ctx, ref, report, next, h)
			h.send(nil)
			return fmt.Sprint(got, err, <-h.to)
		}
	case n < 19 && random.IntN(6) > 0:
		return "cancel " + id, func(ctx context.Context) string {
			_, _ = e.Cancel(ctx, endpoint, id) // reads its result after the commit
			return ""
		}
	case n < 19:
		return "drop b", func(ctx context.Context) string { return fmt.Sprint(e.DropEndpoint(ctx, "b")) }
	}
	ttl := time.Duration(random.IntN(60)) * time.Second
	return fmt.Sprint("ttl ", id, ttl), func(ctx context.Context) string { return fmt.Sprint(e.SetTTL(ctx, endpoint, id, ttl)) }
}

// tables returns a line for each row, without the inputs of COMPLETED jobs.
func tables(t *testing.T, db *sqldb.DB) (lines []string) {
	t.Helper()
	for _, query := range []string{
		`'job', endpoint, id, state, low, webhook, exec_ms, keep_ms, submitted, turn, queued, expires, gone, worker, attempt, retries, started, deadline, finished, streamed, process, owner FROM jobs ORDER BY endpoint, id`,
		`'input', endpoint, id, input, rest FROM inputs JOIN jobs ON jobs.k = inputs.k WHERE state <> 'COMPLETED' OR webhook <> '' ORDER BY endpoint, id`,
		`'output', endpoint, id, output, error FROM outputs JOIN jobs ON jobs.k = outputs.k ORDER BY endpoint, id`,
		`'chunk', endpoint, id, seq, chunk FROM chunks JOIN jobs ON jobs.k = chunks.k ORDER BY endpoint, id, seq`,
		`'webhook', id, url, webhooks.attempt, next_at, host, webhooks.owner, webhooks.endpoint FROM webhooks JOIN jobs ON jobs.k = webhooks.k ORDER BY webhooks.endpoint, id`,
		`'tally', endpoint, slot, in_queue, waiting, in_progress, completed, failed, retried FROM tallies WHERE in_queue <> 0 OR in_progress <> 0 OR completed + failed + retried > 0 ORDER BY endpoint`,
	} {
		err := db.Read(t.Context(), func(r *sqldb.Reader) error {
			columns, from, _ := strings.Cut(query, " FROM ")
			rows, err := collect(r, func(rows sqldb.Rows) (row string, err error) { err = rows.Scan(&row); return row, err }, "SELECT concat_ws('|', "+columns+") FROM "+from)
			lines = append(lines, rows...)
			return err
		})
		must.Succeed(t, err)
	}
	return lines
}
