package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine/enginetest"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// The suite in virtual time, which doesn't advance during a statement. A listening connection
// would stop it for good, and seven days have too many polls, so other tests cover both in
// real time.
func TestPostgres(t *testing.T) {
	fewerRandomRuns(t)
	enginetest.Run(t, func(t *testing.T, test func(*testing.T, *enginetest.Env)) {
		address := pgtest.Start(t)
		synctest.Test(t, func(t *testing.T) {
			db := openPostgres(t, sqldb.Config{URL: address, NoHints: true})
			env := &enginetest.Env{
				Engine:  openShared(t, db, never),
				Advance: func(d time.Duration) { time.Sleep(d); synctest.Wait() },
				Settle:  synctest.Wait,
			}
			env.Restart = func() {
				env.Close()
				env.Engine = openShared(t, db, never)
			}
			defer func() {
				env.Close()
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, env)
		})
	})
}

// fewerRandomRuns saves time, because differences of the dialects show in short random
// histories.
func fewerRandomRuns(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set("15"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) })
}

const never = 1000 * 24 * time.Hour

func openPostgres(t *testing.T, c sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func openShared(t *testing.T, db *sqldb.DB, poll time.Duration) *engine.Engine {
	t.Helper()
	return openSharedAt(t, db, poll, new(clock.Clock))
}

func openSharedAt(t *testing.T, db *sqldb.DB, poll time.Duration, c *clock.Clock) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{DB: db, Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Poll: poll})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// node is a process that shares a database.
type node struct {
	*engine.Engine
	t    *testing.T
	db   *sqldb.DB
	once sync.Once
}

func startNode(t *testing.T, c sqldb.Config, poll time.Duration) *node {
	t.Helper()
	db := openPostgres(t, c)
	n := &node{Engine: openShared(t, db, poll), t: t, db: db}
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() {
	n.once.Do(func() {
		n.Close()
		if err := n.db.Close(); err != nil {
			n.t.Error(err)
		}
	})
}

func (n *node) submit() string {
	n.t.Helper()
	job, err := n.Submit(n.t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}")})
	if err != nil {
		n.t.Fatal(err)
	}
	return job.ID
}

// take waits for a job.
func (n *node) take(lease time.Duration) engine.Taken {
	n.t.Helper()
	jobs, err := n.TakeOrWait(n.t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1, Lease: lease})
	if err != nil || len(jobs) != 1 {
		n.t.Fatal(jobs, err)
	}
	return jobs[0]
}

func (n *node) expectReport(ref engine.Ref, want engine.Directive) {
	n.t.Helper()
	if got, err := n.Report(n.t.Context(), ref, engine.Done(nil)); err != nil || got != want {
		n.t.Errorf("the report returned %v, %v; want %v", got, err, want)
	}
}

func (n *node) expectState(id string, want engine.State) engine.Job {
	n.t.Helper()
	job, err := n.Get(n.t.Context(), "ep", id)
	if err != nil || job.State != want {
		n.t.Errorf("job %s is %s, %v; want %s", id, job.State, err, want)
	}
	return job
}

// awaitCompleted waits until a job is COMPLETED.
func (n *node) awaitCompleted(id string) {
	n.t.Helper()
	watch := n.Watch("ep", id)
	defer watch.Stop()
	for {
		job, err := n.Get(n.t.Context(), "ep", id)
		if err != nil {
			n.t.Error(err)
			return
		}
		if job.State == engine.Completed {
			return
		}
		<-watch.C
	}
}

// work takes jobs and calls done for each until ctx ends.
func (n *node) work(ctx context.Context, k engine.Take, done func(engine.Taken)) {
	for {
		taken, err := n.TakeOrWait(ctx, k)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				n.t.Error(err)
			}
			return
		}
		for _, job := range taken {
			done(job)
		}
	}
}

// Each job goes to one of many takers on two processes, and each process sees the other's
// changes at once.
func TestSharedQueue(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t)}
	nodes := []*node{startNode(t, c, 0), startNode(t, c, 0)}
	const jobs, workers = 200, 6
	ctx, done := context.WithCancel(t.Context())
	defer done()
	var mu sync.Mutex
	takes := map[string]int{}
	var working, submitting sync.WaitGroup
	for i, n := range nodes {
		for w := range workers {
			working.Go(func() {
				n.work(ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(i, "-", w), Max: 1 + w%3}, func(job engine.Taken) {
					mu.Lock()
					takes[job.ID]++
					mu.Unlock()
					nodes[w%2].expectReport(job.Ref, engine.Accepted)
				})
			})
		}
		submitting.Go(func() {
			for j := range jobs / 2 {
				id, other := n.submit(), nodes[1-i]
				other.awaitCompleted(id)
				if got := other.Counts("ep"); got.Completed <= j {
					t.Errorf("counts are %+v after %d jobs", got, j+1)
				}
			}
		})
	}
	submitting.Wait()
	done()
	working.Wait()
	if len(takes) != jobs {
		t.Errorf("%d jobs were taken, want %d", len(takes), jobs)
	}
	for id, n := range takes {
		if n != 1 {
			t.Errorf("job %s was taken %d times", id, n)
		}
	}
	for _, n := range nodes {
		if got := n.Counts("ep"); got.InQueue != 0 || got.InProgress != 0 || got.Completed != jobs || got.Retried != 0 {
			t.Errorf("counts are %+v", got)
		}
	}
}

