package main

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// plenty has no bound that matters; tests narrow one part.
func plenty() model {
	return model{
		rate: 1000, nodes: 8, nodeCores: 1000, nodeCost: time.Nanosecond, primaries: 8, databaseCores: 1000, databaseCost: time.Nanosecond,
		workers: 100_000, execution: time.Nanosecond,
	}
}

// With one worker as the only part that costs, it is the queue M/M/1: jobs take
// 1/(mu-lambda) on average, and the worker is busy for lambda/mu of the time. The latencies of neighbours depend on each
// other, so that the tolerance is that of runs with other seeds.
func TestOneQueue(t *testing.T) {
	m := plenty()
	m.workers, m.execution, m.rate = 1, time.Millisecond, 700
	const runs = 20
	var sum, squares, busy float64
	for seed := range uint64(runs) {
		o := m.simulate(20*time.Second, seed)
		sum += o.mean.Seconds()
		squares += o.mean.Seconds() * o.mean.Seconds()
		busy += o.workBusy / runs
	}
	mean := sum / runs
	deviation := math.Sqrt((squares/runs - mean*mean) / (runs - 1)) // of the mean
	if want := 1.0 / (1000 - 700); math.Abs(mean-want) > 5*deviation {
		t.Errorf("jobs take %.5f s on average, expected %.5f ± %.5f", mean, want, deviation)
	}
	if math.Abs(busy-0.7) > 0.01 { // 280,000 jobs: a hundredth is five deviations
		t.Errorf("the worker is busy for %.3f of the time, expected 0.7", busy)
	}
}

// At twice what a part can do, it alone is busy all the time, and completes what it can;
// twice as many of it complete twice as much.
func TestBounds(t *testing.T) {
	for name, narrow := range map[string]func(m *model, n int){
		"nodes":     func(m *model, n int) { m.nodes, m.nodeCores, m.nodeCost = n, 2, 4*time.Millisecond },
		"databases": func(m *model, n int) { m.primaries, m.databaseCores, m.databaseCost = n, 2, 4*time.Millisecond },
		"workers":   func(m *model, n int) { m.workers, m.execution = 2*n, 4*time.Millisecond },
	} {
		for _, n := range []int{1, 2} {
			m := plenty()
			narrow(&m, n)
			nodes, databases, workers := m.bound()
			bound := min(nodes, databases, workers)
			if bound != 500*float64(n) {
				t.Errorf("%s: the bound is %.0f", name, bound)
			}
			m.rate = 2 * bound
			o := m.simulate(40*time.Second, 1)
			// A submission and an end cost a half each: what is queued has cost the first.
			if name == "workers" && math.Abs(o.completed/bound-1) > 0.05 || o.completed > 1.05*bound {
				t.Errorf("%s: %d complete %.0f jobs per second, expected %.0f", name, n, o.completed, bound)
			}
			if busy := map[string]float64{"nodes": o.nodesBusy, "databases": o.databaseBusy, "workers": o.workBusy}[name]; busy < 0.98 {
				t.Errorf("%s: they are busy for %.2f of the time", name, busy)
			}
			m.rate = bound / 2
			if o := m.simulate(40*time.Second, 1); math.Abs(o.completed/m.rate-1) > 0.05 {
				t.Errorf("%s: at half of the bound %.0f of %.0f complete", name, o.completed, m.rate)
			}
		}
	}
}

// The same seed is the same run, and costs that nobody measured are refused.
func TestCommand(t *testing.T) {
	var first, second strings.Builder
	args := []string{"-rates=100,200", "-node-cost=1ms", "-database-cost=1ms", "-execution=10ms", "-time=2s"}
	for _, w := range []io.Writer{&first, &second} {
		if err := run(args, w); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() || strings.Count(first.String(), "\n") != 4 {
		t.Errorf("%s\n%s", &first, &second)
	}
	for want, args := range map[string][]string{
		"missing costs": {"-node-cost=1ms"}, "invalid rate": append(args, "-rates=many"), "invalid number": append(args, "-nodes=0"),
	} {
		if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", args, err, want)
		}
	}
}
