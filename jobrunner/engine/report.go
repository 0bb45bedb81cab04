package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Report is a worker's report on a job that it runs, made by Done, Fail, Progress, Chunk,
// Chunks, Lost or Returned.
type Report event

// Done reports that the handler succeeded. The output is JSON or nil.
func Done(output []byte) Report {
	return Report{kind: completed, output: output}
}

// Fail reports the handler's error and an output, JSON or nil. It omits the middle of an error of more than maxError bytes.
func Fail(err string, output []byte) Report {
	if len(err) > maxError {
		err = strings.ToValidUTF8(err[:maxError/2], "") + "\n…\n" + strings.ToValidUTF8(err[len(err)-maxError/2:], "")
	}
	return Report{kind: failed, message: err, output: output}
}

func Progress(output []byte) Report { return Report{kind: progressed, output: output} }

// Chunk adds a part of a running job's output to the job's stream. The output is JSON, and
// metrics is a JSON object or nil. An output of more than MaxChunk bytes becomes several
// chunks (see split), the last of which has the metrics.
func Chunk(output, metrics []byte) Report {
	return Report{kind: progressed, chunks: newChunks(output, metrics)}
}

// Chunks is Chunk for several outputs without metrics.
func Chunks(outputs [][]byte) Report {
	r := Report{kind: progressed}
	for _, output := range outputs {
		r.chunks = append(r.chunks, Chunk(output, nil).chunks...)
	}
	return r
}

// Lost reports that the worker died, for a reason such as "its worker died: exit status 3", or "" if it is
// unknown. The job is dispatched again. If it has no retry left, it fails with the reason in its error.
func Lost(reason string) Report { return Report{kind: lost, message: reason} }

// Returned requeues a job that its worker can't continue. It counts no retry.
func Returned() Report { return Report{kind: returned} }

// size returns the size of the output, the error and the chunks in bytes.
func (r Report) size() int {
	n := len(r.output) + len(r.message)
	for _, chunk := range r.chunks {
		n += len(chunk)
	}
	return n
}

// Ends reports whether the worker's run of the job ends with the report.
func (r Report) Ends() bool { return r.kind != progressed }

// HasResult reports whether the report has the handler's result, Done or Fail.
func (r Report) HasResult() bool { return r.kind == completed || r.kind == failed }

// Outcome returns COMPLETED, FAILED or LOST for logs, or "" for other reports.
func (r Report) Outcome() string {
	switch r.kind {
	case completed:
		return string(Completed)
	case failed:
		return string(Failed)
	case lost:
		return "LOST"
	}
	return ""
}

// Directive is the engine's response to a report.
type Directive int

const (
	// Accepted means that the report has been recorded.
	Accepted Directive = iota
	// Stale means that the worker no longer has the job, which was cancelled, timed out, expired or given
	// to another worker. The report had no effect, and the worker should stop.
	Stale
	// Spooled means that the database is unavailable. The report is in a file until it can be recorded.
	Spooled
	// SpooledInMemory is Spooled, but the report is lost if the process stops.
	SpooledInMemory
)

// Report records a worker's report: IN_PROGRESS → COMPLETED, FAILED or, if the worker returned the job,
// or died and the job has a retry left, IN_QUEUE. While the database is unavailable, the report is
// spooled. An error means that the report was neither recorded nor spooled.
func (e *Engine) Report(ctx context.Context, ref Ref, r Report) (Directive, error) {
	return e.report(ctx, ref, r, nil).result()
}

// ReportAndTake is Report, but also takes the next jobs, and returns them before the report is recorded. It
// calls recorded with the result of the report, perhaps later and from another goroutine.
func (e *Engine) ReportAndTake(ctx context.Context, ref Ref, r Report, next Take, recorded func(Directive, error)) []Taken {
	p := e.report(ctx, ref, r, &next)
	if e.store == nil {
		recorded(p.result())
	} else { // a worker that waited for the commit of its report would miss the jobs that arrive meanwhile
		go func() { recorded(p.result()) }()
	}
	jobs, err := e.loadInputs(ctx, p.next)
	if err != nil { // the jobs are in the queue again
		return nil
	}
	return jobs
}

