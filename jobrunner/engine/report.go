package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Report is a worker's report on a job that it runs, made by Done, Fail, Progress, Chunk,
// Chunks, Lost or LostBecause.
type Report struct {
	kind   reportKind
	output []byte
	err    string
	chunks [][]byte
	reason string // why the worker died
}

// reportKind is a kind of report. The spool's files have its number.
type reportKind int

const (
	reportDone reportKind = iota
	reportFail
	reportProgress
	reportChunk
	_ // a heartbeat in older files
	reportLost
)

// Done reports that the handler succeeded. The output is JSON or nil.
func Done(output []byte) Report {
	return Report{kind: reportDone, output: output}
}

// Fail reports that the handler failed with an error. The output is JSON or nil.
func Fail(err string, output []byte) Report {
	return Report{kind: reportFail, err: err, output: output}
}

// Progress reports an intermediate output of a running job.
func Progress(output []byte) Report { return Report{kind: reportProgress, output: output} }

// Chunk adds a part of a running job's output to the job's stream. The output is JSON, and
// metrics is a JSON object or nil. An output of more than MaxChunk bytes becomes several
// chunks (see split), the last of which has the metrics.
func Chunk(output, metrics []byte) Report {
	return Report{kind: reportChunk, chunks: chunks(output, metrics)}
}

// Chunks is Chunk for several outputs without metrics.
func Chunks(outputs [][]byte) Report {
	r := Report{kind: reportChunk}
	for _, output := range outputs {
		r.chunks = append(r.chunks, Chunk(output, nil).chunks...)
	}
	return r
}

// Lost reports that the worker died. The job is dispatched again, or fails if it has no
// retry left.
func Lost() Report { return Report{kind: reportLost} }

// LostBecause is Lost with a reason for the error of the job if it fails, such as "its
// worker died: exit status 3".
func LostBecause(reason string) Report { return Report{kind: reportLost, reason: reason} }

// final reports whether the run ends with the report.
func (k reportKind) final() bool { return k == reportDone || k == reportFail || k == reportLost }

// size returns the size of the output and the chunks in bytes.
func (r Report) size() int {
	n := len(r.output)
	for _, c := range r.chunks {
		n += len(c)
	}
	return n
}

// Ends reports whether the worker's run of the job ends with the report.
func (r Report) Ends() bool { return r.kind.final() }

// Result reports whether the report has the handler's result, Done or Fail.
func (r Report) Result() bool { return r.kind == reportDone || r.kind == reportFail }

// Outcome returns COMPLETED, FAILED or LOST for logs, or "" if the job goes on.
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

// Directive is the engine's response to a report.
type Directive int

const (
	// Accepted means that the report has been recorded.
	Accepted Directive = iota
	// Stale means that the worker no longer has the job, which was cancelled, timed out,
	// expired or given to another worker. The report had no effect, and the worker should
	// stop.
	Stale
	// Spooled means that the database is unavailable, and the report is in a file until it
	// can be recorded.
	Spooled
	// SpooledInMemory is Spooled, but the report is lost if the process stops.
	SpooledInMemory
)

// Report records a worker's report: IN_PROGRESS → COMPLETED, FAILED or, if the worker died
// and the job has a retry left, IN_QUEUE. While the database is unavailable, the report and
// all later reports on the job are spooled. They are recorded with their original time. An
// error means that the report was neither recorded nor spooled.
func (e *Engine) Report(ctx context.Context, ref Ref, r Report) (Directive, error) {
	return e.reportAndTake(ctx, ref, r, Take{}, nil)
}

// reportAndTake is Report, but also takes the next jobs in the same transaction and sends
// them to h, unless h is nil.
func (e *Engine) reportAndTake(ctx context.Context, ref Ref, r Report, next Take, h *handoff) (Directive, error) {
	at, streamed := e.now(), int64(0)
	if !e.spool.has(ref) {
		directive, attempted, err := e.report(ctx, ref, r, at, 0, next, h)
		if !sqldb.Temporary(err) {
			return directive, err
		}
		streamed = attempted
	}
	durable, err := e.spool.add(record{Kind: jobReport, Ref: ref, At: at, Streamed: streamed, Report: r.kind}, reportContent(r))
	switch {
	case err != nil:
		return Stale, err
	case durable:
		return Spooled, nil
	}
	return SpooledInMemory, nil
}

