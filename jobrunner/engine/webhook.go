package engine

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// The calls of webhooks, which are ordered in the transaction that ends a job.
// A job that has one to make keeps its row until that is done, although nobody
// sees it any more when its time is over.
const (
	addWebhook = `INSERT INTO webhooks (k, url, host, attempt, next_at) VALUES (?, ?, ?, 0, ?)`
	// A job that is not over any more has no end to tell of. Arguments: k.
	noWebhook = `DELETE FROM webhooks WHERE k = ?`

	// The calls that are not held back by others. Arguments: hosts, endpoints.
	notBusy = `host NOT IN ({hosts}) AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.k = webhooks.k AND jobs.endpoint IN ({endpoints}))`
	// The call that is due, or will be. Arguments: those of notBusy.
	nextCall = `SELECT MIN(next_at) FROM (SELECT next_at FROM webhooks WHERE ` + notBusy + ` ORDER BY next_at LIMIT 1) AS earliest`
	// Who makes a call keeps it to himself for a time, after which he counts as
	// dead. Arguments: end of that time, now, those of notBusy.
	claimed = `UPDATE webhooks SET next_at = ? WHERE k {in unlocked (}SELECT k FROM webhooks
		WHERE next_at <= ? AND ` + notBusy + ` ORDER BY next_at LIMIT 1{)} RETURNING k, url, host, attempt`
	// What the call is about. Arguments: k.
	called = `SELECT endpoint, id, state, queued, started, finished, worker, retries, output, COALESCE(error, ''), input
		FROM jobs JOIN inputs ON inputs.k = jobs.k LEFT JOIN outputs ON outputs.k = jobs.k WHERE jobs.k = ?`

	// The outcome, while nobody else has taken the call over. Arguments: k, end
	// of the claim; when there is another call, its time comes first.
	callOver  = `DELETE FROM webhooks WHERE k = ? AND next_at = ?`
	callAgain = `UPDATE webhooks SET attempt = attempt + 1, next_at = ? WHERE k = ? AND next_at = ?`
)

// Call is one of a job's webhook, to be made now.
type Call struct {
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

// Busy is what has as many calls under way as it may have.
type Busy struct{ Hosts, Endpoints []string }

// NextCall hands out the call that is due for longest, at none of the busy
// hosts and of none of the busy endpoints. Nobody else gets it within the claim; then it is due again. Where none
// is due the answer is nil and when to ask again, zero for not before one is
// ordered.
func (e *Engine) NextCall(ctx context.Context, busy Busy, claim time.Duration) (*Call, time.Time, error) {
	if err := e.deliver(ctx); sqldb.Classify(err) == sqldb.Outage {
		return nil, time.Time{}, err
	}
	for {
		due, err := e.callDue(ctx, busy)
		if err != nil || due.IsZero() || due.After(e.clock.Now()) {
			return nil, due, err
		}
		call, err := e.claim(ctx, busy, claim)
		if call != nil || err != nil {
			return call, time.Time{}, err
		}
	}
}

func (e *Engine) callDue(ctx context.Context, busy Busy) (time.Time, error) {
	statement, args := notAt(nextCall, busy)
	var at sql.NullInt64
	err := e.db.Read(ctx, func(r *sqldb.Reader) error { return r.QueryRow(statement, args...).Scan(&at) })
	if err != nil || !at.Valid {
		return time.Time{}, err
	}
	return fromMillis(at.Int64), nil
}

// claim answers nil where another process was quicker, or the job is no longer
// one to tell of.
func (e *Engine) claim(ctx context.Context, busy Busy, claim time.Duration) (*Call, error) {
	statement, others := notAt(claimed, busy)
	var call Call
	err := e.db.Write(ctx, func(tx *sqldb.Tx) error {
		now := e.now()
		call.until = now + claim.Milliseconds()
		return tx.QueryRow(statement, slices.Concat([]any{call.until, now}, others)...).Scan(&call.k, &call.URL, &call.Host, &call.Attempt)
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
		return r.QueryRow(called, c.k).Scan(&j.Endpoint, &j.ID, &j.State, &queued, &started, &finished, &j.Worker, &j.Retries, &j.Output, &j.Error, &c.Input)
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
	err := e.noteCall(ctx, c.k, c.until, next)
	if sqldb.Temporary(err) {
		_, err = e.spool.keep(record{Kind: callOutcome, At: e.now()}, content{K: c.k, Until: c.until, Again: next})
	}
	return err
}

// noteCall notes the outcome of a call, which is due again at a time or, with 0,
// was the last.
func (e *Engine) noteCall(ctx context.Context, k, until, again int64) error {
	statement, args := callOver, []any{k, until}
	if again > 0 {
		statement, args = callAgain, []any{again, k, until}
	}
	err := e.db.WriteWithReserve(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	})
	if err != nil {
		return err
	}
	if again == 0 {
		hint(e.poke) // its time may have been over for long
	} else {
		hint(e.calls)
	}
	return nil
}

// notAt leaves what is busy out of a statement.
func notAt(statement string, busy Busy) (string, []any) {
	var args []any
	list := func(names []string) string {
		args = append(args, "") // no call has none
		for _, name := range names {
			args = append(args, name)
		}
		return strings.Repeat("?, ", len(names)) + "?"
	}
	hosts := list(busy.Hosts)
	return strings.NewReplacer("{hosts}", hosts, "{endpoints}", list(busy.Endpoints)).Replace(statement), args
}

// order orders the call that tells of a job's end.
func order(tx *sqldb.Tx, c change, now int64) error {
	host := hostOf(c.webhook)
	if host == "" { // nobody could call that
		return nil
	}
	_, err := tx.Exec(addWebhook, c.k, c.webhook, host, now)
	return err
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
