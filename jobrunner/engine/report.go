package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Report is what a worker says of a job in its hands. One of Done, Fail,
// Progress, Chunk, Beat and Lost makes it.
type Report struct {
	kind   reportKind
	output []byte
	err    string
	chunks [][]byte
	lease  time.Duration
}

type reportKind int

const (
	done reportKind = iota
	fail
	progress
	chunk
	beat
	lost
)

// Done says that the handler ended well, with an output in JSON or, nil, none.
func Done(output []byte) Report { return Report{kind: done, output: output} }

// Fail says that the handler failed, and why; it may have left an output.
func Fail(err string, output []byte) Report { return Report{kind: fail, err: err, output: output} }

// Progress passes on an output of a job that goes on.
func Progress(output []byte) Report { return Report{kind: progress, output: output} }

// Chunk passes on a part of the output of a job that goes on, in JSON, to
// whoever reads the job's stream, and metrics, a JSON object or nil. An output
// of more than MaxChunk is passed on as several chunks (split says how), the
// last of which has the metrics.
func Chunk(output, metrics []byte) Report {
	return Report{kind: chunk, chunks: chunks(output, metrics)}
}

// Beat says that the worker lives, and will say so again within the lease;
// 0 is for workers that are watched by other means.
func Beat(lease time.Duration) Report { return Report{kind: beat, lease: lease} }

// Lost says that the worker died. The job is dispatched once more; lost again,
// it has failed.
func Lost() Report { return Report{kind: lost} }

// Ends tells whether the job is out of the worker's hands after it.
func (r Report) Ends() bool { return r.Result() || r.kind == lost }

// Result tells whether the handler ended, well or not.
func (r Report) Result() bool { return r.kind == done || r.kind == fail }

// Outcome names the end that a report makes, for people: COMPLETED, FAILED or
// LOST; "" for one that makes none.
func (r Report) Outcome() string {
	switch r.kind {
	case done:
		return string(Completed)
	case fail:
		return string(Failed)
	case lost:
		return "LOST"
	}
	return ""
}

// Directive is the answer to a report.
type Directive int

const (
	// Accepted says that the report counts.
	Accepted Directive = iota
	// Stale says that the job is not this worker's any more: it was cancelled,
	// timed out, is gone, or was given to another. The report changed nothing,
	// and the worker should stop.
	Stale
)

// Report records what a worker says of a job: IN_PROGRESS → COMPLETED, FAILED
// or, with a retry left, IN_QUEUE.
func (e *Engine) Report(ctx context.Context, ref Ref, r Report) (Directive, error) {
	var changes []change
	accepted, lease := false, int64(0)
	err := e.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		now := e.now()
		mine := []any{ref.Endpoint, ref.ID, now, ref.Worker, ref.Attempt, now}
		switch r.kind {
		case done:
			changes, err = update(tx, Completed, completed, slices.Concat([]any{now, now}, mine)...)
		case fail:
			changes, err = update(tx, Failed, failed, slices.Concat([]any{now, now}, mine)...)
		case lost:
			changes, err = loseOne(tx, now, mine)
		case chunk:
			changes, err = stream(tx, ref, r.chunks, mine)
			accepted = len(changes) > 0
			return err
		default:
			if r.lease > 0 {
				lease = now + r.lease.Milliseconds()
			}
			accepted, err = beatOne(tx, r, lease, mine)
			return err
		}
		accepted = err == nil && len(changes) > 0
		if !accepted || r.kind == lost {
			return err
		}
		return finish(tx, changes[0], now, r.output, r.err)
	})
	if err != nil {
		return Stale, err
	}
	if !accepted {
		return Stale, nil
	}
	e.apply(changes...)
	e.wake(lease)
	return Accepted, nil
}

// finish keeps what a job leaves, and orders the call that tells of its end.
func finish(tx *sqldb.Tx, c change, now int64, output []byte, message string) error {
	if _, err := tx.Exec(setOutput, c.k, output, message); err != nil {
		return err
	}
	if c.webhook == "" {
		return nil
	}
	return order(tx, c, now)
}

// loseOne settles a job whose worker died.
func loseOne(tx *sqldb.Tx, now int64, mine []any) ([]change, error) {
	again, err := update(tx, InQueue, requeuedOne, slices.Concat([]any{now, maxRetries}, mine)...)
	if err != nil || len(again) > 0 {
		return again, errors.Join(err, requeue(tx, again))
	}
	over, err := update(tx, Failed, givenUpOne, slices.Concat([]any{now, now, maxRetries}, mine)...)
	return over, errors.Join(err, giveUp(tx, over, now))
}

// requeue takes away what the run that is over left, and counts the retry.
func requeue(tx *sqldb.Tx, changes []change) error {
	for i := range changes {
		c := &changes[i]
		c.retry = true
		for _, statement := range []string{noOutput, noChunks} {
			if _, err := tx.Exec(statement, c.k); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(addTotals, c.endpoint, 0, 0, 1); err != nil {
			return err
		}
	}
	return nil
}

// giveUp says in the job why it failed.
func giveUp(tx *sqldb.Tx, changes []change, now int64) error {
	for _, c := range changes {
		if err := finish(tx, c, now, nil, fmt.Sprintf("job timed out after %d retries: its worker died", c.retries)); err != nil {
			return err
		}
	}
	return nil
}

// beatOne takes note that the worker lives, and of what it has so far.
func beatOne(tx *sqldb.Tx, r Report, lease int64, mine []any) (accepted bool, err error) {
	var k int64
	err = tx.QueryRow(beaten, slices.Concat([]any{lease, lease}, mine)...).Scan(&k)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil && r.kind == progress {
		_, err = tx.Exec(setOutput, k, r.output, "")
	}
	return err == nil, err
}
