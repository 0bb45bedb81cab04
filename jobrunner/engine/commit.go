package engine

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Operations change jobs in memory and wait for the commit of their changes. All changes
// that are made during a commit share the next one.
//
// If a commit fails, it is tried again until it succeeds, this process shuts down, or another
// process takes over the leadership. The waiting callers get the error. While commits fail,
// submissions and takes are rejected, and reports are spooled. The submissions of a failed commit
// are withdrawn, because their clients got an error.

// commit is a set of changes that are stored together.
type commit struct {
	changes []*change
	counts  map[string]Counts // by queue
	batches []*batch
	events  []transition
	process string // the id of this process when the commit was opened
	// mayBeStored means that the commit was tried, and may have succeeded although its reply was lost.
	mayBeStored bool

	done   chan struct{} // closed when it is stored; nil if the engine has no store
	failed chan struct{} // closed when a try has failed
	err    error         // of the failed try; set before failed is closed
}

// change is what a commit stores about one job.
type change struct {
	job         *job
	commit      *commit
	row         row // the values to store
	isNew       bool
	wholeRow    bool // all columns are stored, not only the run columns
	output      []byte
	message     string
	input, rest []byte
	chunks      []numberedChunk // new chunks

	setsResult   bool // output and message are stored
	clearsResult bool // output and chunks of earlier commits are deleted
}

// merge adds a later change of the same job.
func (ch *change) merge(later *change) {
	ch.row, ch.wholeRow = later.row, ch.wholeRow || later.wholeRow
	if later.clearsResult {
		ch.clearsResult, ch.chunks = true, nil
	}
	if later.clearsResult || later.setsResult {
		ch.setsResult, ch.output, ch.message = later.setsResult, later.output, later.message
	}
	ch.chunks = append(ch.chunks, later.chunks...)
}

// transition is an effect for watches and observers.
type transition struct {
	Event
	ended   *Job // the job with its result, if a worker's result ended it
	callDue bool // a webhook call is due
}

// wait waits until the changes are stored or a try has failed. A commit that is nil has no changes.
func (c *commit) wait() error {
	if c == nil || c.done == nil {
		return nil
	}
	select {
	case <-c.done:
	case <-c.failed:
	}
	if c.hasFailed() { // even if the rest was stored later
		return c.err
	}
	return nil
}

// hasFailed reports whether the callers got an error.
func (c *commit) hasFailed() bool {
	select {
	case <-c.failed:
		return true
	default:
		return false
	}
}

func (c *commit) empty() bool { return len(c.changes)+len(c.batches) == 0 }

// maxOpen is the number of changes that may wait for a commit. Takes wait while there are more, because
// workers could outrun the store.
const maxOpen = 512

// gatherTurns is how often the committer yields to other goroutines between the last change
// and the commit: a commit costs as much as several jobs, so it waits for the changes of others.
const gatherTurns = 3

// Pauses between the tries of a commit, in real time: an outage doesn't follow the engine's clock.
const (
	minRetryPause = 50 * time.Millisecond
	maxRetryPause = time.Second
)

// quietRetries is how long a failing commit is tried again before its callers get the error. It covers
// connections that the server has closed, for example.
const quietRetries = 250 * time.Millisecond

type committer struct {
	engine  *Engine
	mu      sync.Mutex
	open    *commit
	changed chan struct{} // signals that open has a change
	retry   chan struct{} // signals that a try may succeed now

	currentErr atomic.Pointer[error] // why commits fail now, or nil
}

// renew opens a new commit and returns the previous one. During an outage the callers of the
// new commit get the error at once, because a try can take seconds.
func (c *committer) renew() *commit {
	closed := c.open
	c.open = &commit{counts: map[string]Counts{}, process: c.engine.Process()}
	if c.engine.store != nil {
		c.open.done, c.open.failed = make(chan struct{}), make(chan struct{})
		if err := c.failure(); sqldb.Classify(err) == sqldb.Outage {
			c.open.fail(err)
		}
	}
	return closed
}

// failure returns why commits fail at the moment, or nil. Operations that need a commit return it.
func (c *committer) failure() error {
	if err := c.currentErr.Load(); err != nil {
		return *err
	}
	return nil
}

