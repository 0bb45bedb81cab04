package engine

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Webhook calls. The transaction that ends a job adds its call. The job's row stays until
// the call has been made, even if the job has expired.
const (
	insertWebhook = `INSERT INTO webhooks (k, owner, endpoint, url, host, attempt, next_at) VALUES (?, ?, ?, ?, ?, 0, ?)`
	// deleteWebhook withdraws the call of a job that is retried.
	deleteWebhook = `DELETE FROM webhooks WHERE k = ?`

	// The calls to hosts that aren't busy.
	// Arguments: the owner and host of each busy host; see withBusyHosts.
	hostNotBusy = `(owner, host) NOT IN ({busy})`
	// callQueues returns the queues of calls, one for each owner and endpoint, with the time
	// of the first call. It skips from queue to queue in the index without reading every
	// call.
	// Arguments: the arguments of hostNotBusy.
	callQueues = `WITH RECURSIVE queues (k) AS (
			SELECT (SELECT k FROM webhooks ORDER BY owner, endpoint LIMIT 1)
			UNION ALL
			SELECT COALESCE((SELECT k FROM webhooks WHERE owner = previous.owner AND endpoint > previous.endpoint ORDER BY endpoint LIMIT 1),
					(SELECT k FROM webhooks WHERE owner > previous.owner ORDER BY owner, endpoint LIMIT 1))
				FROM queues JOIN webhooks AS previous ON previous.k = queues.k)
		SELECT queue.owner, queue.endpoint,
				(SELECT next_at FROM webhooks WHERE owner = queue.owner AND endpoint = queue.endpoint AND ` + hostNotBusy + ` ORDER BY next_at LIMIT 1)
			FROM queues JOIN webhooks AS queue ON queue.k = queues.k`
	// claimWebhook reserves the first due call of a queue for the caller. At the end of the
	// claim the call is due again, as the caller counts as dead.
	// Arguments: the end of the claim, the owner, the endpoint, the current time, and the
	// arguments of hostNotBusy.
	claimWebhook = `UPDATE webhooks SET next_at = ? WHERE k {in unlocked (}SELECT k FROM webhooks
		WHERE owner = ? AND endpoint = ? AND next_at <= ? AND ` + hostNotBusy + ` ORDER BY next_at LIMIT 1{)} RETURNING k, url, host, attempt`
	// selectCall reads the job of a call.
	selectCall = `SELECT endpoint, id, state, queued, started, finished, worker, retries, output, COALESCE(error, ''), input
		FROM jobs JOIN inputs ON inputs.k = jobs.k LEFT JOIN outputs ON outputs.k = jobs.k WHERE jobs.k = ?`

	// deleteCall and rescheduleCall record the outcome of a call, unless another process has
	// claimed it.
	// Arguments: the time of the next call, if it is rescheduled, the job's key, and the end
	// of the claim.
	deleteCall     = `DELETE FROM webhooks WHERE k = ? AND next_at = ?`
	rescheduleCall = `UPDATE webhooks SET attempt = attempt + 1, next_at = ? WHERE k = ? AND next_at = ?`
)

// Call is a due webhook call.
type Call struct {
	Owner   string
	URL     string
	Host    string
	Attempt int // calls made before
	Job     Job
	Input   []byte

	k, until int64
}

// Calls returns a channel that receives a value when a call may be due. It buffers one
// value, however many calls there are.
func (e *Engine) Calls() <-chan struct{} { return e.calls }

// CallQueue is the queue of an owner's calls for one endpoint.
type CallQueue struct {
	Owner, Endpoint string
	Next            time.Time // when the next call is due
}

// BusyHost is a host to which an owner's calls in flight have reached their limit.
type BusyHost struct{ Owner, Host string }

