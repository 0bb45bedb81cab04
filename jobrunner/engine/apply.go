package engine

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// row is a row of the table jobs. schema.go explains its columns. deleteAt is in the column gone.
// Times are milliseconds since 1970, 0 for never.
type row struct {
	key            int64
	endpoint, id   string
	state          State
	lowPriority    bool
	webhook, owner string
	timeout        int64 // of the execution; 0 means the timeout of the endpoint
	retention      int64
	batch          int64 // key

	submittedAt, turn, queuedAt, expiresAt, deleteAt int64

	worker                          string
	attempt, retries                int
	startedAt, deadline, finishedAt int64
	streamed                        int64
	callAt                          int64
	callTries                       int
}

// eventKind is something that happens to a job. Files of the spool have its number, so it never changes.
type eventKind int

const (
	timePasses eventKind = iota
	released             // the batch of the request was finalized
	taken
	completed
	failed
	progressed // an intermediate output or chunks
	lost       // the worker died
	returned   // the worker stops, or can't continue the job
	cancelled
	retried
	ttlChanged // the client changed the ttl
	removal    // purged, or its batch or endpoint was deleted
	called     // a webhook call was claimed or made, or the next try was scheduled
)

type event struct {
	kind    eventKind
	worker  string
	attempt int
	timeout int64 // of taken: the endpoint's execution timeout
	ttl     int64 // of ttlChanged

	deleteAt int64 // of released
	callAt   int64 // of called: when the next call is due, or 0
	callMade bool  // of called: a call was made, which counts as a try

	output  []byte // JSON or nil; of completed, failed and progressed
	message string // of failed: the error; of lost: the reason
	chunks  [][]byte
}

// effect is what an event does to a job, besides the change of its row.
type effect struct {
	ok       bool // the event applies; otherwise the job is unchanged
	from, to State
	retry    bool // the job is dispatched again because its worker died
	wholeRow bool // columns other than runColumns may have changed

	clearsResult bool // output and chunks of the last run are deleted
	setsResult   bool // the event's output and the field message become the job's result

	message string
}

// apply decides every transition of a job:
//
//	                    ┌──returned, lost (once)──┐
//	                    ▼                         │
//	DRAFT ─released─▶ IN_QUEUE ────taken────▶ IN_PROGRESS ─completed──────▶ COMPLETED
//	  │                 ▲ │                       ├──failed, lost (again)─▶ FAILED
//	  │                 │ │                       ├──time passes──────────▶ TIMED_OUT
//	  └──cancelled──────┼─┴──cancelled────────────┴───────────────────────▶ CANCELLED
//	                    └──retried── FAILED, TIMED_OUT
//
// A job in any state is deleted at row.deleteAt or by the event removal. A report applies only to
// the attempt that its worker runs. A deleted job ignores all events. The caller applies timePasses before any
// other event.
func (r *row) apply(ev event, now int64) (fx effect) {
	if r.state == absent {
		return fx
	}
	fx.from, fx.wholeRow = r.state, true
	running := r.state == InProgress
	switch ev.kind {
	case timePasses:
		fx.ok = r.passTime(now)
	case released:
		if fx.ok = r.state == draft; fx.ok {
			r.state, r.submittedAt, r.turn, r.queuedAt, r.expiresAt, r.deleteAt = InQueue, now, now, now, ev.deleteAt, ev.deleteAt
		}
	case taken:
		if fx.ok = r.state == InQueue; fx.ok {
			r.state, r.worker, r.attempt, r.startedAt = InProgress, ev.worker, r.attempt+1, now
			r.deadline = now + cmp.Or(r.timeout, ev.timeout, DefaultTimeout.Milliseconds())
			fx.wholeRow = false
		}
	case completed, failed, progressed, lost, returned:
		if fx.ok = running && r.worker == ev.worker && r.attempt == ev.attempt; fx.ok {
			r.report(ev, now, &fx)
		}
	case cancelled:
		if fx.ok = running || r.state == InQueue || r.state == draft; fx.ok {
			r.end(Cancelled, now)
		}
	case retried:
		if fx.ok = r.state == Failed || r.state == TimedOut; fx.ok {
			fx.clearsResult = true
			r.turn, r.retries, r.finishedAt, r.callAt, r.callTries = now, 0, 0, 0, 0
			r.setDeleteAt()
			r.requeue(now)
		}
	case ttlChanged:
		fx.ok, r.expiresAt = true, r.submittedAt+ev.ttl
		r.setDeleteAt()
	case removal:
		fx.ok, r.state = true, absent
	case called:
		if fx.ok = r.callAt > 0; fx.ok {
			r.callAt = ev.callAt
			r.callTries += boolToInt(ev.callMade)
		}
	}
	fx.to = r.state
	return fx
}