// add adds the effect of an event on a job to a commit, and returns the commit. The caller holds the locks of the
// job's queue and, unless all jobs are in memory, of the committer.
func (c *committer) add(j *job, chunks [][]byte, fx effect) *commit {
	open := j.queue.open
	if c.engine.store == nil { // each operation publishes its own changes
		if open == nil {
			open = &commit{events: make([]transition, 0, 2)}
		}
	} else {
		open = c.open
		ch := j.change
		if ch == nil || ch.commit != open {
			ch = &change{job: j, commit: open}
			if fx.from == absent {
				ch.isNew, ch.input, ch.rest = true, j.input, j.rest
			}
			j.change = ch
			open.changes = append(open.changes, ch)
		}
		ch.merge(&change{
			row: j.row, wholeRow: fx.wholeRow, clearsResult: fx.clearsResult, setsResult: fx.setsResult, output: j.output, message: j.message,
			chunks: numberChunks(chunks, j.streamed),
		})
		open.counts[j.queue.name] = j.queue.counts
		c.signal()
	}
	if fx.to != draft && (fx.from != fx.to || len(chunks) > 0) {
		open.events = append(open.events, newTransition(j, fx))
	}
	return open
}

// signal wakes the committer for a change. If the disk is full, the change may free space.
func (c *committer) signal() {
	notify.Signal(c.changed)
	if sqldb.Classify(c.failure()) == sqldb.Full {
		notify.Signal(c.retry)
	}
}

// size returns the number of changes that wait for a commit, and that commit.
func (c *committer) size() (int, *commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open.changes), c.open
}

// flush waits for all changes that have been made. It returns at once while commits fail.
func (c *committer) flush() error {
	if err := c.failure(); err != nil || c.engine.store == nil {
		return err
	}
	c.mu.Lock()
	open := c.open
	notify.Signal(c.changed)
	c.mu.Unlock()
	return open.wait()
}

// flushUnlessDiskFull is flush for operations that free space: it returns nil while the disk is full.
func (c *committer) flushUnlessDiskFull() error {
	if err := c.flush(); sqldb.Classify(err) != sqldb.Full {
		return err
	}
	return nil
}

