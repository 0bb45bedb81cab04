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

// embedded is SQLite in a folder or in memory, with one writer and a pool of readers.
type embedded struct {
	writer     *writer
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
	db, source := new(embedded), ""
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

func (db *embedded) connect(source string, pragmas []string) error {
	w, err := openConn(source, pragmas)
	if err != nil {
		return err
	}
	if db.openedFile, err = os.Stat(db.file); err == nil && db.openedFile.Size() <= maxCheckedSize {
		if err := w.check(db.file, "quick_check"); err != nil {
			return errors.Join(err, w.close())
		}
	}
	db.writer = &writer{conn: w, turn: make(chan struct{}, 1), reserve: db.reserve}
	if db.file == "" {
		db.writer.memoryLock = &db.mu
	}
	db.readers, err = openReaders(source, pragmas)
	return err
}

func (db *embedded) write(ctx context.Context, fn func(*Tx) error, mayUseReserve bool) error {
	return db.classify(cmp.Or(db.writer.write(ctx, fn, mayUseReserve), db.checkMoved()))
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

func (db *embedded) close() error {
	errs := []error{db.writer.close(), db.readers.close()}
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
