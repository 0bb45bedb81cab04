package limits_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// process simulates a process that shares limits with others through a database.
type process struct {
	*limits.Shared
	db     *sqldb.DB
	clock  *clock.Clock
	silent *atomic.Bool // ignores announcements
}

// startProcesses starts processes with stopped clocks.
func startProcesses(t *testing.T, names ...string) (all []process) {
	t.Helper()
	url := pgtest.Start(t)
	for _, name := range names {
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: url}))(t)
		t.Cleanup(func() { _ = db.Close() })
		if len(all) == 0 {
			pgtest.Exec(t, url, "CREATE TABLE processes (id TEXT PRIMARY KEY)") // a table of the engine
		}
		pgtest.Exec(t, url, "INSERT INTO processes VALUES ('"+name+"')")
		c := new(clock.Clock)
		c.Stop()
		s := must.Do(limits.NewShared(t.Context(), limits.SharedConfig{
			DB: db, Clock: c, Process: func() string { return name }, Nodes: func() int { return len(names) }, Announce: db.Notify,
		}))(t)
		silent := new(atomic.Bool)
		db.Listen(func(key string) {
			if !silent.Load() {
				s.ReturnUnused(key)
			}
		})
		all = append(all, process{s, db, c, silent})
	}
	return all
}

func noneRuns() int { return 0 }

func isLimited(t *testing.T, err error) bool {
	t.Helper()
	var exceeded *limits.Exceeded
	must.Require(t, err == nil || errors.As(err, &exceeded), err)
	return err != nil
}

// Several processes together admit exactly as many requests as one, and again after the window.
func TestSharedRate(t *testing.T) {
	t.Parallel()
	all := startProcesses(t, "a", "b", "c")
	for _, operation := range []limits.Operation{limits.PurgeQueue, limits.Requests, limits.Cancel, limits.Run} {
		k := limits.Key{User: "u", Endpoint: "e", Operation: operation}
		for round := range 2 {
			var admitted atomic.Int64
			var clients sync.WaitGroup
			want := int64(limits.Table[operation].Rate)
			for i := range 6 {
				clients.Go(func() {
					// A request that exceeds the concurrency limit doesn't count.
					for try := int64(0); try <= want/4 || admitted.Load() < want && try < want/4+5000; try++ {
						done, err := all[i%3].Admit(t.Context(), k, noneRuns)
						if err != nil {
							if isLimited(t, err) {
								time.Sleep(time.Millisecond)
							}
							continue
						}
						admitted.Add(1)
						done()
					}
				})
			}
			clients.Wait()
			must.Equal(t, admitted.Load(), want, "operation", operation, "round", round, "requests were admitted")
			for _, p := range all {
				p.clock.Advance(limits.Window + time.Second)
			}
		}
	}
}

// No window exceeds the limit, wherever it begins. Soon after a window new requests are admitted.
func TestSharedWindow(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, "a")[0]
	k := limits.Key{User: "u", Endpoint: "e", Operation: limits.PurgeQueue}
	const step = 50 * time.Millisecond
	for range 10 { // at different offsets in a slot
		p.clock.Advance(limits.Window + time.Second + step)
		for range limits.Table[k.Operation].Rate {
			_, err := p.Admit(t.Context(), k, noneRuns)
			must.Require(t, !isLimited(t, err), err)
		}
		p.clock.Advance(limits.Window - step)
		_, err := p.Admit(t.Context(), k, noneRuns)
		var exceeded *limits.Exceeded
		if !errors.As(err, &exceeded) || exceeded.RetryAfter < step || exceeded.RetryAfter > 2*step {
			t.Fatalf("one more in the window: %#v", err)
		}
		p.clock.Advance(exceeded.RetryAfter)
		_, err = p.Admit(t.Context(), k, noneRuns)
		must.Require(t, !isLimited(t, err), "after the RetryAfter of the rejection:", err)
	}
}

// The concurrency limit counts the requests of all live processes.
func TestSharedConcurrency(t *testing.T) {
	t.Parallel()
	all := startProcesses(t, "a", "b")
	a, b := all[0], all[1]
	for _, operation := range []limits.Operation{limits.Requests, limits.Cancel, limits.Run} {
		k := limits.Key{User: "u", Endpoint: "e", Operation: operation}
		var ends []func()
		for n := 0; ; n++ {
			done, err := all[n%2].Admit(t.Context(), k, noneRuns)
			if isLimited(t, err) {
				break
			}
			ends = append(ends, done)
		}
		must.Equal(t, len(ends), limits.Table[operation].Concurrent, "operation", operation, "at a time")
		ends[0]() // of a
		done, err := b.Admit(t.Context(), k, noneRuns)
		must.Require(t, !isLimited(t, err), "operation", operation, "the slot that the other process released:", err)
		done()
		for _, end := range ends[1:] {
			end()
		}
		for _, p := range all {
			p.clock.Advance(limits.Window + time.Second)
			must.Succeed(t, p.Sweep(t.Context(), true))
		}
	}
	k := limits.Key{User: "u", Endpoint: "e", Operation: limits.Requests}
	for range 2 { // process a exits while these are in flight
		_, err := a.Admit(t.Context(), k, noneRuns)
		must.Require(t, !isLimited(t, err), err)
	}
	if _, err := b.Admit(t.Context(), k, noneRuns); !isLimited(t, err) {
		t.Fatal("a third request is admitted")
	}
	err := b.db.Write(t.Context(), func(tx *sqldb.Tx) error { return must.Err(tx.Exec("DELETE FROM processes WHERE id = 'a'")) })
	must.Succeed(t, err)
	_, err = b.Admit(t.Context(), k, noneRuns)
	must.Hold(t, !isLimited(t, err), "requests of a process that has exited count:", err)
}

