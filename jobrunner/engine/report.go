package engine

import (
	"cmp"
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
	reason string // of a loss
}

type reportKind int

const (
	reportDone reportKind = iota
	reportFail
	reportProgress
	reportChunk
	reportBeat
	reportLost
)

// Done says that the handler ended well, with an output in JSON or, nil, none.
func Done(output []byte) Report {
	return Report{kind: reportDone, output: output}
}

// Fail says that the handler failed, and why; it may have left an output.
func Fail(err string, output []byte) Report {
	return Report{kind: reportFail, err: err, output: output}
}

// Progress passes on an output of a job that goes on.
func Progress(output []byte) Report { return Report{kind: reportProgress, output: output} }

// Chunk passes on a part of the output of a job that goes on, in JSON, to
// whoever reads the job's stream, and metrics, a JSON object or nil. An output
// of more than MaxChunk is passed on as several chunks (split says how), the
// last of which has the metrics.
func Chunk(output, metrics []byte) Report {
	return Report{kind: reportChunk, chunks: chunks(output, metrics)}
}

// Chunks is Chunk for several outputs, in their order.
func Chunks(outputs [][]byte) Report {
	r := Report{kind: reportChunk}
	for _, output := range outputs {
		r.chunks = append(r.chunks, Chunk(output, nil).chunks...)
	}
	return r
}

// Beat says that the worker lives, and will say so again within the lease;
// 0 is for workers that are watched by other means.
func Beat(lease time.Duration) Report { return Report{kind: reportBeat, lease: lease} }

// Lost says that the worker died. The job is dispatched once more; lost again,
// it has failed.
func Lost() Report { return Report{kind: reportLost} }

// LostBecause is Lost with what happened to the worker, such as "its worker died
// with exit status 3", for the error of a job that is not dispatched again.
func LostBecause(reason string) Report { return Report{kind: reportLost, reason: reason} }

// final tells that the job is out of the worker's hands after it.
func (k reportKind) final() bool { return k == reportDone || k == reportFail || k == reportLost }

// supersedes tells that the latest one of several is enough.
func (k reportKind) supersedes() bool { return k == reportProgress || k == reportBeat }

// size is how much there is to keep of it, in bytes.
func (r Report) size() int {
	n := len(r.output)
	for _, c := range r.chunks {
		n += len(c)
	}
	return n
}

// Ends tells whether the job is out of the worker's hands after it.
func (r Report) Ends() bool { return r.kind.final() }

// Result tells whether the handler ended, well or not.
func (r Report) Result() bool { return r.kind == reportDone || r.kind == reportFail }

