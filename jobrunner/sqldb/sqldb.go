// Package sqldb is the one database under the jobrunner: SQLite, embedded,
// with one writer that commits many callers' changes together and a small pool
// of readers; or PostgreSQL, which several processes share. It knows no table
// but its own: each component brings its schema to Migrate and its statements,
// in one wording for both, to Write and Read.
//
// A Write is on disk when it returns (SQLite: write-ahead log,
// synchronous=FULL; PostgreSQL: synchronous_commit), and every Read that begins
// afterwards sees it.
package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

const (
	fileName = "jobrunner.db"
	lockName = "jobrunner.lock"
	readers  = 4
	pageSize = 4096 // of SQLite, by default
)

// Config says where the database lives.
type Config struct {
	// URL names a PostgreSQL database, like postgres://user@host:5432/name. What
	// it does not say is taken from the variables and files that PostgreSQL's own
	// clients read (PGPASSWORD, ~/.pgpass …). Dir is then not used.
	URL string
	// NoHints does without LISTEN and NOTIFY, for servers and poolers that
	// know none: Listen is told of nothing.
	NoHints bool
	// Dir is the folder that holds the database; it is made, for its owner
	// alone, where it is missing. Empty keeps everything in memory, gone with
	// Close.
	Dir string
	// Memory bounds one in memory, in bytes; 0 is MaxMemory, which is also the
	// most.
	Memory int64
	// NoSync leaves the flush of committed changes to checkpoints: what was
	// acknowledged survives the death of the process, not that of the machine.
	// A PostgreSQL server that is set up like that is accepted.
	NoSync bool
	// Watch is told of each Read and Write that begins, and what it answers is
	// called at its end. It may be nil.
	Watch func() (end func())
	// Logger takes a line when the database ceases to serve, and one when it
	// serves again; nil: nobody does.
	Logger *slog.Logger
}

// DB is an open database. Its methods may be called from many goroutines.
type DB struct {
	watch    func() (end func())
	outages  outages
	postgres *postgres // the rest is of SQLite

	writer  *writer
	readers chan *conn
	opened  int // how many readers there are
	lock    *os.File
	reserve *reserve
	file    string // "": in memory
	closing sync.Once
	closed  error

	// memory guards a database in memory, which has no write-ahead log: there
	// readers and the writer exclude each other.
	memory *sync.RWMutex
}

// memories tells apart the databases in memory of one process.
var memories atomic.Int64

// Open opens the database, and makes it where there is none. A folder serves
// one DB at a time: ErrInUse otherwise.
func Open(ctx context.Context, c Config) (*DB, error) {
	if c.Watch == nil {
		c.Watch = func() func() { return func() {} }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{watch: c.Watch, outages: outages{log: c.Logger}, readers: make(chan *conn, readers)}
	if c.URL != "" {
		var err error
		if db.postgres, err = openPostgres(ctx, c); err != nil {
			return nil, err
		}
		return db, nil
	}
	source := fmt.Sprintf("file:/gpucloud-%d?vfs=memdb", memories.Add(1))
	if c.Dir == "" {
		db.memory = new(sync.RWMutex)
		if c.Memory <= 0 || c.Memory > MaxMemory {
			c.Memory = MaxMemory
		}
	} else {
		var err error
		if source, err = db.prepare(c.Dir); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	if err := db.connect(ctx, source, pragmas(c), c.Memory); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.name(), explain(err)), db.Close())
	}
	if db.file != "" {
		if err := made(db.file); err != nil {
			return nil, errors.Join(fmt.Errorf("making the database %s: %w", c.name(), err), db.Close())
		}
	}
	return db, nil
}

// prepare makes the folder, takes its lock and makes sure that only the owner
// can read the file (SQLite gives its log the same mode).
func (db *DB) prepare(dir string) (source string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the data folder: %w", err)
	}
	if db.lock, err = lockDir(dir); err != nil {
		return "", err
	}
	if db.reserve, err = openReserve(dir); err != nil {
		return "", fmt.Errorf("opening the file that holds space back: %w", err)
	}
	path, err := makeFile(dir)
	if err != nil {
		return "", err
	}
	db.file = path
	path = filepath.ToSlash(path)
	if path[0] != '/' { // C:/…
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), nil
}

// pragmas are run on each connection; auto_vacuum must come first, before the
// file has a page. The caches are small: SQLite looks through the whole one at
// each commit after which pages of an index changed places, and what is in the
// system's cache, or in memory anyway, is read again for less.
func pragmas(c Config) []string {
	common := []string{"auto_vacuum=INCREMENTAL", "temp_store=MEMORY", "trusted_schema=OFF", "foreign_keys=ON"}
	if c.Dir == "" {
		common = append(common, "cache_size=-1024")
	} else {
		common = append(common, "cache_size=-4096")
	}
	switch {
	case c.Dir == "":
		return append(common, "journal_mode=MEMORY", "synchronous=OFF", fmt.Sprintf("max_page_count=%d", c.Memory/pageSize))
	case c.NoSync:
		return append(common, "journal_mode=WAL", "synchronous=NORMAL", "journal_size_limit=67108864", "busy_timeout=10000")
	default:
		return append(common, "journal_mode=WAL", "synchronous=FULL", "journal_size_limit=67108864", "busy_timeout=10000")
	}
}

