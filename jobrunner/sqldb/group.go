package sqldb

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// maxBatch limits the writes that share a commit.
const maxBatch = 256

// group implements group commit: writes that arrive during a commit share the next one, and
// so share its flush.
type group struct {
	queue    chan *write
	quit     chan struct{}
	done     chan struct{}
	closeErr error // read after done
}

// write is one caller's write in a group commit.
type write struct {
	fn      func(*Tx) error
	reserve bool         // may use the space reserved for a full disk
	state   atomic.Int32 // writeWaiting, then writeStarted or writeWithdrawn
	err     error        // read after done
	panic   any
	done    chan struct{}
}

const (
	writeWaiting = iota
	writeStarted
	writeWithdrawn
)

// startGroup starts a group commit. It calls commit for each batch, and end once after the
// last batch.
func startGroup(commit func(batch []*write), end func() error) *group {
	g := &group{queue: make(chan *write, maxBatch), quit: make(chan struct{}), done: make(chan struct{})}
	go g.run(commit, end)
	return g
}

// submit passes fn to the committing goroutine and waits for the outcome.
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
	case <-g.done: // the write was queued after the last batch, or is in it
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
		g.closeErr = end()
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

// gather adds the waiting writes to a batch.
func (g *group) gather(batch []*write) []*write {
	for len(batch) < maxBatch {
		select {
		case op := <-g.queue:
			batch = add(batch, op)
		default:
			return batch
		}
	}
	return batch
}

// add adds a write to a batch, unless its caller has withdrawn it.
func add(batch []*write, op *write) []*write {
	if op.state.CompareAndSwap(writeWaiting, writeStarted) {
		batch = append(batch, op)
	}
	return batch
}

// finish wakes the callers of the writes.
func finish(batch []*write) {
	for _, op := range batch {
		close(op.done)
	}
}

// errOneFailed reports that one write failed, so that the batch must run again.
var errOneFailed = errors.New("a write of the batch failed")

// runAll runs the writes of a batch until one fails. It uses no savepoints: few writes fail,
// and a savepoint costs as much as a statement.
func runAll(s session, batch []*write) error {
	for _, op := range batch {
		op.err, op.panic = nil, nil
		if op.err = op.run(s); op.err != nil || op.panic != nil {
			return errOneFailed
		}
	}
	return nil
}

// run calls fn. It stores a panic for the goroutine that submitted the write.
func (op *write) run(s session) error {
	tx := &Tx{queries{s}, s}
	defer func() {
		if p := recover(); p != nil {
			op.panic = fmt.Sprintf("in a database write: %v\n%s", p, debug.Stack())
		}
	}()
	return op.fn(tx)
}

// stop stops the group commit after the current batch.
func (g *group) stop() error {
	close(g.quit)
	<-g.done
	return g.closeErr
}
