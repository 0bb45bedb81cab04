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

// gatherTurns is how often the writer lets others run before it commits, after
// the last write that came.
const gatherTurns = 3

// writer owns the connection that writes. Whatever waits while a commit is
// under way is committed together next, so that many callers share one flush.
type writer struct {
	hook    hook
	conn    *conn
	reserve *reserve
	queue   chan *write
	quit    chan struct{}
	done    chan struct{}
	failed  error // of closing; read after done
}

// write is one caller's work on its way through the writer.
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

func startWriter(c *conn, reserve *reserve) *writer {
	w := &writer{conn: c, reserve: reserve, queue: make(chan *write, maxBatch), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// submit hands fn to the writer and waits for its outcome.
func (w *writer) submit(ctx context.Context, fn func(*Tx) error, reserve bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &write{fn: fn, reserve: reserve, done: make(chan struct{})}
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
		if op.state.CompareAndSwap(writeWaiting, writeWithdrawn) {
			return ctx.Err()
		}
		<-op.done
	case <-w.done: // it was queued behind the last batch, or is in it
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

func (w *writer) run() {
	defer func() {
		w.failed = w.conn.close()
		close(w.done)
	}()
	for {
		select {
		case op := <-w.queue:
			w.commit(w.gather(add(nil, op)))
		case <-w.quit:
			return
		}
	}
}

// gather adds to a batch what waits, and what those who were served last bring
// until nothing more comes: a commit costs as much as several writes.
func (w *writer) gather(batch []*write) []*write {
	for idle := 0; idle < gatherTurns && len(batch) < maxBatch; {
		select {
		case op := <-w.queue:
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

// commit runs a batch in one transaction, and what comes of it. Where a write
// fails, the batch runs again, so that the failure undoes itself alone; where the
// transaction as a whole fails (a full disk, say), each write gets one of its own,
// so that one that can't be done takes none of its neighbours with it.
func (w *writer) commit(batch []*write) {
	if len(batch) == 0 {
		return
	}
	err := w.try(&batch, (*writer).runAll)
	if errors.Is(err, errOneFailed) {
		err = w.try(&batch, (*writer).runEach)
	}
	if err != nil {
		for _, op := range batch {
			if err := w.try(&[]*write{op}, (*writer).runEach); err != nil {
				op.err = classifySQLite(err)
			}
		}
	}
	w.reserve.refill()
	for _, op := range batch {
		if op.reserve && errors.Is(op.err, ErrFull) {
			op.err = classifySQLite(w.withReserve(op))
		}
	}
	for _, op := range batch {
		close(op.done)
	}
}

// try runs the batch in a transaction, to which run may add. The outcome of each
// write is in it; an error means that nothing was committed.
func (w *writer) try(batch *[]*write, run func(*writer, *[]*write, *Batch) error) (err error) {
	if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = w.conn.exec("ROLLBACK") // fails where the error ended the transaction by itself
		}
	}()
	shared := new(Batch)
	if err := run(w, batch, shared); err != nil {
		return err
	}
	var notes []any
	for _, op := range *batch {
		if op.err == nil && op.panic == nil {
			notes = append(notes, op.notes...)
		}
	}
	if len(notes) > 0 {
		if err := w.hook.run(&Tx{queries: queries{w.conn}, batch: shared}, notes); err != nil {
			return err
		}
	}
	_, err = w.conn.exec("COMMIT")
	return err
}

// errOneFailed says that a write failed whose neighbours are to stay.
var errOneFailed = errors.New("a write of the batch failed")

// runAll runs writes until one fails, and those that come of what ran. Few
// fail, and a savepoint for each costs as much as a statement.
func (w *writer) runAll(batch *[]*write, shared *Batch) error {
	for next := 0; next < len(*batch); {
		ahead := false
		for ; next < len(*batch); next++ {
			op := (*batch)[next]
			op.err, op.panic = nil, nil
			if op.err = op.run(w.conn, shared); op.err != nil || op.panic != nil {
				return errOneFailed
			}
			ahead = op.callAhead() || ahead
		}
		if ahead {
			*batch = w.gather(*batch)
		}
	}
	return nil
}

// runEach runs writes so that the failure of one undoes itself alone.
func (w *writer) runEach(batch *[]*write, _ *Batch) error {
	for _, op := range *batch {
		if err := w.runInSavepoint(op); err != nil {
			return err
		}
		if op.err == nil && op.panic == nil {
			op.callAhead()
		}
	}
	return nil
}

func (w *writer) runInSavepoint(op *write) error {
	op.err, op.panic = nil, nil
	if _, err := w.conn.exec("SAVEPOINT op"); err != nil {
		return err
	}
	if op.err = classifySQLite(op.run(w.conn, nil)); op.err != nil || op.panic != nil {
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
func (op *write) run(c *conn, shared *Batch) error {
	tx := &Tx{queries: queries{c}, batch: shared}
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

// stop ends the writer after the batch under way.
func (w *writer) stop() error {
	close(w.quit)
	<-w.done
	return w.failed
}