// report applies an event from the worker that runs the job.
func (r *row) report(ev event, now int64, fx *effect) {
	switch ev.kind {
	case completed:
		r.end(Completed, now)
		fx.setsResult = true
	case failed:
		r.end(Failed, now)
		fx.setsResult, fx.message = true, ev.message
	case progressed:
		r.streamed += int64(len(ev.chunks))
		fx.setsResult, fx.wholeRow = ev.chunks == nil, false
	case lost:
		if r.retries >= maxRetries {
			r.end(Failed, now)
			fx.setsResult, fx.message = true, fmt.Sprintf("job timed out after %d retries: %s", r.retries, cmp.Or(ev.message, "its worker died"))
			return
		}
		r.retries++
		fx.retry = true
		fallthrough
	case returned:
		fx.clearsResult, fx.wholeRow = true, false
		r.requeue(now)
	}
}

// passTime makes a due transition. Even an expired job stays until its webhook has been called.
func (r *row) passTime(now int64) (changed bool) {
	switch {
	case r.deleteAt <= now && r.callAt == 0:
		r.state = absent
	case r.state == InProgress && r.deadline <= now:
		r.end(TimedOut, r.deadline) // the deadline is the end, even if this runs much later
	default:
		return false
	}
	return true
}

// delay returns the time from queueing to the start, or 0 before the start. The clocks of machines that share a
// database may differ a little.
func (r *row) delay() time.Duration {
	if r.startedAt == 0 {
		return 0
	}
	return max(0, duration(r.startedAt-r.queuedAt))
}

// execution returns the time from the start to the end, or 0 before the end.
func (r *row) execution() time.Duration {
	if r.startedAt == 0 || r.finishedAt == 0 {
		return 0
	}
	return max(0, duration(r.finishedAt-r.startedAt))
}

// done reports whether the job has ended and has no pending webhook call.
func (r *row) done() bool { return r.state.Terminal() && r.callAt == 0 }

// visible reports whether clients see the job.
func (r *row) visible(now int64) bool { return r.state != absent && r.deleteAt > now }

// never is later than all times in milliseconds.
const never = math.MaxInt64

// due returns when timePasses next changes the job, or never if another event must come first.
func (r *row) due() int64 {
	switch {
	case r.state == InProgress:
		return min(r.deadline, r.deleteAt)
	case r.callAt > 0:
		return never
	}
	return r.deleteAt
}

// end ends the job. If it is COMPLETED or FAILED and has a webhook, a call is due.
func (r *row) end(s State, at int64) {
	r.state, r.finishedAt = s, at
	r.setDeleteAt()
	if (s == Completed || s == Failed) && r.webhook != "" && hostOf(r.webhook) != "" {
		r.callAt, r.callTries = at, 0
	}
}

// setDeleteAt sets when the job ceases to exist: at the end of its ttl or of its
// retention, whichever is earlier.
func (r *row) setDeleteAt() {
	r.deleteAt = r.expiresAt
	if r.finishedAt > 0 {
		r.deleteAt = min(r.deleteAt, r.finishedAt+r.retention)
	}
}

func (r *row) requeue(now int64) {
	r.state, r.queuedAt, r.worker, r.startedAt, r.deadline = InQueue, now, "", 0, 0
}