func (db *DB) connect(ctx context.Context, source string, pragmas []string, memory int64) error {
	open := func() (*conn, error) {
		l, err := lite.Open(source)
		if err != nil {
			return nil, err
		}
		c := newConn(l, sqliteDialect)
		for _, p := range pragmas {
			if err := c.script("PRAGMA " + p); err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", p, err), c.close())
			}
		}
		return c, nil
	}
	w, err := open()
	if err != nil {
		return err
	}
	if db.memory != nil {
		w.memory = memory
	}
	db.writer = startWriter(w, db.memory, db.reserve)
	for range readers {
		r, err := open()
		if err != nil {
			return err
		}
		if _, err := r.exec("PRAGMA query_only=ON"); err != nil {
			return err
		}
		db.opened++
		db.readers <- r
	}
	return db.hold(ctx)
}

// hold begins to hold space back. By now the log of a process that was killed
// is read, and its space can be used again.
func (db *DB) hold(ctx context.Context) error {
	if db.reserve == nil {
		return nil
	}
	// A write that changes nothing, on the goroutine that owns the connection.
	return db.writer.submit(ctx, func(*Tx) error {
		db.reserve.fill()
		return nil
	}, false)
}

// Write runs fn in a transaction and returns when its changes are durable. An
// error of fn undoes what fn did, that of its neighbours in the same commit
// stays. fn is handed to the one writer: it must be quick, use nothing but tx,
// and tolerate to be run again from the start when the commit fails (results
// are assigned, not added up). A ctx that ends before the writer took fn up
// withdraws it; later its outcome is awaited.
//
// A full disk is ErrFull, a server that does not answer ErrUnavailable.
//
// On PostgreSQL each Write has a transaction of its own (READ COMMITTED), and
// others run beside it: what it decides by must be part of its statements, or
// it is Alone.
func (db *DB) Write(ctx context.Context, fn func(tx *Tx) error) error {
	return db.write(ctx, fn, false)
}

// WriteWithReserve is a Write that may use the space that is held back for a
// full disk: of what frees room, and of what the program needs to start.
func (db *DB) WriteWithReserve(ctx context.Context, fn func(tx *Tx) error) error {
	return db.write(ctx, fn, true)
}

func (db *DB) write(ctx context.Context, fn func(tx *Tx) error, reserve bool) (err error) {
	defer db.watch()()
	if db.postgres != nil {
		err = db.postgres.write(ctx, fn)
	} else {
		err = db.writer.submit(ctx, fn, reserve)
	}
	if memory := new(MemoryFullError); db.memory != nil && errors.Is(err, ErrFull) && !errors.As(err, &memory) {
		err = &MemoryFullError{db.writer.conn.memory}
	}
	db.outages.note(err, !reserve)
	return err
}

// BeforeCommit has hook called in each transaction whose writes noted something
// (Tx.Note), at its end, with the notes of those that did not fail: once for all
// writes that share a commit. It is set before the first such write. An error
// undoes the transaction.
func (db *DB) BeforeCommit(hook func(tx *Tx, notes []any) error) {
	if db.postgres != nil {
		db.postgres.hook = hook
		return
	}
	db.writer.hook = hook
}

// Read runs fn with a connection for reading. Each of its statements sees every
// Write that returned before the statement began; two statements may see
// different states. ctx bounds the wait for a connection.
func (db *DB) Read(ctx context.Context, fn func(r *Reader) error) error {
	defer db.watch()()
	err := db.read(ctx, fn)
	db.outages.note(err, false)
	return err
}

func (db *DB) read(ctx context.Context, fn func(r *Reader) error) error {
	if db.postgres != nil {
		return db.postgres.read(ctx, fn)
	}
	var c *conn
	select {
	case c = <-db.readers:
	default:
		select {
		case c = <-db.readers:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c == nil {
		return ErrClosed
	}
	defer func() { db.readers <- c }()
	if db.memory != nil {
		db.memory.RLock()
		defer db.memory.RUnlock()
	}
	return explain(fn(&Reader{queries{c}}))
}

// Reclaim gives unused pages of the file back to the file system, n at most
// and keep fewer than there are: those are used again. It says whether there
// are more. PostgreSQL does this by itself.
func (db *DB) Reclaim(ctx context.Context, keep, n int) (more bool, err error) {
	if db.postgres != nil {
		return false, nil
	}
	err = db.Write(ctx, func(tx *Tx) error {
		var free int
		if err := tx.QueryRow("PRAGMA freelist_count").Scan(&free); err != nil || free <= keep {
			return err
		}
		more = free-keep > n
		return tx.conn.script(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(n, free-keep)))
	})
	return more, err
}

// Close waits for the calls under way, refuses later ones with ErrClosed, and
// gives the folder free.
func (db *DB) Close() error {
	db.closing.Do(func() {
		if db.postgres != nil {
			db.closed = db.postgres.close()
		} else {
			db.closed = db.close()
		}
	})
	return db.closed
}

func (db *DB) close() error {
	var errs []error
	if db.writer != nil {
		errs = append(errs, db.writer.stop())
	}
	for range db.opened { // each comes back when its Read ends
		errs = append(errs, (<-db.readers).close())
	}
	close(db.readers)
	if db.reserve != nil {
		errs = append(errs, db.reserve.file.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	return errors.Join(errs...)
}

func (c Config) name() string {
	if c.Dir == "" {
		return "in memory"
	}
	return filepath.Join(c.Dir, fileName)
}