// report records a report that was made at the time at. If h isn't nil and canTakeAhead,
// it also takes the next jobs and sends them to h, as a non-nil slice.
//
// If the commit fails, the report may have been recorded anyway. Recording it again is
// Stale, except for chunks: report then returns in streamed the number of chunks that the
// job has if the commit succeeded, and the caller passes it as attempted to the next try.
func (e *Engine) report(ctx context.Context, ref Ref, r Report, at, attempted int64, next Take, h *handoff) (_ Directive, streamed int64, err error) {
	takes := h != nil && e.canTakeAhead()
	var jobs []Taken
	accepted := false
	_, err = e.transition(ctx, e.db.WriteBehind, func(tx *sqldb.Tx) (changes []change, err error) {
		jobs = nil
		if n := r.size(); n > 0 {
			if err := tx.CheckRoom(n, sqldb.ForResults); err != nil {
				return nil, err
			}
		}
		if takes {
			if err := e.prefetch(tx, next); err != nil {
				return nil, err
			}
		}
		changes, accepted, streamed, err = e.record(tx, ref, r, at, attempted)
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
		// The memory won't get larger, and clients have to learn that the job has ended.
		return e.report(ctx, ref, Fail(fmt.Sprintf("the result, of %d bytes, could not be stored: %s", len(r.output), full), nil), at, attempted, next, h)
	}
	if takes {
		e.returnUnsent(h, jobs, err)
	}
	if err != nil {
		return Stale, streamed, err
	}
	if !accepted {
		return Stale, 0, nil
	}
	return Accepted, 0, nil
}

// record records a report if the worker still has the job.
func (e *Engine) record(tx *sqldb.Tx, ref Ref, r Report, at, attempted int64) (changes []change, accepted bool, streamed int64, err error) {
	now := e.now()
	u := unwrittenIn(tx)
	if u != nil && r.Result() && !u.has(ref) {
		if j := e.handedOut.remove(jobKey{ref.Endpoint, ref.ID}); j.isHeldBy(ref, at) {
			u.add(j)
		} else if err := u.load(tx, ref, at); err != nil {
			return nil, false, 0, err
		}
	}
	row := u.heldBy(ref, at)
	switch {
	case row == nil && r.Result() && u.has(ref): // another worker has the job; the table may be out of date
		return nil, false, 0, nil
	case row != nil && r.Result() && row.webhook == "":
		return []change{u.end(tx, row, r, now, at)}, true, 0, nil
	case row != nil, !r.Result(): // a webhook call refers to the row
		if err := e.writeOut(tx); err != nil {
			return nil, false, 0, err
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
		changes, streamed, err = stream(tx, ref, r.chunks, attempted, holder)
	default:
		accepted, err = keepProgress(tx, r.output, holder)
		return nil, accepted, 0, err
	}
	if len(changes) == 0 || err != nil {
		return nil, false, streamed, err
	}
	if r.Result() {
		c := &changes[0]
		c.setResult(ref, r, at)
		err = keepResult(tx, *c, now, r.output, r.err)
	}
	return changes, err == nil, streamed, err
}

// setResult adds the ended job to the change.
func (c *change) setResult(ref Ref, r Report, at int64) {
	c.job = &Job{Endpoint: c.endpoint, ID: c.id, State: c.to, Worker: ref.Worker, Retries: c.retries, Output: r.output, Error: r.err}
	c.job.setTimes(c.queued, c.started, at)
}

// endRun ends a job with a statement if the worker still has it.
func endRun(tx *sqldb.Tx, to State, statement string, now, at int64, holder []any) ([]change, error) {
	changes, err := update(tx, to, lockHeldJob, slices.Concat([]any{now}, holder)...)
	for _, c := range changes {
		err = errors.Join(err, tx.Later(statement, at, now, c.k))
	}
	return changes, err
}

// keepResult writes a job's output and error, and adds its webhook call.
func keepResult(tx *sqldb.Tx, c change, now int64, output []byte, message string) error {
	if err := tx.Later(upsertOutput, c.k, output, message); err != nil {
		return err
	}
	if c.webhook == "" {
		return nil
	}
	return insertCall(tx, c, now)
}

// loseJob requeues or fails a job whose worker died.
func loseJob(tx *sqldb.Tx, now int64, reason string, holder []any) ([]change, error) {
	requeued, err := update(tx, InQueue, requeueHeld, slices.Concat([]any{now, maxRetries}, holder)...)
	if err != nil || len(requeued) > 0 {
		return requeued, errors.Join(err, markRequeued(tx, requeued))
	}
	failed, err := update(tx, Failed, failHeld, slices.Concat([]any{now, now, maxRetries}, holder)...)
	return failed, errors.Join(err, setLostError(tx, failed, now, reason))
}

// markRequeued marks the changes as retries, and deletes the output and chunks of the
// lost run.
func markRequeued(tx *sqldb.Tx, changes []change) error {
	for i := range changes {
		changes[i].retry = true
	}
	return deleteResults(tx, changes, deleteOutput, deleteChunks)
}

// setLostError sets the error of failed jobs. The reason "" is that their worker died.
func setLostError(tx *sqldb.Tx, changes []change, now int64, reason string) error {
	reason = cmp.Or(reason, "its worker died")
	for _, c := range changes {
		if err := keepResult(tx, c, now, nil, fmt.Sprintf("job timed out after %d retries: %s", c.retries, reason)); err != nil {
			return err
		}
	}
	return nil
}

// keepProgress records the output of Progress.
func keepProgress(tx *sqldb.Tx, output []byte, holder []any) (accepted bool, err error) {
	var k int64
	err = tx.QueryRow(lockHeldKey, holder...).Scan(&k)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		err = tx.Later(upsertOutput, k, output, "")
	}
	return err == nil, err
}
