// Package sqldb is the jobrunner's database. It is embedded SQLite, in a folder or in
// memory, or a PostgreSQL server, which several processes can share. Components pass their
// schema to Migrate, and their statements, which are the same for both databases, to Write
// and Read.
//
// A Write is durable when it returns (SQLite: write-ahead log, synchronous=FULL;
// PostgreSQL: synchronous_commit), and every Read that begins afterwards sees it.
package sqldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	FileName = "jobrunner.db" // of the database in a data folder
	lockName = "jobrunner.lock"
	readers  = 4    // connections that read SQLite
	pageSize = 4096 // of SQLite, by default
)

type Config struct {
	// URL is the address of a PostgreSQL database, such as postgres://user@host:5432/name.
	// Defaults come from the variables and files of PostgreSQL's own clients (PGPASSWORD,
	// ~/.pgpass …). Dir is then locked for the process's own files, but has no database.
	URL string
	// Connections limits the connections, except the one that listens for hints; 0 is DefaultConnections.
	Connections int
	// NoNotify is for servers and poolers without LISTEN and NOTIFY. Listen then receives nothing.
	NoNotify bool
	// Dir is the folder of the database. If it is missing, it is created for its owner
	// only. If Dir is empty, the database is in memory until Close.
	Dir string
	// Memory limits the state if Dir is empty, in bytes; 0 is MaxMemory. The database may take a quarter of it.
	Memory int64
	// NoSync flushes committed changes only at checkpoints: they survive a crash of the process, but not of
	// the machine. It also accepts a PostgreSQL server that is configured in this way.
	NoSync bool
	// Watch, unless nil, is called when a Read or Write begins; end is called when that has ended.
	Watch func() (end func())
	// Logger logs the start and end of outages. It may be nil.
	Logger *slog.Logger
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	watch   func() (end func())
	outages outages
	backend backend
	lock    *os.File     // of the data folder, or nil
	close   func() error // closes the database once

	mu             sync.Mutex
	versions       map[string]int // this program's schema versions, by component
	beforeBreaking func(ctx context.Context) error
	outdated       atomic.Pointer[error] // set if this program is too old for the database
}

// backend implements a DB with SQLite (embedded.go) or with a PostgreSQL server (postgres.go).
type backend interface {
	write(ctx context.Context, fn func(*Tx) error, mayUseReserve bool) error
	read(ctx context.Context, fn func(*Reader) error) error
	beginMigration() (done func()) // a migration runs until done is called
	shared() bool
	notify(hint string)
	listen(f func(hint string))
	close() error
}

