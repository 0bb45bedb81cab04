package engine

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Counts counts an endpoint's jobs. InQueue and InProgress are current numbers; the
// others are totals since the endpoint was created.
type Counts struct {
	InQueue    int
	InProgress int
	Completed  int
	Failed     int
	Retried    int // dispatched again because a worker died

	waiting int // queued jobs that start workers, so without low priority
}

// counts holds every endpoint's Counts in memory, so that reading them needs no query.
type counts struct {
	mu         sync.Mutex
	byEndpoint map[string]*Counts
}

// entry returns the counts of an endpoint, which it adds if they are missing.
func (c *counts) entry(endpoint string) *Counts {
	one := c.byEndpoint[endpoint]
	if one == nil {
		one = new(Counts)
		c.byEndpoint[endpoint] = one
	}
	return one
}

func (c *counts) apply(changes []change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range changes {
		one := c.entry(changes[i].endpoint)
		one.count(changes[i])
		changes[i].counts = one.nonNegative()
	}
}

// nonNegative returns c with negative numbers set to zero. Changes are counted after their
// commit and not always in order, so a job may leave the queue before it is counted in.
func (c Counts) nonNegative() Counts {
	c.InQueue, c.InProgress, c.waiting = max(c.InQueue, 0), max(c.InProgress, 0), max(c.waiting, 0)
	return c
}

func (c *Counts) count(ch change) {
	c.add(ch.from, ch.low, -1)
	c.add(ch.to, ch.low, +1)
	if ch.retry {
		c.Retried++
	}
}

func (c *Counts) sum(n Counts) {
	c.InQueue += n.InQueue
	c.waiting += n.waiting
	c.InProgress += n.InProgress
	c.Completed += n.Completed
	c.Failed += n.Failed
	c.Retried += n.Retried
}

// add adds n to the number of jobs in a state. The numbers of terminal states never
// decrease.
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

// loadCounts reads the counts of all endpoints when the engine starts.
func (e *Engine) loadCounts(ctx context.Context) error {
	clear(e.counts.byEndpoint)
	return e.db.Read(ctx, func(r *sqldb.Reader) error { return addTallies(r, e.counts.entry, selectTallies) })
}

// addTallies adds the rows of a query to the counts that entry returns.
func addTallies(r *sqldb.Reader, entry func(endpoint string) *Counts, query string, args ...any) error {
	return each(r, func(rows sqldb.Rows) error {
		var endpoint string
		var n Counts
		if err := rows.Scan(&endpoint, &n.InQueue, &n.waiting, &n.InProgress, &n.Completed, &n.Failed, &n.Retried); err != nil {
			return err
		}
		entry(endpoint).sum(n)
		return nil
	}, query, args...)
}

// Counts returns an endpoint's counts. If a shared database can't be reached, it returns
// the counts of this process's changes.
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

// CountsNow is Counts, but returns an error if the database can't be reached.
func (e *Engine) CountsNow(ctx context.Context, endpoint string) (Counts, error) {
	if !e.db.Shared() {
		return e.localCounts(endpoint), nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	return e.readCounts(ctx, endpoint)
}

const countTimeout = 5 * time.Second

// readCounts reads an endpoint's counts from the database.
func (e *Engine) readCounts(ctx context.Context, endpoint string) (c Counts, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		c = Counts{}
		return addTallies(r, func(string) *Counts { return &c }, selectTally, endpoint)
	})
	return c, err
}

// localCounts returns the counts in memory, which lack the changes of other processes.
func (e *Engine) localCounts(endpoint string) Counts {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	one := e.counts.byEndpoint[endpoint]
	if one == nil {
		return Counts{}
	}
	return one.nonNegative()
}

// forget removes an endpoint without queued or running jobs.
func (c *counts) forget(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.byEndpoint[endpoint]; one != nil && one.InQueue == 0 && one.InProgress == 0 {
		delete(c.byEndpoint, endpoint)
	}
}

// Endpoints returns the ids of all endpoints that have or had jobs.
func (e *Engine) Endpoints() []string {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return slices.Collect(maps.Keys(e.counts.byEndpoint))
}

