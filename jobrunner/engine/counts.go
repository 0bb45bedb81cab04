package engine

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Counts are an endpoint's jobs. InQueue and InProgress are those of the
// moment; the others count through the whole life of the endpoint.
type Counts struct {
	InQueue    int
	InProgress int
	Completed  int
	Failed     int
	Retried    int // dispatched again because a worker died

	waiting int // in the queue, without those that start no worker
}

// counts keeps every endpoint's Counts, so that reading them costs the same
// however many jobs there are.
type counts struct {
	mu  sync.Mutex
	all map[string]*Counts
}

func (c *counts) of(endpoint string) *Counts {
	one := c.all[endpoint]
	if one == nil {
		one = new(Counts)
		c.all[endpoint] = one
	}
	return one
}

func (c *counts) apply(changes []change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range changes {
		one := c.of(changes[i].endpoint)
		one.count(changes[i])
		changes[i].counts = one.settled()
	}
}

// settled is c without numbers below zero. Changes are counted after they were
// committed, and not always in their order: a job may be counted out of the queue before it was counted in.
func (c Counts) settled() Counts {
	c.InQueue, c.InProgress, c.waiting = max(c.InQueue, 0), max(c.InProgress, 0), max(c.waiting, 0)
	return c
}

// count counts a change.
func (c *Counts) count(ch change) {
	c.add(ch.from, ch.low, -1)
	c.add(ch.to, ch.low, +1)
	if ch.retry {
		c.Retried++
	}
}

// sum adds others.
func (c *Counts) sum(n Counts) {
	c.InQueue += n.InQueue
	c.waiting += n.waiting
	c.InProgress += n.InProgress
	c.Completed += n.Completed
	c.Failed += n.Failed
	c.Retried += n.Retried
}

// add counts n jobs in or out of a state. Finished jobs are never counted out.
func (c *Counts) add(s State, low bool, n int) {
	switch s {
	case InQueue:
		c.InQueue += n
		if !low {
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

// loadCounts reads what the database has of all endpoints, once.
func (e *Engine) loadCounts(ctx context.Context) error {
	all := &counts{all: map[string]*Counts{}}
	err := e.db.Read(ctx, func(r *sqldb.Reader) error { return addTallies(r, all.of, selectTallies) })
	e.counts.all = all.all
	return err
}

// addTallies adds tallies to the counts of their endpoints.
func addTallies(r *sqldb.Reader, of func(endpoint string) *Counts, query string, args ...any) error {
	return each(r, query, func(scan func(...any) error) error {
		var endpoint string
		var n Counts
		if err := scan(&endpoint, &n.InQueue, &n.waiting, &n.InProgress, &n.Completed, &n.Failed, &n.Retried); err != nil {
			return err
		}
		of(endpoint).sum(n)
		return nil
	}, args...)
}

func each(r *sqldb.Reader, query string, row func(scan func(...any) error) error, args ...any) (err error) {
	rows, err := r.Query(query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Counts counts an endpoint's jobs. On a database that others share it asks the
// database, and returns what this process last knew where that fails.
func (e *Engine) Counts(endpoint string) Counts {
	c, err := e.CountsNow(context.Background(), endpoint)
	if err != nil {
		if !sqldb.Temporary(err) {
			e.log.Error("counting the jobs of an endpoint", "endpoint", endpoint, "error", err)
		}
		return e.localCounts(endpoint)
	}
	return c
}

// CountsNow is Counts that answers an error where the database can't be asked.
func (e *Engine) CountsNow(ctx context.Context, endpoint string) (Counts, error) {
	if !e.db.Shared() {
		return e.localCounts(endpoint), nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	return e.readCounts(ctx, endpoint)
}

const countTimeout = 5 * time.Second

// readCounts reads what the database has of one endpoint.
func (e *Engine) readCounts(ctx context.Context, endpoint string) (c Counts, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		c = Counts{}
		return addTallies(r, func(string) *Counts { return &c }, selectTally, endpoint)
	})
	return c, err
}

// localCounts is what the changes that this process made come to.
func (e *Engine) localCounts(endpoint string) Counts {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	one := e.counts.all[endpoint]
	if one == nil {
		return Counts{}
	}
	return one.settled()
}

// forget drops an endpoint without jobs.
func (c *counts) forget(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.all[endpoint]; one != nil && one.InQueue == 0 && one.InProgress == 0 {
		delete(c.all, endpoint)
	}
}

// Endpoints are the ids of all endpoints that have or had jobs.
func (e *Engine) Endpoints() []string {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	ids := make([]string, 0, len(e.counts.all))
	for id := range e.counts.all {
		ids = append(ids, id)
	}
	return ids
}

// Load is what an endpoint's jobs ask of its workers. Jobs of low priority that
// wait ask for nothing.
type Load struct {
	Waiting int
	Running int
	Oldest  time.Time // when the job that is next was queued; zero where none waits
}

// Demand is Load without Oldest, which costs no read of an embedded database.
func (e *Engine) Demand(ctx context.Context, endpoint string) (Load, error) {
	c := e.localCounts(endpoint)
	if e.db.Shared() {
		var err error
		if c, err = e.readCounts(ctx, endpoint); err != nil {
			return Load{}, err
		}
	}
	return Load{Waiting: c.waiting, Running: c.InProgress}, nil
}

// Load tells what an endpoint's jobs ask of its workers.
func (e *Engine) Load(ctx context.Context, endpoint string) (Load, error) {
	load, err := e.Demand(ctx, endpoint)
	if load.Waiting == 0 || err != nil {
		return load, err
	}
	var queued int64
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(oldestQueued, endpoint, e.now()).Scan(&queued)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows): // taken meanwhile
		load.Waiting = 0
	case err != nil:
		return Load{}, err
	default:
		load.Oldest = fromMillis(queued)
	}
	return load, nil
}
