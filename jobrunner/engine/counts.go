package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Event is a transition of a job. A new job has no From, a deleted job no To.
type Event struct {
	Endpoint string
	Job      string // id
	From, To State
	// Retry reports that the job was requeued because its worker died.
	Retry bool
	// Delay is the time in the queue of a job that has started.
	Delay time.Duration
	// Execution is the running time of a job that ended; 0 if it never ran.
	Execution time.Duration
	// Counts are the endpoint's counts after the event.
	Counts Counts
}

// Counts counts the jobs of a queue. InQueue and InProgress are current numbers, the rest are totals since the
// endpoint was created.
type Counts struct {
	InQueue    int
	InProgress int
	Completed  int
	Failed     int
	Retried    int // dispatched again because a worker died

	waiting int // queued jobs that start workers, so without low priority
}

// add adds n to the number of jobs in a state. The numbers of terminal states never decrease.
func (c *Counts) add(s State, lowPriority bool, n int) {
	switch s {
	case InQueue:
		c.InQueue += n
		if !lowPriority {
			c.waiting += n
		}
	case InProgress:
		c.InProgress += n
	case Completed:
		c.Completed += max(n, 0)
	case Failed:
		c.Failed += max(n, 0)
	}
}

// Counts returns the counts of a queue, which has the name of an endpoint or its BatchQueue. If they can't be read, it
// returns zeros.
func (e *Engine) Counts(queue string) Counts {
	c, err := e.CountsNow(context.Background(), queue)
	if err != nil && !sqldb.Temporary(err) {
		e.Logger.Error("counting the jobs of an endpoint", "endpoint", queue, "error", err)
	}
	return c
}

// CountsNow is Counts, but returns an error if the counts can't be read.
func (e *Engine) CountsNow(ctx context.Context, queue string) (Counts, error) {
	if q := e.loadedQueue(queue); q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.counts, nil
	}
	if !e.DB.Shared() {
		return Counts{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return e.store.counts(ctx, queue)
}

// StoredQueues returns the names of the queues that have or had jobs. It returns none if all jobs are in memory.
func (e *Engine) StoredQueues(ctx context.Context) (names []string, err error) {
	if e.store == nil {
		return nil, nil
	}
	counts, err := e.store.allCounts(ctx, selectAllCounts)
	return slices.Collect(maps.Keys(counts)), err
}

// Active returns the counts of all queues with queued or running jobs. It runs at most one statement.
func (e *Engine) Active(ctx context.Context) (all map[string]Counts, err error) {
	all = map[string]Counts{}
	if e.DB.Shared() {
		if all, err = e.store.allCounts(ctx, selectAllCounts); err != nil {
			return nil, err
		}
	}
	for _, q := range e.loadedQueues() {
		all[q.name] = e.Counts(q.name)
	}
	maps.DeleteFunc(all, func(_ string, c Counts) bool { return c.InQueue == 0 && c.InProgress == 0 })
	return all, nil
}

// Load is an endpoint's demand for workers. It excludes queued jobs of low priority.
type Load struct {
	Waiting int
	Running int
	Oldest  time.Time // when the next job, usually the oldest, was queued; zero if no job waits
}

// Load returns an endpoint's demand for workers. Only the process that leads the endpoint knows Oldest.
func (e *Engine) Load(ctx context.Context, endpoint string) (Load, error) {
	q := e.loadedQueue(endpoint)
	if q == nil {
		c, err := e.CountsNow(ctx, endpoint)
		return Load{Waiting: c.waiting, Running: c.InProgress}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	load := Load{Waiting: q.counts.waiting, Running: q.counts.InProgress}
	next := q.ready.first()
	if next != nil && next.lowPriority {
		for _, other := range q.ready.jobs {
			if !other.lowPriority && (next.lowPriority || other.turn < next.turn) {
				next = other
			}
		}
	}
	if next != nil && !next.lowPriority {
		load.Oldest = time.UnixMilli(next.queuedAt)
	}
	return load, nil
}
