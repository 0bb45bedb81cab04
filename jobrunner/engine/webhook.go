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

// The calls of webhooks, which are ordered in the transaction that ends a job.
// A job that has one to make keeps its row until that is done, although nobody
// sees it any more when its time is over.
const (
	insertWebhook = `INSERT INTO webhooks (k, owner, endpoint, url, host, attempt, next_at) VALUES (?, ?, ?, ?, ?, 0, ?)`
	// A job that is not over any more has no end to tell of. Arguments: k.
	deleteWebhook = `DELETE FROM webhooks WHERE k = ?`

	// Calls at hosts with room. Arguments: owners and hosts.
	hostNotBusy = `(owner, host) NOT IN ({busy})`
	// The queues of calls, one for each owner and endpoint, and when the next call
	// of each is due. It jumps from queue to queue in the index, however long they
	// are. Arguments: those of hostNotBusy.
	callQueues = `WITH RECURSIVE queues (k) AS (
			SELECT (SELECT k FROM webhooks ORDER BY owner, endpoint LIMIT 1)
			UNION ALL
			SELECT COALESCE((SELECT k FROM webhooks WHERE owner = previous.owner AND endpoint > previous.endpoint ORDER BY endpoint LIMIT 1),
					(SELECT k FROM webhooks WHERE owner > previous.owner ORDER BY owner, endpoint LIMIT 1))
				FROM queues JOIN webhooks AS previous ON previous.k = queues.k)
		SELECT queue.owner, queue.endpoint,
				(SELECT next_at FROM webhooks WHERE owner = queue.owner AND endpoint = queue.endpoint AND ` + hostNotBusy + ` ORDER BY next_at LIMIT 1)
			FROM queues JOIN webhooks AS queue ON queue.k = queues.k`
	// Who makes a call keeps it to himself for a time, after which he counts as
	// dead. Arguments: end of that time, owner, endpoint, now, those of hostNotBusy.
	claimWebhook = `UPDATE webhooks SET next_at = ? WHERE k {in unlocked (}SELECT k FROM webhooks
		WHERE owner = ? AND endpoint = ? AND next_at <= ? AND ` + hostNotBusy + ` ORDER BY next_at LIMIT 1{)} RETURNING k, url, host, attempt`
	// What the call is about. Arguments: k.
	selectCall = `SELECT endpoint, id, state, queued, started, finished, worker, retries, output, COALESCE(error, ''), input
		FROM jobs JOIN inputs ON inputs.k = jobs.k LEFT JOIN outputs ON outputs.k = jobs.k WHERE jobs.k = ?`

	// The outcome, while nobody else has taken the call over. Arguments: k, end
	// of the claim; when there is another call, its time comes first.
	deleteCall     = `DELETE FROM webhooks WHERE k = ? AND next_at = ?`
	rescheduleCall = `UPDATE webhooks SET attempt = attempt + 1, next_at = ? WHERE k = ? AND next_at = ?`
)

// Call is one of a job's webhook, to be made now.
type Call struct {
	Owner   string
	URL     string
	Host    string
	Attempt int // calls made before
	Job     Job
	Input   []byte

	k, until int64
}

// Calls receives when a call was ordered. It holds one hint however many there
// were.
func (e *Engine) Calls() <-chan struct{} { return e.calls }

// CallQueue is the calls still to be made for one owner and endpoint.
type CallQueue struct {
	Owner, Endpoint string
	Next            time.Time // when the next call is due
}

// BusyHost is a host at which an owner has as many calls under way as it may
// have.
type BusyHost struct{ Owner, Host string }

// CallQueues are the queues with calls at hosts that are not busy.
func (e *Engine) CallQueues(ctx context.Context, busy []BusyHost) (queues []CallQueue, err error) {
	if err := e.deliver(ctx); sqldb.Classify(err) == sqldb.Outage {
		return nil, err
	}
	statement, args := withBusyHosts(callQueues, busy)
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		all, err := collect(r, func(rows sqldb.Rows) (q CallQueue, err error) {
			var next sql.NullInt64
			err = rows.Scan(&q.Owner, &q.Endpoint, &next)
			if next.Valid {
				q.Next = fromMillis(next.Int64)
			}
			return q, err
		}, statement, args...)
		queues = slices.DeleteFunc(all, func(q CallQueue) bool { return q.Next.IsZero() })
		return err
	})
	return queues, err
}

// ClaimCall hands out the call of a queue that is due for longest, at none of
// the busy hosts. Nobody else gets it within the claim; then it is due again. The
// answer is nil where no call is due, another process was quicker, or the job is
// no longer one to tell of.
func (e *Engine) ClaimCall(ctx context.Context, q CallQueue, busy []BusyHost, claim time.Duration) (*Call, error) {
	statement, others := withBusyHosts(claimWebhook, busy)
	call := Call{Owner: q.Owner}
	err := e.write(ctx, func(tx *sqldb.Tx) error {
		now := e.now()
		call.until = now + claim.Milliseconds()
		return tx.QueryRow(statement, slices.Concat([]any{call.until, q.Owner, q.Endpoint, now}, others)...).Scan(&call.k, &call.URL, &call.Host, &call.Attempt)
	})
	if err == nil {
		err = e.describe(ctx, &call)
	}
	switch {
	case err == nil:
		return &call, nil
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	}
	return nil, err
}

func (e *Engine) describe(ctx context.Context, c *Call) error {
	j := &c.Job
	var queued, started, finished int64
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(selectCall, c.k).Scan(&j.Endpoint, &j.ID, &j.State, &queued, &started, &finished, &j.Worker, &j.Retries, &j.Output, &j.Error, &c.Input)
	})
	j.times(queued, started, finished)
	if err == nil && !j.State.Terminal() { // a client has just retried it, which withdrew the call
		err = sql.ErrNoRows
	}
	return err
}

// Called notes that a call was made: it was the last, or there is another one
// at a time. Where the database is not available the outcome is kept.
func (e *Engine) Called(ctx context.Context, c *Call, again time.Time) error {
	next := int64(0)
	if !again.IsZero() {
		next = millis(again)
	}
	err := e.recordCall(ctx, c.k, c.until, next)
	if sqldb.Temporary(err) {
		_, err = e.spool.keep(record{Kind: callOutcome, At: e.now()}, content{K: c.k, Until: c.until, Again: next})
	}
	return err
}

// recordCall notes the outcome of a call, which is due again at a time or, with 0,
// was the last.
func (e *Engine) recordCall(ctx context.Context, k, until, again int64) error {
	statement, args := deleteCall, []any{k, until}
	if again > 0 {
		statement, args = rescheduleCall, []any{again, k, until}
	}
	err := e.writeWithReserve(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	})
	if err != nil {
		return err
	}
	if again == 0 {
		notify.Signal(e.poke) // its time may have been over for long
	} else {
		notify.Signal(e.calls)
	}
	return nil
}

// withBusyHosts leaves the busy hosts out of a statement.
func withBusyHosts(statement string, busy []BusyHost) (string, []any) {
	args := []any{"", ""} // no call has an empty host
	for _, b := range busy {
		args = append(args, b.Owner, b.Host)
	}
	return strings.Replace(statement, "{busy}", "VALUES (?, ?)"+strings.Repeat(", (?, ?)", len(busy)), 1), args
}

// insertCall orders the call that tells of a job's end.
func insertCall(tx *sqldb.Tx, c change, now int64) error {
	host := hostOf(c.webhook)
	if host == "" { // nobody could call that
		return nil
	}
	_, err := tx.Exec(insertWebhook, c.k, c.owner, c.endpoint, c.webhook, host, now)
	return err
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
