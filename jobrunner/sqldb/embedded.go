package sqldb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

// embedded is SQLite in a folder, or in memory: one writer, and some readers.
type embedded struct {
	writer  *writer
	readers chan *conn
	opened  int // how many readers there are
	lock    *os.File
	reserve *reserve
	file    string // "": in memory

	// memory guards a database in memory, which has no write-ahead log: there
	// readers and the writer exclude each other.
	memory *sync.RWMutex
}

// memories tells apart the databases in memory of one process.
var memories atomic.Int64

func openEmbedded(ctx context.Context, c Config) (*embedded, error) {
	db := &embedded{readers: make(chan *conn, readers)}
	source := fmt.Sprintf("file:/gpucloud-%d?vfs=memdb", memories.Add(1))
	if c.Dir == "" {
		db.memory = new(sync.RWMutex)
		if c.Memory <= 0 || c.Memory > MaxMemory {
			c.Memory = MaxMemory
		}
	} else {
		var err error
		if source, err = db.prepareFolder(c.Dir); err != nil {
			return nil, errors.Join(err, db.close())
		}
	}
	if err := db.connect(ctx, source, pragmas(c), c.Memory); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.name(), classifySQLite(err)), db.close())
	}
	if db.file != "" {
		if err := removeNewMark(db.file); err != nil {
			return nil, errors.Join(fmt.Errorf("making the database %s: %w", c.name(), err), db.close())
		}
	}
	return db, nil
}

// prepareFolder makes the folder, takes its lock and makes sure that only the owner
// can read the file (SQLite gives its log the same mode).
func (db *embedded) prepareFolder(dir string) (source string, err error) {
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
	return (&url.URL{Scheme: "file", Path: uriPath(path)}).String(), nil
}

// uriPath is an absolute path as SQLite's URIs have it.
func uriPath(path string) string {
	path = filepath.ToSlash(path)
	if path[0] != '/' { // C:/…
		path = "/" + path
	}
	return path
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

func (db *embedded) connect(ctx context.Context, source string, pragmas []string, memory int64) error {
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
	return db.fillReserve(ctx)
}

// fillReserve begins to hold space back. By now the log of a process that was killed
// is read, and its space can be used again.
func (db *embedded) fillReserve(ctx context.Context) error {
	if db.reserve == nil {
		return nil
	}
	// A write that changes nothing, on the goroutine that owns the connection.
	return db.writer.submit(ctx, func(*Tx) error {
		db.reserve.fill()
		return nil
	}, false)
}

func (db *embedded) write(ctx context.Context, fn func(*Tx) error, reserve bool) error {
	err := db.writer.submit(ctx, fn, reserve)
	if memory := new(MemoryFullError); db.memory != nil && errors.Is(err, ErrFull) && !errors.As(err, &memory) {
		err = &MemoryFullError{db.writer.conn.memory}
	}
	return err
}

func (db *embedded) read(ctx context.Context, fn func(*Reader) error) error {
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
	return classifySQLite(fn(&Reader{queries{c}}))
}

func (db *embedded) beforeCommit(hook func(*Tx, []any) error) { db.writer.hook = hook }

// Changes of tables are like others, nobody shares the file, and so there is
// nobody to tell.
func (db *embedded) migrating() (done func()) { return func() {} }
func (db *embedded) shared() bool             { return false }
func (db *embedded) notify(string)            {}
func (db *embedded) listen(func(string))      {}

func (db *embedded) close() error {
	var errs []error
	if db.writer != nil {
		errs = append(errs, db.writer.stop())
	}
	for range db.opened { // each comes back when its read ends
		errs = append(errs, (<-db.readers).close())
	}
	close(db.readers)
	if db.reserve != nil {
		errs = append(errs, db.reserve.file.Close())
	}
	if db.lock != nil {
		errs = append(errs, unlockDir(db.lock))
	}
	return errors.Join(errs...)
}