// A hint of a submission wakes a worker that waits on another process, and a hint of a job's
// end wakes its watches there. Without polls, nothing else could wake them.
func TestHintsBetweenProcesses(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t)}
	a, b := startNode(t, c, never), startNode(t, c, never)
	listening(t, a, b)
	listening(t, b, a)
	ctx, done := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		b.work(ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1}, func(job engine.Taken) { b.expectReport(job.Ref, engine.Accepted) })
	})
	var roundTrips []time.Duration
	for range 20 {
		start := time.Now()
		a.awaitCompleted(a.submit())
		roundTrips = append(roundTrips, time.Since(start))
	}
	slices.Sort(roundTrips)
	t.Logf("round trips: median %s, maximum %s", roundTrips[len(roundTrips)/2], roundTrips[len(roundTrips)-1])
	done()
	working.Wait()
}

// listening waits until hints arrive.
func listening(t *testing.T, from, to *node) {
	t.Helper()
	watch := to.Watch("nowhere", "nothing")
	defer watch.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		from.db.Notify("nowhere\tnothing\t")
		select {
		case <-watch.C:
			return
		case <-tick.C:
		}
	}
}

// Without hints the next poll wakes takers and watches within half a second.
func TestPolls(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoHints: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		ctx, done := context.WithCancel(t.Context())
		var working sync.WaitGroup
		for w := range 3 {
			working.Go(func() {
				b.work(ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(w), Max: 1}, func(job engine.Taken) {
					b.expectReport(job.Ref, engine.Accepted)
				})
			})
		}
		for range 5 {
			synctest.Wait()
			start := time.Now()
			ids := []string{a.submit(), a.submit(), a.submit()}
			for _, id := range ids {
				a.awaitCompleted(id)
			}
			if d := time.Since(start); d > time.Second { // one poll for the take, one for the end
				t.Errorf("the round trip took %s", d)
			}
		}
		done()
		working.Wait()
	})
}

// If a process is gone, another one expires its jobs.
func TestSharedExpiry(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoHints: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		job, err := a.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}"), TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		a.stop()
		watch := b.Watch("ep", job.ID)
		defer watch.Stop()
		time.Sleep(time.Minute + time.Second)
		if got := b.Counts("ep"); got.InQueue != 0 {
			t.Errorf("counts are %+v after the job's time", got)
		}
	})
}

// A starting process doesn't change the jobs of others. A stopping process returns its jobs.
// If a process dies, the others requeue its jobs, which counts a retry.
func TestSharedStops(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t), NoHints: true}
	proxy, through := pgtest.NewProxy(t, c.URL) // a process behind a cut proxy looks dead
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, sqldb.Config{URL: through, NoHints: true}, 0)
		ofA, ofB, leased := a.submit(), a.submit(), a.submit()
		a.take(0)
		jobB, jobLeased := b.take(0), b.take(time.Hour)
		if jobB.ID != ofB || jobLeased.ID != leased {
			t.Fatal("the jobs were taken in another order")
		}
		third := startNode(t, c, 0)
		all := func(wantB engine.State) {
			t.Helper()
			third.expectState(ofA, engine.InProgress)
			third.expectState(leased, engine.InProgress) // its worker can report to any process
			want := 0
			if wantB == engine.InQueue {
				want = 1
			}
			if job := third.expectState(ofB, wantB); job.Retries != want {
				t.Errorf("%d retries were used up, want %d", job.Retries, want)
			}
		}
		time.Sleep(time.Minute)
		all(engine.InProgress)
		proxy.Cut()
		time.Sleep(4 * time.Second)
		all(engine.InProgress)
		time.Sleep(2 * time.Second)
		all(engine.InQueue)
		if again := third.take(0); again.ID != ofB || again.Attempt != jobB.Attempt+1 {
			t.Errorf("took %+v", again)
		}

		// The process was alive, and learns that another one has its job.
		proxy.Mend(t)
		b.expectReport(jobB.Ref, engine.Stale)
		a.expectReport(jobLeased.Ref, engine.Accepted)
		third.expectState(ofB, engine.InProgress)

		a.stop()
		if job := third.expectState(ofA, engine.InQueue); job.Retries != 0 {
			t.Errorf("a process that stopped used up %d retries", job.Retries)
		}
		third.stop()
		b.expectState(ofB, engine.InQueue)
	})
}

// During an outage of the database no process counts as dead.
func TestSharedOutage(t *testing.T) {
	proxy, through := pgtest.NewProxy(t, pgtest.Start(t))
	c := sqldb.Config{URL: through, NoHints: true}
	synctest.Test(t, func(t *testing.T) {
		a, b := startNode(t, c, 0), startNode(t, c, 0)
		id := a.submit()
		job := a.take(0)
		for range 3 {
			time.Sleep(3 * time.Second)
			proxy.Cut()
			if _, err := a.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}")}); !errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("a submission during an outage of the database: %v", err)
			}
			time.Sleep(time.Minute)
			proxy.Mend(t)
		}
		time.Sleep(10 * time.Second)
		b.expectState(id, engine.InProgress)
		b.expectReport(job.Ref, engine.Accepted)
	})
}
