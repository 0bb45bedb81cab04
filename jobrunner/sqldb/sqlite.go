package sqldb

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

// pragmas returns the pragmas of each connection. auto_vacuum must come first, before the
// file has a page. The caches are small, because SQLite scans the whole cache at some
// commits, and reading from the system's cache or from memory costs less.
func pragmas(c Config) []string {
	common := []string{"auto_vacuum=INCREMENTAL", "temp_store=MEMORY", "trusted_schema=OFF", "foreign_keys=ON"}
	if c.Dir == "" {
		return append(common, "cache_size=-1024", "journal_mode=MEMORY", "synchronous=OFF", fmt.Sprintf("max_page_count=%d", c.Memory/4/pageSize))
	}
	synchronous := "synchronous=FULL"
	if c.NoSync {
		synchronous = "synchronous=NORMAL"
	}
	return append(common, "cache_size=-4096", "journal_mode=WAL", synchronous, "journal_size_limit=8388608", busyTimeout)
}

// busyTimeout is the pragma for how long statements wait for a lock of another process, in milliseconds.
const busyTimeout = "busy_timeout=10000"

func openConn(source string, pragmas []string) (*conn, error) {
	l, err := lite.Open(source)
	if err != nil {
		return nil, err
	}
	c := &conn{l, map[string]*lite.Stmt{}, map[string]string{}}
	for _, p := range pragmas {
		if err := c.script("PRAGMA " + p); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", p, err), c.close())
		}
	}
	return c, nil
}

// readerPool is a pool of read-only connections to SQLite.
type readerPool struct {
	free   chan *conn
	opened int
}

func openReaders(source string, pragmas []string) (*readerPool, error) {
	p := &readerPool{free: make(chan *conn, readers)}
	for range readers {
		c, err := openConn(source, append(pragmas, "query_only=ON"))
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.opened++
		p.free <- c
	}
	return p, nil
}

func (p *readerPool) get(ctx context.Context) (c *conn, err error) {
	select {
	case c = <-p.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c == nil {
		return nil, ErrClosed
	}
	return c, nil
}

func (p *readerPool) put(c *conn) { p.free <- c }

// close waits for the reads in progress.
func (p *readerPool) close() error {
	if p == nil {
		return nil
	}
	var errs []error
	for range p.opened {
		errs = append(errs, (<-p.free).close())
	}
	close(p.free)
	return errors.Join(errs...)
}

// writer owns the writing connection, for one write at a time.
type writer struct {
	conn       *conn
	turn       chan struct{} // has a buffer of one, which the running write fills
	closed     bool
	reserve    *reserve    // nil if the database is in memory
	memoryLock sync.Locker // held during a transaction to exclude readers; nil if the database is on disk
}

func (w *writer) write(ctx context.Context, fn func(*Tx) error, mayUseReserve bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-w.turn }()
	if w.closed {
		return ErrClosed
	}
	if w.reserve != nil {
		w.reserve.refill()
		fn = w.keepReserve(fn)
	}
	err := w.transact(fn)
	if errors.Is(err, errDamaged) {
		_ = w.conn.script("PRAGMA shrink_memory") // don't keep a page that was read wrongly
	}
	if w.reserve != nil && errors.Is(err, ErrFull) && (mayUseReserve || w.hasRoom()) {
		err = w.withReserve(fn)
	}
	return err
}

func (w *writer) transact(fn func(*Tx) error) error {
	if w.memoryLock != nil {
		w.memoryLock.Lock()
		defer w.memoryLock.Unlock()
	}
	if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return classifySQLite(err)
	}
	committed := false
	defer func() { // after an error or a panic
		if !committed {
			_, _ = w.conn.exec("ROLLBACK") // fails if the error has already ended the transaction
		}
	}()
	err := fn(&Tx{Reader{w.conn}, w.conn})
	if err == nil {
		_, err = w.conn.exec("COMMIT")
	}
	committed = err == nil
	return classifySQLite(err)
}

// close waits for the running write.
func (w *writer) close() error {
	if w == nil {
		return nil
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.closed = true
	return w.conn.close()
}