// Exactly as many simultaneous requests are admitted as the concurrency limit allows.
func TestSharedConcurrencyAtOnce(t *testing.T) {
	t.Parallel()
	all := startProcesses(t, "a", "b")
	for _, operation := range []limits.Operation{limits.Requests, limits.Cancel, limits.Run, limits.Stream} {
		k := limits.Key{User: "u", Endpoint: "e", Operation: operation}
		want := limits.Table[operation].Concurrent
		for range 3 {
			var admitted atomic.Int64
			var clients, answered sync.WaitGroup
			release := make(chan struct{})
			for i := range want + 5 {
				answered.Add(1)
				clients.Go(func() {
					done, err := all[i%2].Admit(t.Context(), k, noneRuns)
					if !isLimited(t, err) {
						admitted.Add(1)
						defer done()
					}
					answered.Done()
					<-release
				})
			}
			answered.Wait()
			close(release)
			clients.Wait()
			must.Equal(t, int(admitted.Load()), want, "operation", operation, "at a time")
			for _, p := range all {
				p.clock.Advance(limits.Window + time.Second)
				must.Equal(t, p.Sweep(t.Context(), true), nil)
			}
		}
	}
}

// If one process reaches the limit, the other returns its unused reservations. If the other
// doesn't respond, the request is rejected after a moment.
func TestSharedLimitRequestsUnusedReservations(t *testing.T) {
	t.Parallel()
	all := startProcesses(t, "a", "b")
	a, b := all[0], all[1]
	want := limits.Table[limits.Status].Concurrent
	for round, silent := range []bool{false, true, false} {
		a.silent.Store(silent)
		k := limits.Key{User: "u", Endpoint: fmt.Sprint("e", round), Operation: limits.Status}
		var ends []func()
		for range 60 { // so fast that the process makes reservations
			done, err := a.Admit(t.Context(), k, noneRuns)
			must.Require(t, !isLimited(t, err), err)
			ends = append(ends, done)
		}
		var mu sync.Mutex
		var clients sync.WaitGroup
		for range want {
			clients.Go(func() {
				done, err := b.Admit(t.Context(), k, noneRuns)
				if !isLimited(t, err) {
					mu.Lock()
					defer mu.Unlock()
					ends = append(ends, done)
				}
			})
		}
		clients.Wait()
		got := len(ends)
		must.Hold(t, (!silent || got < want && got >= want-want/16) && (silent || got == want), got, "at a time, want", want, "silent", silent)
		for _, end := range ends {
			end()
		}
	}
}

// A request that waits behind a finished request counts the running workers.
func TestSharedRateOfWorkers(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, "a")[0]
	k := limits.Key{User: "u", Endpoint: "e", Operation: limits.Cancel}
	limit := limits.Table[limits.Cancel]
	const workers = 10
	admit := func() (func(), error) { return p.Admit(t.Context(), k, func() int { return workers }) }
	var clients sync.WaitGroup
	var begun atomic.Int64
	for range 4 {
		clients.Go(func() {
			for begun.Add(1) <= workers*int64(limit.PerWorker) {
				done, err := admit()
				if isLimited(t, err) {
					t.Errorf("one of the first %d: %v", begun.Load(), err)
					return
				}
				done()
			}
		})
	}
	clients.Wait()
	if t.Failed() {
		return
	}
	_, err := admit()
	must.Hold(t, isLimited(t, err), "a request above the rate of the workers is admitted")
}

// Most requests need no statement while little of a limit is used and other requests are in flight.
func TestSharedReserves(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, "a")[0]
	k := limits.Key{User: "u", Endpoint: "e", Operation: limits.RunSync}
	must.Succeed(t, must.Err(p.Admit(t.Context(), k, noneRuns))) // in flight all the time
	const more = 2 + 4 + 8 + 16 + 32 + 64 + 1                    // reservations double up to here
	for range more {
		done := must.Do(p.Admit(t.Context(), k, noneRuns))(t)
		done()
	}
	must.Succeed(t, p.db.Close())
	for n := range 100 {
		done, err := p.Admit(t.Context(), k, noneRuns)
		must.Succeed(t, err, "request", n, "asks the database:")
		done()
	}
	p.clock.Advance(time.Second)
	must.Hold(t, must.Err(p.Admit(t.Context(), k, noneRuns)) != nil, "unused reservations do not expire")
}

// Another process can use returned reservations.
func TestSharedReservationsReturn(t *testing.T) {
	t.Parallel()
	all := startProcesses(t, "a", "b")
	k := limits.Key{User: "u", Endpoint: "e", Operation: limits.Run}
	admitted := 0
	admit := func(p process) bool {
		done, err := p.Admit(t.Context(), k, noneRuns)
		if isLimited(t, err) {
			return false
		}
		done()
		admitted++
		return true
	}
	for range 40 {
		admit(all[0])
	}
	for _, p := range all {
		p.clock.Advance(2 * time.Second)
	}
	must.Succeed(t, all[0].Sweep(t.Context(), false))
	for admit(all[1]) {
	}
	must.Equal(t, admitted, limits.Table[limits.Run].Rate, "were admitted")
}
