// Package sqldb is the one database under the jobrunner: SQLite, embedded, in a folder,
// with one writer that commits many callers' changes together, or in memory, each with a
// small pool of readers; or PostgreSQL, which several processes share. It knows no table
// but its own: each component brings its schema to Migrate and its statements,
// in one wording for both, to Write and Read.
//
// A Write is on disk when it returns (SQLite: write-ahead log,
// synchronous=FULL; PostgreSQL: synchronous_commit), and every Read that begins
// afterwards sees it.
package sqldb

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
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
	// clients read (PGPASSWORD, ~/.pgpass …). Dir is then locked for this process,
	// which may have there what it shares with no other, and holds no database.
	URL string
	// Connections bounds those of this process to the server, beside one that listens;
	// 0 is DefaultConnections.
	Connections int
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
	watch   func() (end func())
	outages outages
	backend backend
	closing sync.Once
	closed  error

	mu       sync.Mutex
	versions map[string]int // that this program knows, by component
	mayBreak func(ctx context.Context) error
	outdated atomic.Pointer[error] // set: this program is too old for the database
}

// backend is a kind of database: embedded SQLite in a folder (embedded.go) or in memory
// (inmemory.go), or a PostgreSQL server (postgres.go).
type backend interface {
	write(ctx context.Context, fn func(*Tx) error, kind writeKind) error
	read(ctx context.Context, fn func(*Reader) error) error
	beforeCommit() *hook
	migrating() (done func()) // tables change until done
	shared() bool
	notify(hint string)
	listen(f func(hint string))
	close() error
}

// Open opens the database, and makes it where there is none. A folder serves
// one DB at a time: ErrInUse otherwise.
func Open(ctx context.Context, c Config) (*DB, error) {
	if c.Watch == nil {
		c.Watch = func() func() { return func() {} }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{watch: c.Watch, outages: outages{log: c.Logger}}
	var err error
	switch {
	case c.URL != "":
		db.backend, err = openPostgres(ctx, c)
	case c.Dir == "":
		db.backend, err = openInMemory(c)
	default:
		db.backend, err = openEmbedded(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// Write runs fn in a transaction and returns when its changes are durable. An
// error of fn undoes what fn did, that of its neighbours in the same commit
// stays. fn is handed to the one writer, or keeps all others waiting: it must be quick, use nothing but tx,
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
	return db.write(ctx, fn, plain)
}

// WriteWithReserve is a Write that may use the space that is held back for a
// full disk: of what frees room, and of what the program needs to start.
func (db *DB) WriteWithReserve(ctx context.Context, fn func(tx *Tx) error) error {
	return db.write(ctx, fn, reserved)
}

// WriteBehind is a Write that may share more than SQLite's commit with others. On
// PostgreSQL writes behind share commits, too, and a write that fails, or waits for a
// row for long, then gets a transaction of its own, without a Batch. In memory, where there
// is no disk to wait for, fn runs first without a transaction, and what it leaves in the
// Batch is written with what other ones leave there, by the hook of BeforeCommit, at the
// latest before the next Read or Write. There fn may read what is in the tables; what would
// change them ends it with an error that it passes on, and has it run again, with a
// transaction and without a Batch. So fn leaves nothing in the Batch before the last
// call that may fail.
func (db *DB) WriteBehind(ctx context.Context, fn func(tx *Tx) error) error {
	return db.write(ctx, fn, behind)
}

// writeKind tells apart Write, WriteWithReserve and WriteBehind.
type writeKind int

const (
	plain writeKind = iota
	reserved
	behind
)

func (db *DB) write(ctx context.Context, fn func(tx *Tx) error, kind writeKind) error {
	defer db.watch()()
	if err := db.refused(); err != nil {
		return err
	}
	err := db.backend.write(ctx, fn, kind)
	db.outages.note(err, kind != reserved)
	return err
}

// InMemory tells that a write waits for no disk and no server.
func (db *DB) InMemory() bool {
	_, inMemory := db.backend.(*inMemory)
	return inMemory
}

// BeforeCommit has hook called in each transaction whose writes noted something
// (Tx.Note), at its end, with the notes of those that did not fail: once for all
// writes that share a commit. It is set before the first such write. An error
// undoes the transaction.
func (db *DB) BeforeCommit(hook func(tx *Tx, notes []any) error) {
	db.backend.beforeCommit().f.Store(&hook)
}

// hook is what BeforeCommit sets. Components that opened the database earlier already
// write by then.
type hook struct {
	f atomic.Pointer[func(*Tx, []any) error]
}

func (h *hook) run(tx *Tx, notes []any) error {
	if f := h.f.Load(); f != nil {
		return (*f)(tx, notes)
	}
	return nil
}

// Read runs fn with a connection for reading. Each of its statements sees every
// Write that returned before the statement began; two statements may see
// different states. ctx bounds the wait for a connection.
func (db *DB) Read(ctx context.Context, fn func(r *Reader) error) error {
	defer db.watch()()
	if err := db.refused(); err != nil {
		return err
	}
	err := db.backend.read(ctx, fn)
	db.outages.note(err, false)
	return err
}

// Reclaim gives unused pages of the file back to the file system, n at most
// and keep fewer than there are: those are used again. It says whether there
// are more. PostgreSQL does this by itself.
func (db *DB) Reclaim(ctx context.Context, keep, n int) (more bool, err error) {
	if db.Shared() {
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
	db.closing.Do(func() { db.closed = db.backend.close() })
	return db.closed
}

func (c Config) name() string {
	if c.Dir == "" {
		return "in memory"
	}
	return filepath.Join(c.Dir, fileName)
}
