package sqldb

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

// pragmas returns the pragmas of each connection. auto_vacuum must come first, before the
// file has a page. The caches are small, because SQLite scans the whole cache at some
// commits, and reading from the system's cache or from memory costs less.
func pragmas(c Config) []string {
	common := []string{"auto_vacuum=INCREMENTAL", "temp_store=MEMORY", "trusted_schema=OFF", "foreign_keys=ON"}
	if c.Dir == "" {
		return append(common, "cache_size=-1024", "journal_mode=MEMORY", "synchronous=OFF", fmt.Sprintf("max_page_count=%d", MaxMemory/pageSize))
	}
	synchronous := "synchronous=FULL"
	if c.NoSync {
		synchronous = "synchronous=NORMAL"
	}
	return append(common, "cache_size=-4096", "journal_mode=WAL", synchronous, "journal_size_limit=67108864", "busy_timeout=10000")
}

func openConn(source string, pragmas []string) (*conn, error) {
	l, err := lite.Open(source)
	if err != nil {
		return nil, err
	}
	c := newConn(l)
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
	default:
		select {
		case c = <-p.free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
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

// writer owns the writing connection, and uses it for a group commit.
type writer struct {
	*group
	conn    *conn
	reserve *reserve
}

func startWriter(c *conn, reserve *reserve) *writer {
	w := &writer{conn: c, reserve: reserve}
	w.group = startGroup(w.commit, c.close)
	return w
}

// commit runs a batch in one transaction. If a write fails, the batch runs again with a
// savepoint for each write, so that only the failed write is rolled back. If the whole
// transaction fails, for example because the disk is full, each write runs in its own
// transaction, so that the others can succeed.
func (w *writer) commit(batch []*write) {
	err := w.try(batch, (*writer).runAll)
	if errors.Is(err, errOneFailed) {
		err = w.try(batch, (*writer).runEach)
	}
	if err != nil {
		for _, op := range batch {
			if err := w.try([]*write{op}, (*writer).runEach); err != nil {
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
	finish(batch)
}

// try runs a batch in a transaction. Each write has its own error; an error of try means
// that nothing was committed.
func (w *writer) try(batch []*write, run func(*writer, []*write) error) (err error) {
	if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = w.conn.exec("ROLLBACK") // fails if the error has already ended the transaction
		}
	}()
	if err := run(w, batch); err != nil {
		return err
	}
	_, err = w.conn.exec("COMMIT")
	return err
}

func (w *writer) runAll(batch []*write) error { return runAll(w.conn, batch) }

// runEach runs each write in a savepoint.
func (w *writer) runEach(batch []*write) error {
	for _, op := range batch {
		if err := w.runInSavepoint(op); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) runInSavepoint(op *write) error {
	op.err, op.panic = nil, nil
	if _, err := w.conn.exec("SAVEPOINT op"); err != nil {
		return err
	}
	if op.err = classifySQLite(op.run(w.conn)); op.err != nil || op.panic != nil {
		if _, err := w.conn.exec("ROLLBACK TO op"); err != nil {
			if op.err != nil {
				return op.err // it has ended the whole transaction
			}
			return err
		}
	}
	_, err := w.conn.exec("RELEASE op")
	return err
}
