//go:build unix

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// BenchmarkJobs measures a job's processor time with 64 clients, waiting or not, and eight workers.
func BenchmarkJobs(b *testing.B) {
	for _, wait := range []bool{false, true} {
		for name, dir := range map[string]string{"memory": "", "disk": b.TempDir()} {
			b.Run(fmt.Sprintf("%s/wait=%v", name, wait), func(b *testing.B) { benchmarkJobs(b, dir, wait) })
		}
	}
}

func benchmarkJobs(b *testing.B, dir string, wait bool) {
	e := newBenchEngine(b, dir)
	ctx, cancel := context.WithCancel(b.Context())
	var workers, clients sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			next := Take{Endpoint: "ep", Worker: "w", Max: 1}
			jobs, err := e.Take(ctx, next)
			for err == nil {
				if len(jobs) == 0 {
					jobs, err = e.Take(ctx, next)
					continue
				}
				jobs = e.ReportAndTake(ctx, jobs[0].Ref, Done([]byte(`{"a": 1}`)), next, func(Directive, error) {})
			}
		})
	}
	input := make([]byte, 1024)
	for i := range input {
		input[i] = 'a'
	}
	input[0], input[1023] = '"', '"'
	before := processorTime()
	b.ResetTimer()
	todo := make(chan struct{}, b.N)
	for range b.N {
		todo <- struct{}{}
	}
	close(todo)
	for range 64 {
		clients.Go(func() {
			for range todo {
				_, watch, err := e.SubmitAndWatch(b.Context(), NewJob{Endpoint: "ep", Input: input})
				if err != nil {
					b.Error(err)
					return
				}
				for wait && watch.End() == nil {
					<-watch.C
				}
				watch.Stop()
			}
		})
	}
	clients.Wait()
	for {
		n := must.Do(e.CountsNow(b.Context(), "ep"))(b)
		if n.InQueue+n.InProgress == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
	cancel()
	workers.Wait()
}

func processorTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// newBenchEngine returns an engine for a benchmark. It stores jobs in a folder or, for "", in memory.
func newBenchEngine(b *testing.B, dir string) *Engine {
	b.Helper()
	db := must.Do(sqldb.Open(b.Context(), sqldb.Config{Dir: dir}))(b)
	b.Cleanup(func() { _ = db.Close() })
	e := must.Do(Open(b.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)}))(b)
	b.Cleanup(e.Close)
	return e
}

// BenchmarkStart measures a start with 100,000 queued and 1,000,000 finished jobs, and the memory of a queued job.
func BenchmarkStart(b *testing.B) {
	const queued, finished = 100_000, 1_000_000
	db := must.Do(sqldb.Open(b.Context(), sqldb.Config{Dir: b.TempDir()}))(b)
	defer db.Close()
	config := Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)}
	must.Do(Open(b.Context(), config))(b).Close()
	must.Succeed(b, db.Write(b.Context(), func(tx *sqldb.Tx) error {
		now := time.Now().UnixMilli()
		for _, group := range []struct {
			first, n int64
			state    State
			done     int
		}{{0, finished, Completed, 1}, {finished, queued, InQueue, 0}} {
			const rows = `WITH RECURSIVE n (k) AS (SELECT ?1 + 1 UNION ALL SELECT k + 1 FROM n WHERE k < ?1 + ?2) `
			if _, err := tx.Exec(rows+`INSERT INTO jobs SELECT k, 'ep', printf('018f0000-0000-7000-8000-%012d-q1', k), 0, '', '', 0, 1800000, 0,
				?3, k, k, '', 0, 0, 0, 0, 0, ?4, ?4 + 86400000, ?4 + 86400000, 0, 0, 0, ?5 FROM n`, group.first, group.n, string(group.state), now, group.done); err != nil {
				return err
			}
			if group.state != InQueue {
				continue
			}
			if _, err := tx.Exec(rows+`INSERT INTO inputs SELECT k, CAST(printf('%1000c', 'a') AS BLOB), NULL FROM n`, group.first, group.n); err != nil {
				return err
			}
		}
		_, err := tx.Exec(upsertCounts, "ep", queued, queued, 0, finished, 0, 0)
		return err
	}))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		e := must.Do(Open(b.Context(), config))(b)
		must.Do(e.Take(b.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}))(b)
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/queued, "B/job")
		e.Close()
		b.StartTimer()
	}
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
		jobs := must.Do(e.Take(b.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}))(b)
		must.Do(e.Report(b.Context(), jobs[0].Ref, Done([]byte("1"))))(b)
		must.Do(e.Get(b.Context(), "ep", jobs[0].ID))(b)
	}
}

// BenchmarkJob measures a job's submission, take and result in memory.
func BenchmarkJob(b *testing.B) {
	e := newBenchEngine(b, "")
	for b.Loop() {
		must.Do(e.Submit(b.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(b)
		jobs := must.Do(e.Take(b.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}))(b)
		must.Do(e.Report(b.Context(), jobs[0].Ref, Done([]byte("{}"))))(b)
	}
}
