package sqldb

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// maxBatch bounds how many writes share a commit.
const maxBatch = 256

// writer owns the connection that writes. Whatever waits while a commit is
// under way is committed together next, so that many callers share one flush.
type writer struct {
	conn   *conn
	memory *sync.RWMutex
	queue  chan *write
	quit   chan struct{}
	done   chan struct{}
	failed error // of closing; read after done
}

// write is one caller's work on its way through the writer.
type write struct {
	fn    func(*Tx) error
	state atomic.Int32 // waiting, then taken or withdrawn
	err   error        // the outcome, once done is closed
	panic any
	done  chan struct{}
}

const (
	waiting = iota
	taken
	withdrawn
)

func startWriter(c *conn, memory *sync.RWMutex) *writer {
	w := &writer{conn: c, memory: memory, queue: make(chan *write, maxBatch), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// submit hands fn to the writer and waits for its outcome.
func (w *writer) submit(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &write{fn: fn, done: make(chan struct{})}
	select {
	case <-w.quit:
		return ErrClosed
	default:
	}
	select {
	case w.queue <- op:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return ErrClosed
	}
	select {
	case <-op.done:
	case <-ctx.Done():
		if op.state.CompareAndSwap(waiting, withdrawn) {
			return ctx.Err()
		}
		<-op.done
	case <-w.done: // it was queued behind the last batch, or is in it
		if op.state.CompareAndSwap(waiting, withdrawn) {
			return ErrClosed
		}
		<-op.done
	}
	if op.panic != nil {
		panic(op.panic)
	}
	return op.err
}

func (w *writer) run() {
	defer func() {
		w.failed = w.conn.close()
		close(w.done)
	}()
	for {
		select {
		case op := <-w.queue:
			w.commit(w.gather(op))
		case <-w.quit:
			return
		}
	}
}

// gather takes up what waits already.
func (w *writer) gather(first *write) []*write {
	batch := make([]*write, 0, 16)
	for op := first; ; {
		if op.state.CompareAndSwap(waiting, taken) {
			batch = append(batch, op)
		}
		if len(batch) == maxBatch {
			return batch
		}
		select {
		case op = <-w.queue:
		default:
			return batch
		}
	}
}

// commit runs a batch in one transaction. Where the transaction as a whole
// fails (a full disk, say), each write gets one of its own, so that one that
// can't be done takes none of its neighbours with it.
func (w *writer) commit(batch []*write) {
	if len(batch) == 0 {
		return
	}
	if w.memory != nil {
		w.memory.Lock()
		defer w.memory.Unlock()
	}
	if err := w.try(batch); err != nil {
		for _, op := range batch {
			if err := w.try([]*write{op}); err != nil {
				op.err = explain(err)
			}
		}
	}
	for _, op := range batch {
		close(op.done)
	}
}

// try runs the batch in a transaction. The outcome of each write is in it; an
// error means that nothing was committed.
func (w *writer) try(batch []*write) (err error) {
	if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = w.conn.exec("ROLLBACK") // fails where the error ended the transaction by itself
		}
	}()
	for _, op := range batch {
		if err := w.one(op); err != nil {
			return err
		}
	}
	_, err = w.conn.exec("COMMIT")
	return err
}

// one runs a write so that its failure undoes itself alone.
func (w *writer) one(op *write) error {
	op.err, op.panic = nil, nil
	if _, err := w.conn.exec("SAVEPOINT op"); err != nil {
		return err
	}
	if op.err = explain(op.run(&Tx{queries{w.conn}})); op.err != nil || op.panic != nil {
		if _, err := w.conn.exec("ROLLBACK TO op"); err != nil {
			if op.err != nil {
				return op.err // it ended the whole transaction
			}
			return err
		}
	}
	_, err := w.conn.exec("RELEASE op")
	return err
}

// run calls fn. A panic is kept for the goroutine that asked for the write.
func (op *write) run(tx *Tx) error {
	defer func() {
		if p := recover(); p != nil {
			op.panic = fmt.Sprintf("in a database write: %v\n%s", p, debug.Stack())
		}
	}()
	return op.fn(tx)
}

// stop ends the writer after the batch under way.
func (w *writer) stop() error {
	close(w.quit)
	<-w.done
	return w.failed
}
