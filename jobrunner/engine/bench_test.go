//go:build unix

package engine

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// BenchmarkJobs measures the processor time of a job with 64 clients, which wait for the
// result or not, and eight workers.
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
			taker := e.NewTaker()
			defer taker.Close()
			next := Take{Endpoint: "ep", Worker: "w", Max: 1}
			jobs, err := taker.Take(ctx, next)
			for err == nil {
				if len(jobs) == 0 {
					jobs, err = taker.Take(ctx, next)
					continue
				}
				jobs = taker.Report(ctx, jobs[0].Ref, Done([]byte(`{"a": 1}`)), next, func(Directive, error) {})
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
				for job, _ := watch.End(); wait && job == nil; job, _ = watch.End() {
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
