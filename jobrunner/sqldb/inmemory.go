package sqldb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// inMemory is SQLite in memory. Commits are cheap there, so each caller commits its own
// write, one at a time.
type inMemory struct {
	unshared
	mu      sync.RWMutex // held for reading by readers; there is no write-ahead log
	closed  bool
	writer  writer
	readers *readerPool
}

// memories numbers the databases in memory of this process.
var memories atomic.Int64

func openInMemory(c Config) (_ *inMemory, err error) {
	db := new(inMemory)
	source := fmt.Sprintf("file:/gpucloud-%d?vfs=memdb", memories.Add(1))
	if db.writer.conn, err = openConn(source, pragmas(c)); err == nil {
		db.readers, err = openReaders(source, pragmas(c))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.name(), classifySQLite(err)), db.close())
	}
	return db, nil
}

func (db *inMemory) write(ctx context.Context, fn func(*Tx) error, _ bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	op := &write{fn: fn}
	err := db.writer.try([]*write{op}, (*writer).runAll)
	if op.panic != nil {
		panic(op.panic)
	}
	if errors.Is(err, errOneFailed) {
		err = op.err
	}
	return db.classify(err)
}

func (db *inMemory) read(ctx context.Context, fn func(*Reader) error) error {
	c, err := db.readers.get(ctx)
	if err != nil {
		return err
	}
	defer db.readers.put(c)
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.classify(fn(&Reader{queries{c}}))
}

func (db *inMemory) classify(err error) error {
	if err = classifySQLite(err); errors.Is(err, ErrFull) {
		return &MemoryFullError{MaxMemory}
	}
	return err
}

func (db *inMemory) close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	err := db.readers.close()
	if db.writer.conn != nil {
		err = errors.Join(err, db.writer.conn.close())
	}
	return err
}

// MaxMemory is the default and maximum size of the jobs, and of all else, in memory, in bytes.
const MaxMemory = 1 << 30

// MemoryFullError means that the state in memory has reached its limit. It is also an
// ErrFull.
type MemoryFullError struct{ Limit int64 }

func (e *MemoryFullError) Error() string {
	return fmt.Sprintf("the memory for this deployment's state is full (--ephemeral-memory %d MiB; half of it is for jobs, the rest for their results): "+
		"wait until results are past their retention, or keep the state on disk with --data", e.Limit>>20)
}

// Is implements errors.Is for ErrFull.
func (e *MemoryFullError) Is(target error) bool { return target == ErrFull }