// Load is an endpoint's demand for workers. It excludes queued jobs of low priority.
type Load struct {
	Waiting int
	Running int
	Oldest  time.Time // when the next job was queued; zero if no job waits
}

// Demand is Load without Oldest, which saves a read of an embedded database.
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

// Load returns an endpoint's demand for workers.
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
	case errors.Is(err, sql.ErrNoRows): // a worker has just taken the last job
		load.Waiting = 0
	case err != nil:
		return Load{}, err
	default:
		load.Oldest = fromMillis(queued)
	}
	return load, nil
}

// slots is the number of tally rows of an endpoint. Concurrent transactions rarely update
// the same row and then wait for each other.
const slots = 16

// transition runs fn in a transaction of write, which is a method of sqldb.DB or Engine. It
// updates the tallies in the same transaction and applies the changes after the commit.
func (e *Engine) transition(ctx context.Context, write func(context.Context, func(*sqldb.Tx) error) error, fn func(tx *sqldb.Tx) ([]change, error)) ([]change, error) {
	var changes []change
	err := write(ctx, func(tx *sqldb.Tx) (err error) {
		if changes, err = fn(tx); err == nil && len(changes) > 0 {
			tx.Note(tallyOf(changes))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.apply(changes...)
	return changes, nil
}

// beforeCommit writes the unwritten jobs and the tallies of the transactions that are
// committed together.
func (e *Engine) beforeCommit(tx *sqldb.Tx, notes []any) error {
	if err := e.writeOut(tx); err != nil {
		return err
	}
	return e.tally(tx, notes)
}

// tally is a note with the sums of a transaction's changes.
type tally []endpointTally

type endpointTally struct {
	endpoint string
	counts   Counts
}

func tallyOf(changes []change) (t tally) {
	for _, c := range changes {
		if len(t) == 0 || t[len(t)-1].endpoint != c.endpoint {
			t = append(t, endpointTally{endpoint: c.endpoint})
		}
		t[len(t)-1].counts.count(c)
	}
	return t
}

// droppedEndpoint is a note that an endpoint was deleted.
type droppedEndpoint string

// tally writes the notes of the transactions that are committed together.
func (e *Engine) tally(tx *sqldb.Tx, notes []any) error {
	sums := counts{byEndpoint: map[string]*Counts{}}
	for _, note := range notes {
		if dropped, ok := note.(droppedEndpoint); ok {
			delete(sums.byEndpoint, string(dropped))
			if err := tx.Later(deleteTallies, string(dropped)); err != nil {
				return err
			}
			if e.db.Shared() {
				if err := tx.Later(deleteLead, string(dropped)); err != nil {
					return err
				}
			}
			continue
		}
		for _, one := range note.(tally) {
			sums.entry(one.endpoint).sum(one.counts)
		}
	}
	slot := 0
	if e.db.Shared() {
		slot = rand.N(slots)
	}
	for _, endpoint := range slices.Sorted(maps.Keys(sums.byEndpoint)) { // one order of locking prevents deadlocks
		n := sums.byEndpoint[endpoint]
		if *n == (Counts{}) {
			continue
		}
		if err := tx.Later(addTally, endpoint, slot, n.InQueue, n.waiting, n.InProgress, n.Completed, n.Failed, n.Retried); err != nil {
			return err
		}
	}
	return nil
}

// Active returns the counts of all endpoints with queued or running jobs. It runs at most
// one statement.
func (e *Engine) Active(ctx context.Context) (map[string]Counts, error) {
	active := map[string]Counts{}
	add := func(endpoint string, c Counts) {
		if c.InQueue > 0 || c.InProgress > 0 {
			active[endpoint] = c
		}
	}
	if !e.db.Shared() {
		for _, endpoint := range e.Endpoints() {
			add(endpoint, e.localCounts(endpoint))
		}
		return active, nil
	}
	all := counts{byEndpoint: map[string]*Counts{}}
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		clear(all.byEndpoint)
		return addTallies(r, all.entry, selectTallies)
	})
	for endpoint, c := range all.byEndpoint {
		add(endpoint, *c)
	}
	return active, err
}
