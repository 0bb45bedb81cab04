package sqldb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// inMemory is SQLite in memory.
type inMemory struct {
	unshared
	mu      sync.RWMutex // held for reading by readers; there is no write-ahead log
	writer  *writer
	readers *readerPool
}

// memories numbers the databases in memory of this process.
var memories atomic.Int64

func openInMemory(c Config) (_ *inMemory, err error) {
	db := new(inMemory)
	source := fmt.Sprintf("file:/gpucloud-%d?vfs=memdb", memories.Add(1))
	w, err := openConn(source, pragmas(c))
	if err == nil {
		db.writer = newWriter(w, nil, &db.mu)
		db.readers, err = openReaders(source, pragmas(c))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.name(), classifySQLite(err)), db.close())
	}
	return db, nil
}

func (db *inMemory) write(ctx context.Context, fn func(*Tx) error, _ bool) error {
	return db.classify(db.writer.write(ctx, fn, false))
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

func (db *inMemory) close() error { return errors.Join(db.writer.close(), db.readers.close()) }

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
