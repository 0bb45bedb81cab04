package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func HasDatabase(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, FileName))
	return !errors.Is(err, fs.ErrNotExist)
}

// Backup copies a consistent snapshot of a folder's database to another folder, also while a jobrunner uses it.
func Backup(dir, to string) (err error) {
	from := filepath.Join(dir, FileName)
	if info, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return fmt.Errorf("the data folder %s has no database %s: with --engine the state is in PostgreSQL, which has its own backups", dir, FileName)
	} else if err != nil {
		return err
	}
	target := filepath.Join(to, FileName)
	file, err := os.OpenFile(target, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	source, err := openFile(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.close()) }()
	copied, err := openFile(target)
	if err != nil {
		return err
	}
	if err := errors.Join(source.lite.CopyTo(copied.lite), copied.close()); err != nil {
		return fmt.Errorf("copying the database %s to %s: %w", from, to, classifySQLite(err))
	}
	// If a user copies the backup over another database's folder, this empty log replaces the old log there.
	return errors.Join(file.Sync(), os.WriteFile(target+"-wal", nil, 0o600))
}

func openFile(path string) (c *conn, err error) {
	source, err := fileURI(path)
	if err == nil {
		c, err = openConn(source, []string{busyTimeout})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", path, classifySQLite(err))
	}
	return c, nil
}

// maxCheckedSize is the maximum size, in bytes, of a database that is checked whenever it is opened. A slow
// processor takes 0.7 s for that size, which delays the start. The doctor command checks a database of any size.
const maxCheckedSize = 64 << 20

// Check reads the whole database of a data folder and returns the first damage, or why Open
// rejects the file. A jobrunner may use the database meanwhile. Check returns nil if the folder has no database.
func Check(dir string) (err error) {
	if !HasDatabase(dir) {
		return nil
	}
	if _, err := checkFile(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, FileName)
	c, err := openFile(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return c.check(path, "integrity_check")
}

func (c *conn) check(file, pragma string) error {
	var found string
	err := Reader{c}.QueryRow("PRAGMA " + pragma + "(1)").Scan(&found)
	switch classified := classifySQLite(err); {
	case Temporary(classified): // the file can't be read now
		return classified
	case err != nil:
		found = err.Error()
	case found == "ok":
		return nil
	}
	return fmt.Errorf("%w (%s: %s)", errDamaged, file, found)
}
