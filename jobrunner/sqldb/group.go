package sqldb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// maxBatch bounds how many writes share a commit.
const maxBatch = 256

// gatherTurns is how often a group commit lets others run before it commits, after
// the last write that came.
const gatherTurns = 3

// group is the group commit: writes that arrive while a commit is under way share the
// next one, so that many callers share one flush.
type group struct {
	queue  chan *write
	quit   chan struct{}
	done   chan struct{}
	failed error // of closing; read after done
}

// write is one caller's work on its way through a group commit.
type write struct {
	fn          func(*Tx) error
	reserve     bool         // it may use what is held back for a full disk
	state       atomic.Int32 // waiting, then taken or withdrawn
	err         error        // the outcome, once done is closed
	notes       []any        // of its transaction
	ahead       func()       // see Tx.Ahead
	aheadCalled bool         // that was called
	panic       any
	done        chan struct{}
}

const (
	writeWaiting = iota
	writeStarted
	writeWithdrawn
)

// startGroup starts a group commit by commit; end is called once, after the last batch.
func startGroup(commit func(batch []*write), end func() error) *group {
	g := &group{queue: make(chan *write, maxBatch), quit: make(chan struct{}), done: make(chan struct{})}
	go g.run(commit, end)
	return g
}

// submit hands fn to the goroutine that commits and waits for its outcome.
func (g *group) submit(ctx context.Context, fn func(*Tx) error, reserve bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &write{fn: fn, reserve: reserve, done: make(chan struct{})}
	select {
	case <-g.quit:
		return ErrClosed
	default:
	}
	select {
	case g.queue <- op:
	case <-ctx.Done():
		return ctx.Err()
	case <-g.quit:
		return ErrClosed
	}
	select {
	case <-op.done:
	case <-ctx.Done():
		if op.state.CompareAndSwap(writeWaiting, writeWithdrawn) {
			return ctx.Err()
		}
		<-op.done
	case <-g.done: // it was queued behind the last batch, or is in it
		if op.state.CompareAndSwap(writeWaiting, writeWithdrawn) {
			return ErrClosed
		}
		<-op.done
	}
	if op.panic != nil {
		panic(op.panic)
	}
	return op.err
}

func (g *group) run(commit func(batch []*write), end func() error) {
	defer func() {
		g.failed = end()
		close(g.done)
	}()
	for {
		select {
		case op := <-g.queue:
			if batch := g.gather(add(nil, op)); len(batch) > 0 {
				commit(batch)
			}
		case <-g.quit:
			return
		}
	}
}

// gather adds to a batch what waits, and what those who were served last bring
// until nothing more comes: a commit costs as much as several writes.
func (g *group) gather(batch []*write) []*write {
	for idle := 0; idle < gatherTurns && len(batch) < maxBatch; {
		select {
		case op := <-g.queue:
			batch = add(batch, op)
			idle = 0
		default:
			idle++
			runtime.Gosched()
		}
	}
	return batch
}

// add adds a write to a batch unless it was withdrawn.
func add(batch []*write, op *write) []*write {
	if op.state.CompareAndSwap(writeWaiting, writeStarted) {
		batch = append(batch, op)
	}
	return batch
}

// finish tells the callers the outcome of their writes.
func finish(batch []*write) {
	for _, op := range batch {
		close(op.done)
	}
}

// notesOf are the notes of the writes that did not fail.
func notesOf(batch []*write) (notes []any) {
	for _, op := range batch {
		if op.err == nil && op.panic == nil {
			notes = append(notes, op.notes...)
		}
	}
	return notes
}

// errOneFailed says that a write failed whose neighbours are to stay.
var errOneFailed = errors.New("a write of the batch failed")

// runAll runs writes until one fails, and those that come of what ran. Few
// fail, and a savepoint for each costs as much as a statement.
func (g *group) runAll(s session, batch *[]*write, shared *Batch) error {
	for next := 0; next < len(*batch); {
		ahead := false
		for ; next < len(*batch); next++ {
			op := (*batch)[next]
			op.err, op.panic = nil, nil
			if op.err = op.run(s, shared); op.err != nil || op.panic != nil {
				return errOneFailed
			}
			ahead = op.callAhead() || ahead
		}
		if ahead {
			*batch = g.gather(*batch)
		}
	}
	return nil
}

// run calls fn. A panic is kept for the goroutine that asked for the write.
func (op *write) run(s session, shared *Batch) error {
	tx := &Tx{queries: queries{s}, batch: shared}
	defer func() {
		op.notes, op.ahead = tx.notes, tx.ahead
		if p := recover(); p != nil {
			op.panic = fmt.Sprintf("in a database write: %v\n%s", p, debug.Stack())
		}
	}()
	return op.fn(tx)
}

// callAhead calls what is to be called ahead of the commit, once. It tells whether
// something was.
func (op *write) callAhead() bool {
	if op.ahead == nil || op.aheadCalled {
		return false
	}
	op.aheadCalled = true
	op.ahead()
	return true
}

// stop ends the group commit after the batch under way.
func (g *group) stop() error {
	close(g.quit)
	<-g.done
	return g.failed
}
