package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// The whole suite in virtual time: it stands still while a statement is on its
// way to the server and back. A connection that listens would hold it up for
// good, and polls would be many in seven days, so both are left to the tests
// below, in real time.
func TestPostgres(t *testing.T) {
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
	e, err := engine.Open(t.Context(), engine.Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Poll: poll})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// node is one process among those that share a database.
type node struct {
	*engine.Engine
	db   *sqldb.DB
	once sync.Once
}

func startNode(t *testing.T, c sqldb.Config, poll time.Duration) *node {
	t.Helper()
	db := openPostgres(t, c)
	n := &node{Engine: openShared(t, db, poll), db: db}
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() {
	n.once.Do(func() {
		n.Close()
		_ = n.db.Close()
	})
}

func (n *node) submit(t *testing.T) string {
	t.Helper()
	job, err := n.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

func (n *node) takeOne(t *testing.T, k engine.Take) engine.Taken {
	t.Helper()
	k.Endpoint, k.Worker, k.Max = "ep", "w", 1
	jobs, err := n.TakeOrWait(t.Context(), k)
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	return jobs[0]
}

func (n *node) is(t *testing.T, id string, want engine.State) {
	t.Helper()
	if job, err := n.Get(t.Context(), "ep", id); err != nil || job.State != want {
		t.Errorf("job %s is %s, %v; want %s", id, job.State, err, want)
	}
}

// Of many takers on two processes each job goes to one, and what one process
// does the other one shows at once.
func TestSharedQueue(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t)}
	nodes := []*node{startNode(t, c, 0), startNode(t, c, 0)}
	const jobs, workers = 200, 6
	ctx, done := context.WithCancel(t.Context())
	defer done()
	var mu sync.Mutex
	takes := map[string]int{}
	var all sync.WaitGroup
	for i, n := range nodes {
		for w := range workers {
			all.Go(func() {
				for {
					taken, err := n.TakeOrWait(ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(i, "-", w), Max: 1 + w%3})
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					for _, job := range taken {
						mu.Lock()
						takes[job.ID]++
						mu.Unlock()
						// The result is reported to either of them.
						if d, err := nodes[w%2].Report(ctx, job.Ref, engine.Done([]byte("1"))); err != nil || d != engine.Accepted {
							t.Errorf("%v, %v", d, err)
						}
					}
				}
			})
		}
		all.Go(func() {
			other := nodes[1-i]
			for range jobs / 2 {
				id := n.submit(t)
				watch := other.Watch("ep", id)
				for {
					job, err := other.Get(ctx, "ep", id)
					if err != nil {
						t.Error(err)
						break
					}
					if job.State == engine.Completed {
						break
					}
					<-watch.C
				}
				watch.Stop()
			}
		})
	}
	for {
		counts := nodes[0].Counts("ep")
		if other := nodes[1].Counts("ep"); other.Completed < counts.Completed {
			t.Errorf("counts went back from %+v to %+v", counts, other)
		}
		if counts.Completed == jobs {
			break
		}
		if t.Failed() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	done()
	all.Wait()
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

// A job wakes who waits for one on another process: soon by a hint, and without
// hints at the next poll. The same is true of who waits for a job's end.
func TestSharedWakeUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		noHints bool
		poll    time.Duration
		atMost  time.Duration // generous: the machine may be busy
	}{
		{"hints", false, never, time.Minute},
		{"polls", true, 0, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := sqldb.Config{URL: pgtest.Start(t), NoHints: c.noHints}
			a, b := startNode(t, config, c.poll), startNode(t, config, c.poll)
			if !c.noHints {
				listening(t, a, b)
			}
			var slowest time.Duration
			for range 5 {
				taken := make(chan engine.Taken, 1)
				go func() {
					jobs, err := b.TakeOrWait(t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
					if err != nil {
						t.Error(err)
						close(taken)
						return
					}
					taken <- jobs[0]
				}()
				waiting(t, b)
				start := time.Now()
				id := a.submit(t)
				watch := a.Watch("ep", id)
				job := <-taken
				if _, err := b.Report(t.Context(), job.Ref, engine.Done(nil)); err != nil {
					t.Fatal(err)
				}
				for {
					got, err := a.Get(t.Context(), "ep", id)
					if err != nil {
						t.Fatal(err)
					}
					if got.State == engine.Completed {
						break
					}
					<-watch.C
				}
				slowest = max(slowest, time.Since(start))
				watch.Stop()
			}
			t.Logf("the slowest way there and back took %s", slowest)
			if slowest > c.atMost {
				t.Errorf("the slowest way there and back took %s", slowest)
			}
		})
	}
}

