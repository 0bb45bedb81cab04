package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxCheckedSize is the maximum size, in bytes, of a database that is checked whenever it
// is opened. A slow processor takes 0.7 s for that size, which delays the start. doctor
// checks any size.
const maxCheckedSize = 64 << 20

// Check reads the whole database of a data folder and returns the first damage. A jobrunner
// may use the database meanwhile. Check returns nil if the folder has no database.
func Check(dir string) (err error) {
	path := filepath.Join(dir, fileName)
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	} else if err != nil {
		return err
	}
	l, err := openFile(path)
	if err != nil {
		return err
	}
	c := newConn(l, sqliteDialect)
	defer func() { err = errors.Join(err, c.close()) }()
	return c.check(path, "integrity_check")
}

// check runs a PRAGMA that checks the database.
func (c *conn) check(file, pragma string) error {
	rows, err := c.query("PRAGMA " + pragma + "(1)")
	var found string
	err = Row{rows, err}.Scan(&found)
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