// CallQueues returns the queues that have calls to hosts that aren't busy.
func (e *Engine) CallQueues(ctx context.Context, busy []BusyHost) (queues []CallQueue, err error) {
	if err := e.deliver(ctx); sqldb.Classify(err) == sqldb.Outage {
		return nil, err
	}
	statement, args := withBusyHosts(callQueues, busy)
	queues, err = readAll(ctx, e.db, func(rows sqldb.Rows) (q CallQueue, err error) {
		var next sql.NullInt64
		err = rows.Scan(&q.Owner, &q.Endpoint, &next)
		if next.Valid {
			q.Next = fromMillis(next.Int64)
		}
		return q, err
	}, statement, args...)
	return slices.DeleteFunc(queues, func(q CallQueue) bool { return q.Next.IsZero() }), err
}

// ClaimCall claims and returns the first due call of a queue to a host that isn't busy.
// After the claim the call is due again. ClaimCall returns nil if no call is due, another
// process has claimed it, or a client has retried the job.
func (e *Engine) ClaimCall(ctx context.Context, q CallQueue, busy []BusyHost, claim time.Duration) (*Call, error) {
	statement, others := withBusyHosts(claimWebhook, busy)
	call := Call{Owner: q.Owner}
	err := e.write(ctx, func(tx *sqldb.Tx) error {
		now := e.now()
		call.until = now + claim.Milliseconds()
		return tx.QueryRow(statement, slices.Concat([]any{call.until, q.Owner, q.Endpoint, now}, others)...).Scan(&call.k, &call.URL, &call.Host, &call.Attempt)
	})
	if err == nil {
		err = e.readCall(ctx, &call)
	}
	switch {
	case err == nil:
		return &call, nil
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	}
	return nil, err
}

// readCall reads the job of a call.
func (e *Engine) readCall(ctx context.Context, c *Call) error {
	j := &c.Job
	var queued, started, finished int64
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(selectCall, c.k).Scan(&j.Endpoint, &j.ID, &j.State, &queued, &started, &finished, &j.Worker, &j.Retries, &j.Output, &j.Error, &c.Input)
	})
	j.setTimes(queued, started, finished)
	if err == nil && !j.State.Terminal() { // a client has just retried the job, which withdrew the call
		err = sql.ErrNoRows
	}
	return err
}

// Called records that a call was made. If again is not zero, the call is repeated then. If
// the database is unavailable, the outcome is spooled.
func (e *Engine) Called(ctx context.Context, c *Call, again time.Time) error {
	next := int64(0)
	if !again.IsZero() {
		next = millis(again)
	}
	err := e.recordCall(ctx, c.k, c.until, next)
	if sqldb.Temporary(err) {
		_, err = e.spool.add(record{Kind: callOutcome, At: e.now()}, content{K: c.k, Until: c.until, Again: next})
	}
	return err
}

// recordCall records the outcome of a call that was claimed until a time. The call is due
// again at the time again, or never if that is 0.
func (e *Engine) recordCall(ctx context.Context, k, until, again int64) error {
	statement, args := deleteCall, []any{k, until}
	if again > 0 {
		statement, args = rescheduleCall, []any{again, k, until}
	}
	if _, err := execAlone(ctx, e.writeWithReserve, statement, args...); err != nil {
		return err
	}
	if again == 0 {
		notify.Signal(e.sweepNow) // the job may have expired, and can be deleted now
	} else {
		notify.Signal(e.calls)
	}
	return nil
}

// withBusyHosts fills in hostNotBusy in a statement, and returns its arguments.
func withBusyHosts(statement string, busy []BusyHost) (string, []any) {
	args := []any{"", ""} // no call has an empty host
	for _, b := range busy {
		args = append(args, b.Owner, b.Host)
	}
	return strings.Replace(statement, "{busy}", "VALUES (?, ?)"+strings.Repeat(", (?, ?)", len(busy)), 1), args
}

// insertCall adds the webhook call of an ended job.
func insertCall(tx *sqldb.Tx, c change, now int64) error {
	u, err := url.Parse(c.webhook)
	if err != nil || u.Host == "" {
		return nil //nolint:nilerr // the URL can't be called
	}
	_, err = tx.Exec(insertWebhook, c.k, c.owner, c.endpoint, c.webhook, u.Host, now)
	return err
}