// Open opens or creates the database. It returns ErrInUse if another DB uses the folder.
func Open(ctx context.Context, c Config) (*DB, error) {
	if c.Watch == nil {
		c.Watch = func() func() { return func() {} }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	db := &DB{watch: c.Watch, outages: outages{log: c.Logger}, versions: map[string]int{}}
	if err := db.lockFolder(&c); err != nil {
		return nil, err
	}
	var err error
	if c.URL != "" {
		db.backend, err = openPostgres(ctx, c)
	} else {
		db.backend, err = openEmbedded(c)
	}
	if err != nil {
		return nil, errors.Join(err, db.unlockFolder())
	}
	db.close = sync.OnceValue(func() error { return errors.Join(db.backend.close(), db.unlockFolder()) })
	return db, nil
}

// lockFolder creates and locks the folder, and makes its path absolute.
func (db *DB) lockFolder(c *Config) (err error) {
	if c.Dir == "" {
		return nil
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	db.lock, err = lockDir(c.Dir)
	return err
}

func (db *DB) unlockFolder() error {
	if db.lock == nil {
		return nil
	}
	return unlockDir(db.lock)
}

// Write runs fn in a transaction and returns when its changes are durable. An error of fn
// rolls back the changes of fn. Other writes may wait for fn, so it must be quick and use
// only tx. If a statement or the commit fails, fn may run again from the start, so it must assign
// its results and not add to them. If ctx ends before fn has started, Write returns at once;
// if ctx ends later, Write waits for the outcome.
//
// Write returns ErrFull if the disk is full, and ErrUnavailable if the server doesn't
// respond.
//
// On SQLite one Write runs at a time. On PostgreSQL each Write is a READ COMMITTED transaction,
// concurrent with others: fn must put its conditions into its statements or call Tx.Lock.
func (db *DB) Write(ctx context.Context, fn func(tx *Tx) error) error {
	return db.write(ctx, fn, false)
}

// WriteWithReservedSpace is a Write that may use the space reserved for a full disk. It is for
// writes that free space or that the program needs to start.
func (db *DB) WriteWithReservedSpace(ctx context.Context, fn func(tx *Tx) error) error {
	return db.write(ctx, fn, true)
}

func (db *DB) write(ctx context.Context, fn func(tx *Tx) error, mayUseReserve bool) error {
	defer db.watch()()
	if err := db.checkOutdated(); err != nil {
		return err
	}
	err := db.backend.write(ctx, fn, mayUseReserve)
	db.outages.note(err, !mayUseReserve)
	return err
}

// Memory returns the limit of the state if the database is in memory, in bytes. Otherwise it returns 0.
func (db *DB) Memory() int64 {
	if sqlite, ok := db.backend.(*embedded); ok {
		return sqlite.memory
	}
	return 0
}

// Read runs fn with a read-only connection. Each statement sees all Writes that returned before it began;
// two statements may see different states. ctx limits the wait for a connection.
func (db *DB) Read(ctx context.Context, fn func(r *Reader) error) error {
	defer db.watch()()
	if err := db.checkOutdated(); err != nil {
		return err
	}
	err := db.backend.read(ctx, fn)
	db.outages.note(err, false)
	return err
}

// Each is a Read that runs a statement, and calls row for each of its rows.
func (db *DB) Each(ctx context.Context, row func(Row) error, query string, args ...any) error {
	return db.Read(ctx, func(r *Reader) error { return r.Each(row, query, args...) })
}

// Reclaim returns up to n unused pages of the file to the file system, but keeps keep
// unused pages for reuse. PostgreSQL does this itself.
func (db *DB) Reclaim(ctx context.Context, keep, n int) error {
	if db.Shared() {
		return nil
	}
	return db.Write(ctx, func(tx *Tx) error {
		var free int
		if err := tx.QueryRow("PRAGMA freelist_count").Scan(&free); err != nil || free <= keep {
			return err
		}
		return tx.session.script(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(n, free-keep)))
	})
}

// Close waits for the calls in progress and unlocks the folder. Later calls return ErrClosed.
func (db *DB) Close() error { return db.close() }

func (c Config) name() string {
	if c.Dir == "" {
		return "in memory"
	}
	return filepath.Join(c.Dir, FileName)
}

// Shared reports whether other processes can use the same database.
func (db *DB) Shared() bool { return db.backend.shared() }

// MeasureClockLag returns how far the times of the function now are behind the clock of a shared database, which
// sets the clocks of all processes. It returns 0 if the database isn't shared.
func (db *DB) MeasureClockLag(ctx context.Context, now func() time.Time) (behind time.Duration, err error) {
	if !db.Shared() {
		return 0, nil
	}
	err = db.Read(ctx, func(r *Reader) error {
		var micros int64
		start := now()
		err := r.QueryRow("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)").Scan(&micros)
		middle := start.Add(now().Sub(start) / 2)
		behind = time.UnixMicro(micros).Sub(middle)
		return err
	})
	return behind, err
}

// Lock acquires a lock until the end of the transaction: only one transaction in all processes can hold the
// lock of a name. It must be the first call of the transaction, whose later statements see the changes of
// earlier holders. On SQLite it is a no-op, because writes are serialized.
func (tx *Tx) Lock(name string) error { return tx.session.lock(name) }

// Notify sends a hint of one line to the other processes that call Listen. It returns at once. The caller must
// have committed the change that the hint is about. Hints are sent in batches, about every 10 ms, and may
// be lost, so receivers must also poll. On SQLite it is a no-op.
func (db *DB) Notify(hint string) { db.backend.notify(hint) }

// Listen calls f with the hints of other processes, one at a time, until Close. f must be
// quick and must not use the database. Listen may be called once.
func (db *DB) Listen(f func(hint string)) { db.backend.listen(f) }
