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
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	fileName = "jobrunner.db"
	lockName = "jobrunner.lock"
	readers  = 4
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
	// NoSync leaves the flush of committed changes to checkpoints: what was
	// acknowledged survives the death of the process, not that of the machine.
	// A PostgreSQL server that is set up like that is accepted.
	NoSync bool
	// Watch is told of each Read and Write that begins, and what it answers is
	// called at its end. It may be nil.
	Watch func() (end func())
}

// DB is an open database. Its methods may be called from many goroutines.
type DB struct {
	watch    func() (end func())
	postgres *postgres // the rest is of SQLite

	pool    *sql.DB
	writer  *writer
	readers chan *conn
	opened  int // how many readers there are
	lock    *os.File
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
	if c.URL != "" {
		p, err := openPostgres(ctx, c)
		if err != nil {
			return nil, err
		}
		return &DB{watch: c.Watch, postgres: p}, nil
	}
	db := &DB{watch: c.Watch, readers: make(chan *conn, readers)}
	source := fmt.Sprintf("file:/gpucloud-%d?vfs=memdb", memories.Add(1))
	if c.Dir == "" {
		db.memory = new(sync.RWMutex)
	} else {
		var err error
		if source, err = db.prepare(c.Dir); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	if err := db.connect(ctx, source, pragmas(c)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.name(), explain(err)), db.Close())
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
	path := filepath.Join(dir, fileName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("making the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	path = filepath.ToSlash(path)
	if path[0] != '/' { // C:/…
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), nil
}

// pragmas are run on each connection; auto_vacuum must come first, before the
// file has a page.
func pragmas(c Config) []string {
	common := []string{"auto_vacuum=INCREMENTAL", "temp_store=MEMORY", "cache_size=-16384", "trusted_schema=OFF", "foreign_keys=ON"}
	switch {
	case c.Dir == "":
		return append(common, "journal_mode=MEMORY", "synchronous=OFF")
	case c.NoSync:
		return append(common, "journal_mode=WAL", "synchronous=NORMAL", "journal_size_limit=67108864", "busy_timeout=10000")
	default:
		return append(common, "journal_mode=WAL", "synchronous=FULL", "journal_size_limit=67108864", "busy_timeout=10000")
	}
}

func (db *DB) connect(ctx context.Context, source string, pragmas []string) error {
	var err error
	if db.pool, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	db.pool.SetMaxOpenConns(readers + 1)
	db.pool.SetMaxIdleConns(readers + 1)
	open := func() (*conn, error) {
		c, err := db.pool.Conn(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range pragmas {
			if _, err := c.ExecContext(context.Background(), "PRAGMA "+p); err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
		}
		return newConn(c, sqliteDialect), nil
	}
	w, err := open()
	if err != nil {
		return err
	}
	db.writer = startWriter(w, db.memory)
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
	return nil
}

// Write runs fn in a transaction and returns when its changes are durable. An
// error of fn undoes what fn did, that of its neighbours in the same commit
// stays. fn is handed to the one writer: it must be quick, use nothing but tx,
// and tolerate to be run again from the start when the commit fails (results
// are assigned, not added up). A ctx that ends before the writer took fn up
// withdraws it; later its outcome is awaited.
//
// A full disk is ErrFull, a server that does not answer ErrAway.
//
// On PostgreSQL each Write has a transaction of its own (READ COMMITTED), and
// others run beside it: what it decides by must be part of its statements, or
// it is Alone.
func (db *DB) Write(ctx context.Context, fn func(tx *Tx) error) error {
	defer db.watch()()
	if db.postgres != nil {
		return db.postgres.write(ctx, fn)
	}
	return db.writer.submit(ctx, fn)
}

// Read runs fn with a connection for reading. Each of its statements sees every
// Write that returned before the statement began; two statements may see
// different states. ctx bounds the wait for a connection.
func (db *DB) Read(ctx context.Context, fn func(r *Reader) error) error {
	defer db.watch()()
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
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
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
