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
	conn    *conn // for writes
	readers *readerPool
	hook    hook

	// The writes behind that aren't in the tables yet.
	batch *Batch
	notes []any
}

// memories numbers the databases in memory of this process.
var memories atomic.Int64

func openInMemory(c Config) (_ *inMemory, err error) {
	if c.Memory <= 0 || c.Memory > MaxMemory {
		c.Memory = MaxMemory
	}
	source := fmt.Sprintf("file:/gpucloud-%d?vfs=memdb", memories.Add(1))
	db := &inMemory{batch: new(Batch)}
	if db.conn, err = openConn(source, pragmas(c)); err == nil {
		db.conn.memory = c.Memory
		db.conn.lite.Reserve(c.Memory)
		db.readers, err = openReaders(source, pragmas(c))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.name(), classifySQLite(err)), db.close())
	}
	return db, nil
}

func (db *inMemory) write(ctx context.Context, fn func(*Tx) error, kind writeKind) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	afterRun, err := db.runExclusively(fn, kind)
	if err != nil {
		return db.classify(err)
	}
	if afterRun != nil {
		afterRun()
	}
	return nil
}

// runExclusively runs fn without concurrent readers and writers. It returns the function of
// Tx.AfterRun.
func (db *inMemory) runExclusively(fn func(*Tx) error, kind writeKind) (afterRun func(), err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	if kind == behind {
		tx := &Tx{queries: queries{withoutTransaction{db.conn}}, batch: db.batch}
		if err = fn(tx); err == nil {
			db.notes = append(db.notes, tx.notes...)
			if db.batch.Due {
				_ = db.writeOut(true) // if it fails, the next write tries again
			}
		}
		if !errors.Is(err, errNeedsTransaction) {
			return tx.afterRun, err
		}
	}
	if err := db.writeOut(false); err != nil {
		return nil, err
	}
	tx := &Tx{queries: queries{db.conn}}
	err = db.transact(tx, fn)
	return tx.afterRun, err
}

// writeOut writes the writes behind to the tables. If it fails, it keeps them.
func (db *inMemory) writeOut(mayDefer bool) error {
	if db.batch.Value == nil && len(db.notes) == 0 {
		return nil
	}
	tx := &Tx{queries: queries{db.conn}, notes: db.notes, batch: &Batch{Value: db.batch.Value, MayDefer: mayDefer}}
	err := db.transact(tx, func(*Tx) error { return nil })
	db.batch.Due = false
	if err == nil {
		db.batch, db.notes = &Batch{Value: tx.batch.Value}, nil
	}
	return err
}

// transact runs fn and the hook in a transaction.
func (db *inMemory) transact(tx *Tx, fn func(*Tx) error) (err error) {
	if _, err := db.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed { // fn may have panicked
			_, _ = db.conn.exec("ROLLBACK") // fails if the error has already ended the transaction
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	if len(tx.notes) > 0 || tx.batch != nil {
		if err := db.hook.run(&Tx{queries: tx.queries, batch: tx.batch}, tx.notes); err != nil {
			return err
		}
	}
	_, err = db.conn.exec("COMMIT")
	committed = err == nil
	return err
}

func (db *inMemory) read(ctx context.Context, fn func(*Reader) error) error {
	c, err := db.readers.get(ctx)
	if err != nil {
		return err
	}
	defer db.readers.put(c)
	if db.readConcurrently(c, fn, &err) {
		return db.classify(err)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writeOut(false); err != nil {
		return db.classify(err)
	}
	return db.classify(fn(&Reader{queries{c}}))
}

// readConcurrently calls fn, concurrently with other reads, unless there are writes behind,
// which must be written first. It reports whether it called fn.
func (db *inMemory) readConcurrently(c *conn, fn func(*Reader) error, err *error) bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.batch.Value != nil || len(db.notes) > 0 {
		return false
	}
	*err = fn(&Reader{queries{c}})
	return true
}

func (db *inMemory) classify(err error) error {
	err = classifySQLite(err)
	if memory := new(MemoryFullError); errors.Is(err, ErrFull) && !errors.As(err, &memory) {
		return &MemoryFullError{db.conn.memory}
	}
	return err
}

func (db *inMemory) beforeCommit() *hook { return &db.hook }

func (db *inMemory) close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	err := db.readers.close()
	if db.conn != nil {
		err = errors.Join(err, db.conn.close())
	}
	return err
}

// errNeedsTransaction ends a write behind that must run again in a transaction.
var errNeedsTransaction = errors.New("this write needs a transaction")

// withoutTransaction is the session of a write behind, which can only read.
type withoutTransaction struct{ *conn }

func (withoutTransaction) exec(string, ...any) (int64, error)   { return 0, errNeedsTransaction }
func (withoutTransaction) insert(string, ...any) (int64, error) { return 0, errNeedsTransaction }
func (withoutTransaction) later(string, ...any) error           { return errNeedsTransaction }
func (withoutTransaction) script(string) error                  { return errNeedsTransaction }

func (c withoutTransaction) query(query string, args ...any) (Rows, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	if !s.ReadOnly() {
		return nil, errNeedsTransaction
	}
	return c.conn.query(query, args...)
}

// room requests a transaction if memory seems to be full, because a transaction can measure
// it.
func (c withoutTransaction) checkRoom(bytes int64, use Use) error {
	if !c.hasRoom(bytes, use) {
		return errNeedsTransaction
	}
	return nil
}

// MaxMemory is the default and maximum size of a database in memory, in bytes.
const MaxMemory = 1 << 30

// Use is the purpose of memory in a database in memory. Jobs and results have different
// limits, so that a full deployment rejects jobs first, and results next, while it can
// still change the states of jobs.
type Use int

const (
	ForJobs    Use = iota // up to half
	ForResults            // up to 15/16
)

// MemoryFullError means that a database in memory has reached its limit. It is also an
// ErrFull.
type MemoryFullError struct{ Limit int64 }

func (e *MemoryFullError) Error() string {
	return fmt.Sprintf("the memory for this deployment's state is full (--ephemeral-memory %d MiB; half of it is for jobs, the rest for their results): "+
		"wait until results are past their retention, or keep the state on disk with --data", e.Limit>>20)
}

// Is implements errors.Is for ErrFull.
func (e *MemoryFullError) Is(target error) bool { return target == ErrFull }

// CheckRoom returns a *MemoryFullError if a database in memory has no room for so many more
// bytes of a use. For other databases it returns nil: they report a full disk when they write.
func (tx *Tx) CheckRoom(bytes int, use Use) error { return tx.conn.checkRoom(int64(bytes), use) }

func (c *conn) checkRoom(bytes int64, use Use) error {
	if c.hasRoom(bytes, use) {
		return nil
	}
	// The estimate doesn't know of deleted rows, so measure.
	var pages, free int64
	for query, into := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA freelist_count": &free} {
		rows, err := c.query(query)
		if err := (Row{rows, err}).Scan(into); err != nil {
			return err
		}
	}
	if c.used = (pages - free) * pageSize; !c.hasRoom(bytes, use) {
		return &MemoryFullError{c.memory}
	}
	return nil
}

// hasRoom adds bytes to the estimate of the used memory, and reports whether it is below the
// limit of the use.
func (c *conn) hasRoom(bytes int64, use Use) bool {
	if c.memory == 0 {
		return true
	}
	c.used += bytes + pageSize // for the row and its indexes
	if use == ForJobs {
		return c.used <= c.memory/2
	}
	return c.used <= c.memory-c.memory/16
}
