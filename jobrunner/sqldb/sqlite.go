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
