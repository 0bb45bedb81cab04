package engine_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

func TestMemory(t *testing.T) {
	runSuite(t, func(*testing.T) sqldb.Config { return sqldb.Config{} })
}

func TestFile(t *testing.T) {
	runSuite(t, func(t *testing.T) sqldb.Config { return sqldb.Config{Dir: t.TempDir(), NoSync: true} })
}

// Listening connections would stop virtual time, and polls would take too long over seven days; other tests cover both.
func TestPostgres(t *testing.T) {
	setFlag(t, "rapid.checks", "15") // differences of the dialects show in few random histories
	address := pgtest.Start(t)
	runSuite(t, func(t *testing.T) sqldb.Config {
		pgtest.Exec(t, address, deleteRows)
		return sqldb.Config{URL: address, NoNotify: true}
	})
}

// deleteRows empties the engine's tables, which takes a tenth of the time of creating them.
const deleteRows = `DO $$ DECLARE name TEXT; BEGIN
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT IN ('meta', 'compatible') LOOP
		EXECUTE 'DELETE FROM ' || name;
	END LOOP;
END $$`

func setFlag(t *testing.T, name, value string) {
	f := flag.Lookup(name)
	before := f.Value.String()
	must.Succeed(t, f.Value.Set(value))
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

// harness runs a test in virtual time, on an engine with an empty database.
type harness func(t *testing.T, test func(t *tester))

// runSuite runs the tests that an engine must pass on every database.
func runSuite(t *testing.T, config func(*testing.T) sqldb.Config) {
	h := func(t *testing.T, test func(t *tester)) {
		c := config(t)
		synctest.Test(t, func(t *testing.T) { test(newTester(t, c, nil)) })
	}
	for name, test := range map[string]func(t *tester){
		"bytes are kept as they are": testBytes,
		"waiting takers":             testWaitingTakers,
		"watching":                   testWatch,
		"purge against takers":       testPurgeAgainstTakers,
		"stream":                     testStream,
		"large stream":               testLargeStream,
		"newest jobs":                testNewest,
		"newest jobs of all":         testNewestOfAll,
		"newest jobs of both kinds":  testNewestOfBothKinds,
		"webhook calls":              testCalls,
		"queues of webhook calls":    testCallQueues,
		"deleted endpoint":           testDrop,
		"many at once":               testMany,
		"batches":                    testBatches,
		"batches that end early":     testBatchEndsEarly,
		"limits of batches":          testBatchLimits,
		"success":                    testSuccess,
		"order of the queue":         testOrder,
		"purge":                      testPurge,
	} {
		t.Run(name, func(t *testing.T) { h(t, test) })
	}
	t.Run("model", func(t *testing.T) { testModel(t, h) })
	t.Run("model of batches", func(t *testing.T) { testBatchModel(t, h) })
}

// tester is an engine with short helpers for tests.
type tester struct {
	testing.TB
	*engine.Engine
	ctx      context.Context
	db       *sqldb.DB
	stopOnce sync.Once

	configure func(*engine.Config) // changes the engine's configuration at each start, or nil
}

// noPoll is an interval of polls that is longer than every test.
const noPoll = 1000 * 24 * time.Hour

func newTester(t *testing.T, c sqldb.Config, configure func(*engine.Config)) *tester {
	t.Helper()
	db := must.Do(sqldb.Open(context.Background(), c))(t)
	s := &tester{TB: t, ctx: t.Context(), db: db, configure: configure}
	t.Cleanup(s.stop)
	s.start()
	return s
}

func (t *tester) start() {
	t.Helper()
	c := engine.Config{DB: t.db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	c.SetPoll(noPoll)
	if t.configure != nil {
		t.configure(&c)
	}
	t.Engine = must.Do(engine.Open(t.ctx, c))(t)
}

func (t *tester) stop() {
	t.stopOnce.Do(func() {
		if t.Engine != nil {
			t.Close()
		}
		must.Equal(t, t.db.Close(), nil)
	})
}

// restart restarts the engine on the same database. It skips the rest of the test if that is in memory.
func (t *tester) restart() {
	t.Helper()
	if t.db.Memory() > 0 {
		t.SkipNow()
	}
	t.Close()
	t.start()
	if t.db.Shared() { // as a node does
		var endpoints []string
		for _, queue := range must.Do(t.StoredQueues(t.ctx))(t) {
			endpoints = append(endpoints, engine.EndpointOf(queue))
		}
		must.Do(t.Claim(t.ctx, endpoints...))(t)
	}
}

// repetitions returns n, or in make test a tenth of n on PostgreSQL, where each commit waits for the disk.
func (t *tester) repetitions(n int) int {
	if testing.Short() && os.Getenv("CI") == "" && t.db.Shared() {
		return n / 10
	}
	return n
}

// advance advances the time and waits until everything due has happened.
func (t *tester) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (t *tester) submit(n engine.NewJob) string {
	t.Helper()
	n.Endpoint = cmp.Or(n.Endpoint, "ep")
	if n.Input == nil {
		n.Input = []byte(`{}`)
	}
	return must.Do(t.Submit(t.ctx, n))(t).ID
}

// take takes a job, and fails the test if the queue is empty.
func (t *tester) take(request engine.Take) engine.Taken {
	t.Helper()
	request.Endpoint, request.Worker, request.Max = cmp.Or(request.Endpoint, "ep"), cmp.Or(request.Worker, "w"), 1
	jobs, err := t.TakeQueued(t.ctx, request)
	must.Require(t, err == nil && len(jobs) == 1, "took", len(jobs), "jobs,", err, "want 1")
	return jobs[0]
}

func (t *tester) report(ref engine.Ref, r engine.Report, want engine.Directive) {
	t.Helper()
	got, err := t.Report(t.ctx, ref, r)
	must.Hold(t, err == nil && got == want, "the report returned", got, err, "want", want)
}

func (t *tester) get(id string) engine.Job {
	t.Helper()
	job, err := t.Get(t.ctx, "ep", id)
	must.Succeed(t, err, "job", id)
	return job
}

// expectState checks a job's state and returns the job. A want of "" means that the job doesn't exist.
func (t *tester) expectState(id string, want engine.State) engine.Job {
	t.Helper()
	job, err := t.Get(t.ctx, "ep", id)
	if want == "" {
		must.ErrorIs(t, err, engine.ErrNotFound, "job", id, "is", job.State, "want no job")
		return engine.Job{}
	}
	must.Hold(t, err == nil && job.State == want && job.Delay >= 0 && job.Execution >= 0, "job", id, "is", job, err, "want", want)
	return job
}

func (t *tester) expectCounts(want engine.Counts) {
	t.Helper()
	got := t.Counts("ep")
	must.Hold(t, got.InQueue == want.InQueue && got.InProgress == want.InProgress && got.Completed == want.Completed &&
		got.Failed == want.Failed && got.Retried == want.Retried, "counts are", got, "want", want)
}

// In memory, the errors of failed jobs count like outputs.
func TestErrorsTakeMemory(t *testing.T) {
	e := newTester(t, sqldb.Config{Memory: 64 << 10}, nil)
	_, id := e.submit(engine.NewJob{}), e.submit(engine.NewJob{})
	for range 2 {
		e.report(e.take(engine.Take{}).Ref, engine.Fail(strings.Repeat("x", 32<<10), nil), engine.Accepted)
	}
	must.Hold(t, strings.HasPrefix(e.get(id).Error, "the result, of 32768 bytes, could not be stored"), "the error of the last job:", e.get(id).Error)
}

// Each transition, but no chunk, is observed once, with the job's delay and execution time.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []engine.Event
		e := newTester(t, sqldb.Config{}, func(c *engine.Config) { c.Observe = func(ev engine.Event) { got = append(got, ev) } })
		first := e.submit(engine.NewJob{})
		time.Sleep(2 * time.Second)
		e.report(e.take(engine.Take{}).Ref, engine.Lost(""), engine.Accepted)
		time.Sleep(time.Second)
		ref := e.take(engine.Take{}).Ref
		e.report(ref, engine.Chunk([]byte(`1`), nil), engine.Accepted)
		time.Sleep(3 * time.Second)
		e.report(ref, engine.Done(nil), engine.Accepted)
		e.report(ref, engine.Done(nil), engine.Stale)
		second := e.submit(engine.NewJob{})
		must.Do(e.Cancel(t.Context(), "ep", second))(t)
		want := []engine.Event{
			{To: engine.InQueue, Counts: engine.Counts{InQueue: 1}},
			{From: engine.InQueue, To: engine.InProgress, Delay: 2 * time.Second, Counts: engine.Counts{InProgress: 1}},
			{From: engine.InProgress, To: engine.InQueue, Retry: true, Counts: engine.Counts{InQueue: 1, Retried: 1}},
			{From: engine.InQueue, To: engine.InProgress, Delay: time.Second, Counts: engine.Counts{InProgress: 1, Retried: 1}},
			{From: engine.InProgress, To: engine.Completed, Delay: time.Second, Execution: 3 * time.Second, Counts: engine.Counts{Completed: 1, Retried: 1}},
			{To: engine.InQueue, Counts: engine.Counts{InQueue: 1, Completed: 1, Retried: 1}},
			{From: engine.InQueue, To: engine.Cancelled, Counts: engine.Counts{Completed: 1, Retried: 1}},
		}
		for i := range want {
			want[i].Endpoint, want[i].Job = "ep", first
			if i >= 5 {
				want[i].Job = second
			}
		}
		// Compare the printed events, because waiting isn't exported.
		withoutWaiting := regexp.MustCompile(` waiting:\d+`)
		must.Equal(t, withoutWaiting.ReplaceAllString(fmt.Sprintf("%+v", got), ""), withoutWaiting.ReplaceAllString(fmt.Sprintf("%+v", want), ""), "the observed events")
	})
}
