package engine

import (
	"context"
	"errors"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// change is a transition of one job, for counts, watchers and observers.
type change struct {
	k          int64 // primary key of the row
	endpoint   string
	id         string
	low        bool
	from, to   State
	due        int64 // when the job next expires or times out
	webhook    string
	owner      string // of the webhook
	retries    int
	retry      bool // the job was requeued because its worker died
	dispatched bool // a queued job was handed to a worker in the same transaction

	queued  int64         // when the job was last queued
	started int64         // start of the run that ended; 0: it never ran
	job     *Job          // the ended job, if the change contains its result
	delay   time.Duration // time in the queue, of a started job
	counts  Counts        // the endpoint's counts after the change, without changes by other processes
}

// apply publishes committed changes to the counts, watchers, the sweeper, observers and
// other processes.
func (e *Engine) apply(changes ...change) {
	e.notifyOthers(changes)
	e.counts.apply(changes)
	var due int64
	for _, c := range changes {
		if c.from == InProgress && c.to != InProgress {
			e.handedOut.remove(jobKey{c.endpoint, c.id})
		}
		e.hub.changed(c)
		if c.due > 0 && (due == 0 || c.due < due) {
			due = c.due
		}
		if c.webhook != "" && c.to.Terminal() {
			notify.Signal(e.calls)
		}
	}
	e.wake(due)
	e.observe(changes)
}

// update runs a statement that ends in returningChange and sets the state to. It returns the
// changes.
func update(tx *sqldb.Tx, to State, statement string, args ...any) ([]change, error) {
	return collect(tx, func(rows sqldb.Rows) (c change, err error) {
		var low int
		err = rows.Scan(&c.k, &c.endpoint, &c.id, &low, &c.queued, &c.started, &c.due, &c.webhook, &c.owner, &c.retries)
		c.low, c.from, c.to = low == 1, InProgress, to
		if to == Cancelled && c.started == 0 {
			c.from = InQueue
		}
		return c, err
	}, statement, args...)
}

// remove runs a statement that deletes jobs, and returns the changes.
func remove(tx *sqldb.Tx, statement string, args ...any) ([]change, error) {
	return collect(tx, func(rows sqldb.Rows) (c change, err error) {
		var low int
		err = rows.Scan(&c.endpoint, &c.id, &low, &c.from)
		c.low = low == 1
		return c, err
	}, statement, args...)
}

// each calls row for each row of a statement.
func each(q sqldb.Querier, row func(sqldb.Rows) error, statement string, args ...any) (err error) {
	rows, err := q.Query(statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// collect returns the rows of a statement.
func collect[T any](q sqldb.Querier, scan func(sqldb.Rows) (T, error), statement string, args ...any) (all []T, err error) {
	err = each(q, func(rows sqldb.Rows) error {
		one, err := scan(rows)
		all = append(all, one)
		return err
	}, statement, args...)
	return all, err
}

// execAlone runs a statement in its own transaction, and returns the number of rows that it changed.
func execAlone(ctx context.Context, write func(context.Context, func(*sqldb.Tx) error) error, statement string, args ...any) (rows int64, err error) {
	err = write(ctx, func(tx *sqldb.Tx) (err error) {
		rows, err = tx.Exec(statement, args...)
		return err
	})
	return rows, err
}

// readAll runs a query in its own read transaction, and returns the rows.
func readAll[T any](ctx context.Context, db *sqldb.DB, scan func(sqldb.Rows) (T, error), query string, args ...any) (all []T, err error) {
	err = db.Read(ctx, func(r *sqldb.Reader) (err error) {
		all, err = collect(r, scan, query, args...)
		return err
	})
	return all, err
}

// Event is a committed transition of a job. A new job has no From, a deleted job no To.
type Event struct {
	Endpoint string
	Job      string // id
	From, To State
	// Retry reports that the job was requeued because its worker died.
	Retry bool
	// Delay is the time in the queue of a job that is now IN_PROGRESS.
	Delay time.Duration
	// Execution is the running time of a job that ended; 0 if it never ran.
	Execution time.Duration
	// Counts are the endpoint's counts after the event, without changes by other processes.
	Counts Counts
}

// observe calls the observer for each transition.
func (e *Engine) observe(changes []change) {
	if e.observer == nil {
		return
	}
	now := e.now()
	for _, c := range changes {
		if c.from == c.to { // a chunk
			continue
		}
		event := Event{Endpoint: c.endpoint, Job: c.id, From: c.from, To: c.to, Retry: c.retry, Delay: c.delay, Counts: c.counts}
		if c.to.Terminal() && c.started > 0 {
			event.Execution = max(0, duration(now-c.started))
		}
		e.observer(event)
	}
}