// Outcome names the end that a report makes, for people: COMPLETED, FAILED or
// LOST; "" for one that makes none.
func (r Report) Outcome() string {
	switch r.kind {
	case reportDone:
		return string(Completed)
	case reportFail:
		return string(Failed)
	case reportLost:
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
	// Kept says that the database is not available, and the report counts when it
	// is again. It is on a disk of this machine by now.
	Kept
	// Held is Kept in memory alone: the report does not outlive the process.
	Held
)

// Report records what a worker says of a job: IN_PROGRESS → COMPLETED, FAILED
// or, with a retry left, IN_QUEUE. Where the database is not available the
// report is kept, and so is what follows of the same job, until it can be
// recorded with the time at which it was made. An error says that it could be
// neither recorded nor kept.
func (e *Engine) Report(ctx context.Context, ref Ref, r Report) (Directive, error) {
	return e.reportAndTake(ctx, ref, r, Take{}, nil)
}

// reportAndTake is Report that takes what is next in the same transaction for h,
// where that is not nil: see report.
func (e *Engine) reportAndTake(ctx context.Context, ref Ref, r Report, next Take, h *handoff) (Directive, error) {
	at, streamed := e.now(), int64(0)
	if !e.spool.has(ref) {
		got, after, err := e.report(ctx, ref, r, at, 0, next, h)
		if !sqldb.Temporary(err) {
			return got, err
		}
		streamed = after
	}
	durable, err := e.spool.keep(record{Kind: jobReport, Ref: ref, At: at, Streamed: streamed, Report: r.kind}, reportContent(r))
	switch {
	case err != nil:
		return Stale, err
	case durable:
		return Kept, nil
	}
	return Held, nil
}

// report records a report that was made at a time, and takes what is next for h,
// where that is not nil and it may: then what h is sent is not nil. An error of the
// commit leaves unknown whether it counts. Done twice a report is Stale, but for
// chunks: of those streamed is how many the job then has, and was, of an earlier
// attempt, what that was to make it.
func (e *Engine) report(ctx context.Context, ref Ref, r Report, at, was int64, next Take, h *handoff) (got Directive, streamed int64, err error) {
	takes := h != nil && e.canTake()
	var jobs []Taken
	accepted, lease := false, int64(0)
	_, err = e.transition(ctx, e.db.WriteBehind, func(tx *sqldb.Tx) (changes []change, err error) {
		jobs = nil
		if n := r.size(); n > 0 {
			if err := tx.Room(n, sqldb.ForResults); err != nil {
				return nil, err
			}
		}
		if takes {
			if err := e.lookForNext(tx, next); err != nil {
				return nil, err
			}
		}
		changes, accepted, streamed, lease, err = e.record(tx, ref, r, at, was)
		if err == nil && takes {
			var more []change
			jobs, more, err = e.take(tx, next)
			changes = append(changes, more...)
			if jobs == nil {
				jobs = []Taken{}
			}
			h.sendAhead(tx, jobs)
		}
		return changes, err
	})
	if full, ok := errors.AsType[*sqldb.MemoryFullError](err); ok && r.Result() && r.output != nil {
		// Nobody would ever make room for it, and whoever waits for the job has to
		// learn that it is over.
		return e.report(ctx, ref, Fail(fmt.Sprintf("the result, of %d bytes, could not be kept: %s", len(r.output), full), nil), at, was, next, h)
	}
	if takes {
		e.returnUnsent(h, jobs, err)
	}
	if err != nil {
		return Stale, streamed, err
	}
	got = Stale
	if accepted {
		got = Accepted
		e.wake(lease)
	}
	return got, 0, nil
}

// record keeps what a report says, unless the job is not the worker's any more.
func (e *Engine) record(tx *sqldb.Tx, ref Ref, r Report, at, was int64) (changes []change, accepted bool, streamed, lease int64, err error) {
	now := e.now()
	u := unwrittenIn(tx)
	if u != nil && r.Result() && !u.has(ref) {
		if err := u.load(tx, ref, at); err != nil {
			return nil, false, 0, 0, err
		}
	}
	row := u.heldBy(ref, at)
	switch {
	case row == nil && r.Result() && u.has(ref): // whatever the table says
		return nil, false, 0, 0, nil
	case row != nil && r.Result() && row.webhook == "":
		return []change{u.end(tx, row, r, now, at)}, true, 0, 0, nil
	case row != nil, !r.Result(): // the call of a webhook refers to the row as it is
		if err := e.writeOut(tx); err != nil {
			return nil, false, 0, 0, err
		}
	}
	holder := []any{ref.Endpoint, ref.ID, at, ref.Worker, ref.Attempt, at}
	switch r.kind {
	case reportDone:
		changes, err = endRun(tx, Completed, completeJob, now, at, holder)
	case reportFail:
		changes, err = endRun(tx, Failed, failJob, now, at, holder)
	case reportLost:
		changes, err = loseJob(tx, now, r.reason, holder)
	case reportChunk:
		changes, streamed, err = stream(tx, ref, r.chunks, was, holder)
	default:
		if r.lease > 0 {
			lease = now + r.lease.Milliseconds()
		}
		accepted, err = heartbeat(tx, r, lease, holder)
		return nil, accepted, 0, lease, err
	}
	if len(changes) == 0 || err != nil {
		return nil, false, streamed, 0, err
	}
	if r.Result() {
		c := &changes[0]
		c.setResult(ref, r, at)
		err = keepResult(tx, *c, now, r.output, r.err)
	}
	return changes, err == nil, streamed, 0, err
}

// setResult adds the job as it ended.
func (c *change) setResult(ref Ref, r Report, at int64) {
	c.job = &Job{Endpoint: c.endpoint, ID: c.id, State: c.to, Worker: ref.Worker, Retries: c.retries, Output: r.output, Error: r.err}
	c.job.times(c.queued, c.started, at)
}

// endRun ends the job that is the worker's, where it still is, with a statement.
func endRun(tx *sqldb.Tx, to State, statement string, now, at int64, holder []any) ([]change, error) {
	changes, err := update(tx, to, lockHeldJob, slices.Concat([]any{now}, holder)...)
	for _, c := range changes {
		err = errors.Join(err, tx.Later(statement, at, now, c.k))
	}
	return changes, err
}

// keepResult keeps what a job leaves, and orders the call that tells of its end.
func keepResult(tx *sqldb.Tx, c change, now int64, output []byte, message string) error {
	if err := tx.Later(upsertOutput, c.k, output, message); err != nil {
		return err
	}
	if c.webhook == "" {
		return nil
	}
	return insertCall(tx, c, now)
}

// loseJob settles a job whose worker died.
func loseJob(tx *sqldb.Tx, now int64, reason string, holder []any) ([]change, error) {
	again, err := update(tx, InQueue, requeueHeld, slices.Concat([]any{now, maxRetries}, holder)...)
	if err != nil || len(again) > 0 {
		return again, errors.Join(err, requeue(tx, again))
	}
	over, err := update(tx, Failed, failHeld, slices.Concat([]any{now, now, maxRetries}, holder)...)
	return over, errors.Join(err, setLostError(tx, over, now, reason))
}

// requeue takes away what the run that is over left, and counts the retry.
func requeue(tx *sqldb.Tx, changes []change) error {
	for i := range changes {
		c := &changes[i]
		c.retry = true
		for _, statement := range []string{deleteOutput, deleteChunks} {
			if err := tx.Later(statement, c.k); err != nil {
				return err
			}
		}
	}
	return nil
}

// setLostError says in the job why it failed: its worker died, unless more is known.
func setLostError(tx *sqldb.Tx, changes []change, now int64, reason string) error {
	reason = cmp.Or(reason, "its worker died")
	for _, c := range changes {
		if err := keepResult(tx, c, now, nil, fmt.Sprintf("job timed out after %d retries: %s", c.retries, reason)); err != nil {
			return err
		}
	}
	return nil
}

// heartbeat takes note that the worker lives, and of what it has so far.
func heartbeat(tx *sqldb.Tx, r Report, lease int64, holder []any) (accepted bool, err error) {
	var k int64
	err = tx.QueryRow(extendLease, slices.Concat([]any{lease, lease}, holder)...).Scan(&k)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil && r.kind == reportProgress {
		err = tx.Later(upsertOutput, k, r.output, "")
	}
	return err == nil, err
}