// listening waits until hints go both ways.
func listening(t *testing.T, nodes ...*node) {
	t.Helper()
	for i, from := range nodes {
		watch := nodes[1-i].Watch("nowhere", "nothing")
		defer watch.Stop()
		for heard := false; !heard; {
			from.db.Notify(fmt.Sprintf("nowhere\tnothing\t%d", time.Now().UnixNano()))
			select {
			case <-watch.C:
				heard = true
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// waiting gives a taker time to stand in line. Should it come later it finds
// the job by itself.
func waiting(t *testing.T, _ *node) {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
}

// A process that starts leaves the jobs of the others alone; one that stops
// gives its own back; one that dies is found out, and its jobs run again
// without using up their retry.
func TestSharedStops(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t)}
	const poll = 20 * time.Millisecond
	a := startNode(t, c, poll)
	// b's connection can be cut, which is how a dead process looks.
	proxy, through := pgtest.NewProxy(t, c.URL)
	b := startNode(t, sqldb.Config{URL: through}, poll)

	ofA, ofB, leased := a.submit(t), a.submit(t), a.submit(t)
	a.takeOne(t, engine.Take{})
	jobB := b.takeOne(t, engine.Take{})
	jobLeased := b.takeOne(t, engine.Take{Lease: time.Hour})
	if jobB.ID != ofB || jobLeased.ID != leased {
		t.Fatal("taken in another order")
	}
	third := startNode(t, c, poll)
	for _, id := range []string{ofA, ofB, leased} {
		third.is(t, id, engine.InProgress)
	}

	watch := third.Watch("ep", ofB)
	defer watch.Stop()
	proxy.Cut()
	for {
		job, err := third.Get(t.Context(), "ep", ofB)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == engine.InQueue {
			if job.Retries != 0 {
				t.Errorf("the death of a process used up %d retries", job.Retries)
			}
			break
		}
		<-watch.C
	}
	third.is(t, ofA, engine.InProgress)
	third.is(t, leased, engine.InProgress) // its worker may report to any process
	again := third.takeOne(t, engine.Take{})
	if again.ID != ofB || again.Attempt != jobB.Attempt+1 {
		t.Errorf("took %+v", again)
	}

	// The process was alive, only away: it learns that the job is another's.
	proxy.Mend(t)
	if d, err := b.Report(t.Context(), jobB.Ref, engine.Done(nil)); err != nil || d != engine.Stale {
		t.Errorf("a late report: %v, %v", d, err)
	}
	if d, err := a.Report(t.Context(), jobLeased.Ref, engine.Done(nil)); err != nil || d != engine.Accepted {
		t.Errorf("a report to another process: %v, %v", d, err)
	}
	third.is(t, ofB, engine.InProgress)

	a.stop()
	third.is(t, ofA, engine.InQueue)
	third.stop()
	b.is(t, ofB, engine.InQueue)
}

// A time in which the database served nobody counts against nobody.
func TestSharedOutage(t *testing.T) {
	c := sqldb.Config{URL: pgtest.Start(t)}
	const poll = 20 * time.Millisecond
	proxy, through := pgtest.NewProxy(t, c.URL)
	a, b := startNode(t, sqldb.Config{URL: through}, poll), startNode(t, sqldb.Config{URL: through}, poll)
	id := a.submit(t)
	job := a.takeOne(t, engine.Take{})
	proxy.Cut()
	if _, err := a.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}")}); !errors.Is(err, sqldb.ErrAway) {
		t.Errorf("submitted to a database that is away: %v", err)
	}
	time.Sleep(3 * 10 * poll)
	proxy.Mend(t)
	b.is(t, id, engine.InProgress)
	if d, err := b.Report(t.Context(), job.Ref, engine.Done(nil)); err != nil || d != engine.Accepted {
		t.Errorf("%v, %v", d, err)
	}
}