type appliedReport struct {
	engine   *Engine
	entry    *entry // for the spool
	accepted bool
	commit   *commit
	next     []Taken
	err      error
}

// report applies a report to the job in memory. It takes the next jobs unless next is nil, or takes have to wait.
func (e *Engine) report(ctx context.Context, ref Ref, r Report, next *Take) *appliedReport {
	p := &appliedReport{engine: e, entry: &entry{Ref: ref, At: e.now(), Kind: r.kind, Output: r.output, Message: r.message, Chunks: r.chunks}}
	if full := e.memory.check(r.size(), false); full != nil && r.size() > 0 && r.kind != lost {
		if !r.HasResult() {
			p.err = full
			return p
		}
		// The memory won't get larger, and clients have to learn that the job has ended.
		r = Fail(fmt.Sprintf("the result, of %d bytes, could not be stored: %s", r.size(), full), nil)
	}
	q, err := e.lock(ctx, ref.Endpoint)
	if err != nil {
		p.err = err
		return p
	}
	if j := q.find(ref.ID); j != nil {
		p.accepted = q.apply(j, r.event(ref)).ok
		p.entry.Streamed = j.streamed
	}
	if waiting, _ := e.commits.size(); next != nil && waiting <= maxOpen && e.commits.failure() == nil {
		p.next = takenOf(q.take(*next))
	}
	p.commit = q.unlock()
	return p
}

func (r Report) event(ref Ref) event {
	r.worker, r.attempt = ref.Worker, ref.Attempt
	return event(r)
}

// result waits until the report is stored. If the commit fails, result spools the report.
func (p *appliedReport) result() (Directive, error) {
	if p.err != nil || !p.accepted {
		return Stale, p.err
	}
	err := p.commit.wait()
	switch {
	case err == nil:
		return Accepted, nil
	case errors.Is(err, ErrNotLeader):
		return Stale, nil
	}
	if err := p.engine.spool.add(p.entry); err != nil {
		return Stale, err
	}
	p.engine.spool.removeOnceStored(p.entry, p.commit)
	if p.entry.path == "" {
		return SpooledInMemory, nil
	}
	return Spooled, nil
}

// replay applies the spooled reports that an earlier process received and didn't store.
func (e *Engine) replay(q *queue) {
	for _, spooled := range e.spool.forQueue(q.name) {
		loaded, err := spooled.read()
		j := q.jobs[spooled.Ref.ID]
		at := min(spooled.At, e.now()) // the clock may have been set back
		switch {
		case err != nil:
			e.Logger.Error("a spooled report can't be read, and stays in the data folder", "job", spooled.Ref.ID, "endpoint", q.name, "error", err)
			continue
		case j == nil || len(loaded.Chunks) > 0 && j.streamed >= spooled.Streamed: // the report is stored already
		default:
			q.applyAt(j, event{kind: timePasses}, at)
			q.applyAt(j, loaded.report().event(spooled.Ref), at)
		}
		if q.open == nil {
			e.spool.remove(func(other *entry) bool { return other == spooled })
		} else {
			e.spool.removeOnceStored(spooled, q.open)
		}
	}
}

// WaitUntilStored waits until a job's reports are stored. If ctx ends first, it returns sqldb.ErrUnavailable.
func (e *Engine) WaitUntilStored(ctx context.Context, ref Ref) error {
	q := e.loadedQueue(ref.Endpoint)
	if q == nil {
		return nil
	}
	q.mu.Lock()
	var stored chan struct{} // nil: all reports are stored
	if j := q.jobs[ref.ID]; j != nil && j.change != nil {
		stored = j.change.commit.done
	}
	q.mu.Unlock()
	if stored == nil {
		return nil
	}
	select {
	case <-stored:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", sqldb.ErrUnavailable, ctx.Err())
	}
}

// Holds reports whether a worker still has a job, which may have been cancelled, timed out or expired.
func (e *Engine) Holds(ctx context.Context, ref Ref) (held bool, err error) {
	q, err := e.lock(ctx, ref.Endpoint)
	if err != nil {
		return false, err
	}
	j := q.find(ref.ID)
	held = j != nil && j.state == InProgress && j.worker == ref.Worker && j.attempt == ref.Attempt
	q.unlock()
	return held, nil
}