// run commits until ctx ends. It then tries to commit the last changes once. Later changes fail.
func (c *committer) run(ctx context.Context) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.currentErr.Store(&sqldb.ErrClosed)
		c.open.fail(sqldb.ErrClosed)
	}()
	for {
		select {
		case <-c.changed:
		case <-ctx.Done():
		}
		for idle, last := 0, -1; idle < gatherTurns; idle++ {
			runtime.Gosched()
			if n, _ := c.size(); n != last {
				last, idle = n, 0
			}
		}
		c.mu.Lock()
		closed := c.renew()
		c.mu.Unlock()
		if closed.empty() {
			close(closed.done)
		} else {
			c.storeWithRetries(ctx, []*commit{closed})
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// storeWithRetries stores commits, or gives up when ctx ends. While tries fail, it adds the commits that are
// opened meanwhile.
func (c *committer) storeWithRetries(ctx context.Context, pending []*commit) {
	for pause := minRetryPause; ; pause = min(2*pause, maxRetryPause) {
		unstored, err := c.tryQuietly(ctx, pending)
		if err == nil {
			if pending = c.succeed(pending); pending == nil {
				return
			}
			continue
		}
		c.finish(slices.DeleteFunc(slices.Clone(pending), func(p *commit) bool { return slices.Contains(unstored, p) }))
		pending = unstored
		if errors.Is(err, ErrNotLeader) {
			c.currentErr.Store(nil)
			c.engine.dropLeadership(pending...)
			return
		}
		withdrawn, full := false, sqldb.Classify(err) == sqldb.Full
		for _, p := range pending {
			p.fail(err)
			withdrawn = c.withdraw(p) || withdrawn
		}
		if withdrawn && full { // the rest may fit on the disk
			continue
		}
		if sqldb.Classify(err) == sqldb.Fault {
			c.engine.Logger.Error("changes of jobs can't be stored, and wait", "error", err)
			err = errors.Join(sqldb.ErrUnavailable, err)
		}
		c.currentErr.Store(&err)
		select {
		case <-c.retry:
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		switch {
		case c.open.process != pending[0].process: // changes under a new id must not fail with those under the old one
		case c.open.empty():
			c.renew().fail(err) // for flush
		default:
			pending = append(pending, c.renew())
		}
		c.mu.Unlock()
	}
}

// tryQuietly is try, but at the start of an outage it tries again during quietRetries. If the first
// try took longer than maxRetryPause, the server hangs, and tryQuietly returns its error at once.
func (c *committer) tryQuietly(ctx context.Context, pending []*commit) (unstored []*commit, err error) {
	start := time.Now()
	unstored, err = c.try(pending)
	if time.Since(start) > maxRetryPause {
		return unstored, err
	}
	for failed := time.Now(); sqldb.Classify(err) == sqldb.Outage && !errors.Is(err, ErrNotLeader) && c.failure() == nil &&
		time.Since(failed) < quietRetries && clock.RealSleep(ctx, minRetryPause/5) == nil; {
		unstored, err = c.try(pending)
	}
	return unstored, err
}

// succeed finishes commits that are stored. If an outage ends with them, it closes the open commit
// and returns it as the next one to store, because its callers may have got the error.
func (c *committer) succeed(stored []*commit) (next []*commit) {
	c.mu.Lock()
	if c.currentErr.Swap(nil) != nil {
		next = []*commit{c.renew()}
	}
	c.mu.Unlock()
	c.finish(stored)
	if next != nil {
		for _, q := range c.engine.loadedQueues() {
			q.mu.Lock()
			q.unlock() // serves the takers
		}
	}
	return next
}

// fail notifies the waiting callers of a failed try.
func (c *commit) fail(err error) {
	if !c.hasFailed() {
		c.err = err
		close(c.failed)
	}
}

// finish ends commits that are stored: it drops their changes, removes their spooled reports, and
// notifies the callers, watches and observers.
func (c *committer) finish(stored []*commit) {
	for _, p := range stored {
		for _, ch := range p.changes {
			ch.forget()
		}
		c.engine.publish(p)
		close(p.done)
		c.engine.spool.removeOf(p) // last, because spool.removeOnceStored reads done after it has added an entry
	}
}

// forget drops a change that is stored, and evicts its job.
func (ch *change) forget() {
	q := ch.job.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if ch.job.change == ch {
		ch.job.change = nil
		q.evict(ch.job)
	}
}

// evict frees memory of data that is stored: ended jobs without a due webhook call, and inputs beyond maxMemory.
func (q *queue) evict(j *job) {
	if q.jobs[j.id] != j {
		return
	}
	before := j.size()
	if j.done() { // no webhook call is due
		delete(q.jobs, j.id)
		q.evicted++
		q.engine.memory.use(-before)
		return
	}
	if j.state.Terminal() {
		j.output, j.message = nil, ""
	}
	if j.hasInput && q.engine.memory.used.Load() > maxMemory {
		j.input, j.rest, j.hasInput = nil, nil, false
	}
	q.engine.memory.use(j.size() - before)
}

// maxMemory is the number of bytes of all jobs above which stored inputs are evicted. A take then reads them
// from the store.
const maxMemory = 128 << 20

// publish reports the transitions of a commit to watches, the observer and the webhook sender.
func (e *Engine) publish(c *commit) {
	for _, t := range c.events {
		e.hub.wake(t)
		if t.callDue {
			notify.Signal(e.calls)
		}
		if e.Observe != nil && t.From != t.To && (t.From != absent || t.To == InQueue) {
			e.Observe(t.Event)
		}
	}
}

func newTransition(j *job, fx effect) transition {
	if fx.from == draft {
		fx.from = absent // observers don't know drafts
	}
	t := transition{callDue: j.callAt > 0, Event: Event{
		Endpoint: j.endpoint, Job: j.id, From: fx.from, To: fx.to, Retry: fx.retry, Counts: j.queue.counts,
		Delay: j.delay(), Execution: j.execution(),
	}}
	if fx.from == InProgress && (fx.to == Completed || fx.to == Failed) {
		v := j.view(math.MaxInt32)
		t.ended = &v
	}
	return t
}
