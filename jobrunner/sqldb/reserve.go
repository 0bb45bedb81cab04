package sqldb

import (
	"cmp"
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
	reservePart = 1 << 20 // the part that is released first, which is usually enough

	refillPause = 10 * time.Second // between attempts to fill the reserve
)

// reserve is a file that reserves disk space. If the disk is full, the writer releases the
// space for a moment, so that SQLite's log has room for writes that delete data.
type reserve struct {
	file     *os.File
	size     int64
	lastFill time.Time // last attempt to fill it
	database string    // path of the database file
}

// openReserve opens the reserve empty, because opening a database on a full disk needs space.
func openReserve(dir string) (*reserve, error) {
	f, err := os.OpenFile(filepath.Join(dir, reserveName), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &reserve{file: f, database: filepath.Join(dir, FileName)}, nil
}

func (r *reserve) release(n int64) {
	r.size = max(0, r.size-n)
	_ = r.file.Truncate(r.size) // if it fails, the write that needs the space fails, too
}

var randomBlock = sync.OnceValue(func() []byte {
	block := make([]byte, 64<<10)
	_, _ = rand.Read(block)
	return block
})

// fill grows the reserve up to its full size, or until the disk is full. The bytes are
// random, because a file system can't compress them.
func (r *reserve) fill() {
	r.lastFill = time.Now()
	block := randomBlock()
	for r.size < reserveSize {
		n, err := r.file.WriteAt(block, r.size)
		r.size += int64(n)
		if err != nil { // the disk is full
			return
		}
	}
}

// refill fills the reserve, at most once per refillPause.
func (r *reserve) refill() {
	if r.size < reserveSize && time.Since(r.lastFill) > refillPause {
		r.fill()
	}
}

// withReserve repeats a write that found the disk full, with the reserve's space.
func (db *embedded) withReserve(fn func(*Tx) error) (err error) {
	// An automatic checkpoint after the commit would use up the space that later writes need.
	if err := db.conn.script("PRAGMA wal_autocheckpoint=0"); err != nil {
		return err
	}
	defer func() {
		db.emptyLog()
		err = errors.Join(err, db.conn.script("PRAGMA wal_autocheckpoint=1000"))
	}()
	db.emptyLog() // so that the write reuses the log
	for _, part := range []int64{0, reservePart, reserveSize} {
		db.reserve.release(part)
		if err = db.transact(fn); !errors.Is(err, ErrFull) {
			break
		}
	}
	return err
}

// keepReserve returns fn, which fails if it makes the database grow so far that the reserve
// has no space for the next checkpoint: the log could then never be emptied.
func (db *embedded) keepReserve(fn func(*Tx) error) func(*Tx) error {
	return func(tx *Tx) error {
		if db.reserve.size >= reserveSize { // the disk isn't full
			return fn(tx)
		}
		before, _, err := db.growth()
		if err = cmp.Or(err, fn(tx)); err != nil {
			return err
		}
		after, _, err := db.growth()
		if err == nil && after > before && after > db.reserve.size-reservePart {
			err = ErrFull
		}
		return err
	}
}

// emptyLog runs a checkpoint if the reserve has space for the growth of the database file.
// SQLite then reuses the log. Vacuuming unused pages makes the growth smaller, and returns
// space to the reserve. If something fails here, the next write that finds the disk full
// tries again.
func (db *embedded) emptyLog() {
	for range 100 {
		db.reserve.fill() // now the reserve's size is the free space, up to reserveSize
		growth, unused, err := db.growth()
		if err != nil {
			return
		}
		if growth <= db.reserve.size {
			db.reserve.release(max(0, growth))
			_, _ = db.conn.exec("PRAGMA wal_checkpoint(PASSIVE)")
			db.reserve.fill()
		}
		if unused == 0 || db.reserve.size >= reserveSize || db.conn.script("PRAGMA incremental_vacuum(256)") != nil {
			return
		}
	}
}

// hasRoom reports whether the unused pages of the database have at least the size of reservePart.
func (db *embedded) hasRoom() bool {
	_, unused, err := db.growth()
	return err == nil && unused*pageSize >= reservePart
}

// growth returns by how much a checkpoint would grow the database file, and the number of unused pages.
func (db *embedded) growth() (bytes int64, unused int, err error) {
	var pages int64
	for query, into := range map[string]any{"PRAGMA page_count": &pages, "PRAGMA freelist_count": &unused} {
		if err := (Reader{db.conn}).QueryRow(query).Scan(into); err != nil {
			return 0, 0, err
		}
	}
	info, err := os.Stat(db.reserve.database)
	if err != nil {
		return 0, 0, err
	}
	return pages*pageSize - info.Size(), unused, nil
}
