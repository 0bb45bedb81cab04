package sqldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// embedded is SQLite in a folder or in memory, with one writing connection and a pool of readers.
type embedded struct {
	conn       *conn         // for writes
	turn       chan struct{} // has a buffer of one, which the running write fills
	closed     bool          // guarded by turn
	readers    *readerPool
	reserve    *reserve    // nil for a database in memory
	file       string      // "" for a database in memory
	memory     int64       // limit of the state in memory, in bytes; 0 for a database in a folder
	openedFile fs.FileInfo // the file that was opened
	// mu separates readers and the writer of a database in memory. In a folder, the write-ahead log does.
	mu sync.RWMutex
}

// memoryDatabases counts the databases in memory that this process has opened.
var memoryDatabases atomic.Int64

func openEmbedded(c Config) (_ *embedded, err error) {
	db, source := &embedded{turn: make(chan struct{}, 1)}, ""
	if c.Dir == "" {
		c.Memory = cmp.Or(c.Memory, MaxMemory)
		db.memory, source = c.Memory, fmt.Sprintf("file:/gpucloud-%d?vfs=memdb", memoryDatabases.Add(1))
	} else if source, err = db.prepareFolder(c.Dir); err != nil {
		return nil, errors.Join(err, db.close())
	}
	if err := db.connect(source, pragmas(c)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.name(), classifySQLite(err)), db.close())
	}
	if c.Dir == "" {
		return db, nil
	}
	// Opening the database needs space and may free a killed process's log, so the reserve is filled afterwards.
	db.reserve.fill()
	// The database has content now. RemoveAll accepts that the marker doesn't exist.
	if err := os.RemoveAll(filepath.Join(filepath.Dir(db.file), creationMarker)); err != nil {
		return nil, errors.Join(fmt.Errorf("making the database %s: %w", c.name(), err), db.close())
	}
	return db, nil
}

// prepareFolder creates the database file if it doesn't exist, and returns its URI. Only the owner can read
// the file and its log, to which SQLite gives the same mode.
func (db *embedded) prepareFolder(dir string) (source string, err error) {
	if db.reserve, err = openReserve(dir); err != nil {
		return "", fmt.Errorf("opening the file that reserves disk space: %w", err)
	}
	if db.file, err = makeFile(dir); err != nil {
		return "", err
	}
	return fileURI(db.file)
}

func fileURI(path string) (string, error) {
	path, err := filepath.Abs(path)
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/…
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), err
}

func (db *embedded) connect(source string, pragmas []string) (err error) {
	if db.conn, err = openConn(source, pragmas); err != nil {
		return err
	}
	if db.openedFile, err = os.Stat(db.file); err == nil && db.openedFile.Size() <= maxCheckedSize {
		if err := db.conn.check(db.file, "quick_check"); err != nil {
			return err
		}
	}
	db.readers, err = openReaders(source, pragmas)
	return err
}

func (db *embedded) write(ctx context.Context, fn func(*Tx) error, mayUseReserve bool) error {
	return db.classify(cmp.Or(db.writeInTurn(ctx, fn, mayUseReserve), db.checkMoved()))
}

// writeInTurn waits for the running write, and then writes.
func (db *embedded) writeInTurn(ctx context.Context, fn func(*Tx) error, mayUseReserve bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case db.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-db.turn }()
	if db.closed {
		return ErrClosed
	}
	if db.reserve != nil {
		db.reserve.refill()
		fn = db.keepReserve(fn)
	}
	err := db.transact(fn)
	if errors.Is(err, errDamaged) {
		_ = db.conn.script("PRAGMA shrink_memory") // don't keep a page that was read wrongly
	}
	if db.reserve != nil && errors.Is(err, ErrFull) && (mayUseReserve || db.hasRoom()) {
		err = db.withReserve(fn)
	}
	return err
}

func (db *embedded) transact(fn func(*Tx) error) error {
	if db.file == "" { // exclude the readers
		db.mu.Lock()
		defer db.mu.Unlock()
	}
	if _, err := db.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return classifySQLite(err)
	}
	committed := false
	defer func() { // after an error or a panic
		if !committed {
			_, _ = db.conn.exec("ROLLBACK") // fails if the error has already ended the transaction
		}
	}()
	err := fn(&Tx{Reader{db.conn}, db.conn})
	if err == nil {
		_, err = db.conn.exec("COMMIT")
	}
	committed = err == nil
	return classifySQLite(err)
}

// checkMoved returns an error if the open file isn't at its path: the next process wouldn't find the commits.
func (db *embedded) checkMoved() error {
	if current, err := os.Stat(db.file); db.file == "" || err == nil && os.SameFile(current, db.openedFile) {
		return nil
	}
	return fileError{fmt.Errorf("the database's file %s was removed or replaced while it is open: move it back, or stop the jobrunner and restore a backup of the data folder", db.file)}
}

func (db *embedded) read(ctx context.Context, fn func(*Reader) error) error {
	c, err := db.readers.get(ctx)
	if err != nil {
		return err
	}
	defer db.readers.put(c)
	if db.file == "" {
		db.mu.RLock()
		defer db.mu.RUnlock()
	}
	return db.classify(fn(&Reader{c}))
}

func (db *embedded) classify(err error) error {
	if err = classifySQLite(err); errors.Is(err, ErrFull) && db.file == "" {
		return &MemoryFullError{db.memory}
	}
	return err
}

func (db *embedded) beginMigration() (done func()) { return func() {} }
func (db *embedded) shared() bool                  { return false }
func (db *embedded) notify(string)                 {}
func (db *embedded) listen(func(string))           {}

// close waits for the calls in progress.
func (db *embedded) close() error {
	db.turn <- struct{}{}
	defer func() { <-db.turn }()
	db.closed = true
	errs := []error{db.conn.close(), db.readers.close()}
	if db.reserve != nil {
		errs = append(errs, db.reserve.file.Close())
	}
	return errors.Join(errs...)
}

// creationMarker is a file that exists until a new database has content. An empty database beside it is from an interrupted start.
const creationMarker = FileName + ".new"

// makeFile creates the database file if it is missing.
func makeFile(dir string) (path string, err error) {
	path = filepath.Join(dir, FileName)
	if exists, err := checkFile(dir); exists || err != nil {
		return path, err
	}
	for _, name := range []string{filepath.Join(dir, creationMarker), path} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return "", fmt.Errorf("making the database: %w", err)
		}
	}
	return path, nil
}

// checkFile rejects a folder or database file that other users can write, and a file that has lost its content.
func checkFile(dir string) (exists bool, err error) {
	if err := onlyOwnerWrites(dir); err != nil {
		return false, err
	}
	path := filepath.Join(dir, FileName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("opening the database: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, creationMarker)); err != nil && info.Size() == 0 {
		return true, fmt.Errorf("the database %s is empty, but it had tables before: restore it from a backup, or remove the file to begin with none of its jobs and objects", path)
	}
	return true, onlyOwnerWrites(path)
}
