package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// model is a deployment, with the costs that were measured.
type model struct {
	rate float64 // jobs per second, that arrive at random

	nodes, nodeCores int
	nodeCost         time.Duration // processor time of a node for each job

	primaries, databaseCores int           // endpoints are spread over the primaries
	databaseCost             time.Duration // processor time of a database for each job
	commit                   time.Duration // what a commit waits for without processor time; there are two a job

	workers   int
	execution time.Duration // of a job, on average
}

// outcome is what the second half of the time shows.
type outcome struct {
	completed                         float64       // jobs per second
	p50, p99, mean                    time.Duration // of the jobs that arrived in it, from submission to result
	nodesBusy, databaseBusy, workBusy float64       // shares
}

// bound is how many jobs a second each part can do at most.
func (m model) bound() (nodes, databases, workers float64) {
	return float64(m.nodes*m.nodeCores) / m.nodeCost.Seconds(), float64(m.primaries*m.databaseCores) / m.databaseCost.Seconds(), float64(m.workers) / m.execution.Seconds()
}

// station serves in the order of arrival, with several servers.
type station struct {
	free floats // when each server is free
	busy float64
}

func newStation(servers int) *station { return &station{free: make(floats, servers)} }

// serve returns when the service of who arrives now ends. Who arrives is told in order.
func (s *station) serve(now, cost, until float64) float64 {
	begin := max(now, s.free[0])
	end := begin + cost
	s.busy += max(0, min(end, until)-min(begin, until))
	s.free[0] = end
	heap.Fix(&s.free, 0)
	return end
}

// The steps of a job. At the node and the database it costs half at its submission, and
// half when it is done.
const (
	submitted = iota
	stored
	taken
	reported
	completed
	committed
)

type event struct {
	at              float64
	step            int
	arrived         float64
	node, partition int
}

// simulate runs the model for a time, from nothing.
func (m model) simulate(duration time.Duration, seed uint64) outcome {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a simulation repeats
	until, half := duration.Seconds(), duration.Seconds()/2
	nodes, databases := make([]*station, m.nodes), make([]*station, m.primaries)
	for i := range nodes {
		nodes[i] = newStation(m.nodeCores)
	}
	for i := range databases {
		databases[i] = newStation(m.databaseCores)
	}
	work := newStation(m.workers)
	cost := func(mean time.Duration) float64 { return random.ExpFloat64() * mean.Seconds() }
	next := func(at float64) event {
		at += random.ExpFloat64() / m.rate
		return event{at: at, arrived: at, node: random.IntN(m.nodes), partition: random.IntN(m.primaries)}
	}
	queue := events{next(0)}
	var latencies []time.Duration
	done, total := 0, 0.0
	for queue.Len() > 0 { // jobs that have arrived are followed to their end
		e := queue[0]
		heap.Pop(&queue)
		switch e.step {
		case submitted:
			if n := next(e.at); n.at < until {
				heap.Push(&queue, n)
			}
			e.at = nodes[e.node].serve(e.at, cost(m.nodeCost/2), until)
		case stored, completed:
			e.at = databases[e.partition].serve(e.at, cost(m.databaseCost/2), until) + m.commit.Seconds()
		case taken:
			e.at = work.serve(e.at, cost(m.execution), until)
		case reported:
			e.at = nodes[e.node].serve(e.at, cost(m.nodeCost/2), until)
		case committed:
			if half <= e.at && e.at < until {
				done++
			}
			if e.arrived >= half {
				latency := e.at - e.arrived
				latencies = append(latencies, time.Duration(latency*float64(time.Second)))
				total += latency
			}
			continue
		}
		e.step++
		heap.Push(&queue, e)
	}
	slices.Sort(latencies)
	o := outcome{completed: float64(done) / half, workBusy: work.busy / until / float64(m.workers)}
	for _, s := range nodes {
		o.nodesBusy += s.busy / until / float64(m.nodes*m.nodeCores)
	}
	for _, s := range databases {
		o.databaseBusy += s.busy / until / float64(m.primaries*m.databaseCores)
	}
	if n := len(latencies); n > 0 {
		o.p50, o.p99, o.mean = latencies[n/2], latencies[n*99/100], time.Duration(total/float64(n)*float64(time.Second))
	}
	return o
}

type floats []float64

func (f floats) Len() int           { return len(f) }
func (f floats) Less(i, j int) bool { return f[i] < f[j] }
func (f floats) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *floats) Push(any)          {} // the number of servers is fixed
func (f *floats) Pop() any          { return nil }

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(v any)        { *e = append(*e, v.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
