package sqldb

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	reserveName = "jobrunner.reserve"
	reserveSize = 8 << 20
	reservePart = 1 << 20 // is given up at first: mostly that is enough

	refillPause = 10 * time.Second // between attempts to fill it up
)

// reserve is a file that holds space of the disk back. On a full disk it is
// given up for a moment, so that what frees room can be written to the log.
type reserve struct {
	file     *os.File
	size     int64
	tried    time.Time
	database string // its file
}

// openReserve gives all of it up, until the first fill: a database that is
// opened on a full disk needs some.
func openReserve(dir string) (*reserve, error) {
	f, err := os.OpenFile(filepath.Join(dir, reserveName), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &reserve{file: f, database: filepath.Join(dir, fileName)}, nil
}

// release gives up so many bytes.
func (r *reserve) release(n int64) error {
	r.size = max(0, r.size-n)
	return r.file.Truncate(r.size)
}

var randomBlock = sync.OnceValue(func() []byte {
	block := make([]byte, 64<<10)
	_, _ = rand.Read(block)
	return block
})

// fill holds back what the disk has, up to the size of the reserve. The bytes
// are random: a file system may store others in less space.
func (r *reserve) fill() {
	r.tried = time.Now()
	block := randomBlock()
	for r.size < reserveSize {
		n, err := r.file.WriteAt(block, r.size)
		r.size += int64(n)
		if err != nil { // the disk is full: what there is must do
			return
		}
	}
}

// refill fills what is short, now and then.
func (r *reserve) refill() {
	if r.size < reserveSize && time.Since(r.tried) > refillPause {
		r.fill()
	}
}

// withReserve runs a write that found the disk full, with space that is held
// back for it.
func (w *writer) withReserve(op *write) (err error) {
	// SQLite would bring the log into the database's file after the commit, as
	// far as the space goes: it can't be used for what comes next then.
	if err := w.conn.script("PRAGMA wal_autocheckpoint=0"); err != nil {
		return err
	}
	defer func() {
		w.emptyLog()
		w.reserve.fill()
		err = errors.Join(err, w.conn.script("PRAGMA wal_autocheckpoint=1000"))
	}()
	for _, part := range []int64{reservePart, reserveSize} {
		if err := w.reserve.release(part); err != nil {
			return err
		}
		if err = w.try(&[]*write{op}, (*writer).runEach); err == nil {
			err = op.err
		}
		if !errors.Is(classifySQLite(err), ErrFull) {
			break
		}
	}
	return err
}

// emptyLog brings the log into the database's file where the reserve has room
// for that, after which the log's space is used again. Pages of the file that
// are not used any more need none. Whatever fails here is tried again with the
// next write that needs the reserve.
func (w *writer) emptyLog() {
	w.reserve.fill() // its size is now what there is room for
	for range maxVacuums {
		growth, unused, err := w.growth()
		if err != nil {
			return
		}
		if growth <= w.reserve.size {
			if w.reserve.release(max(0, growth)) == nil {
				_, _ = w.conn.exec("PRAGMA wal_checkpoint(PASSIVE)")
			}
			return
		}
		if unused == 0 || w.conn.script("PRAGMA incremental_vacuum(256)") != nil {
			return
		}
	}
}

const maxVacuums = 1000

// growth is by how much the database's file grows with all that is in the log,
// and how many pages of it are not used.
func (w *writer) growth() (bytes int64, unused int, err error) {
	var pages, size int64
	for query, into := range map[string]any{"PRAGMA page_count": &pages, "PRAGMA page_size": &size, "PRAGMA freelist_count": &unused} {
		rows, err := w.conn.query(query)
		if err := (Row{rows, err}).Scan(into); err != nil {
			return 0, 0, err
		}
	}
	info, err := os.Stat(w.reserve.database)
	if err != nil {
		return 0, 0, err
	}
	return pages*size - info.Size(), unused, nil
}
