package lite

import (
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// CopyTo replaces the content of another database with a consistent snapshot of this one.
// Other connections and processes may write meanwhile.
func (c *Conn) CopyTo(other *Conn) error {
	name, err := libc.CString("main")
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	backup := sqlite3.Xsqlite3_backup_init(c.tls, other.db, name, c.db, name)
	if backup == 0 {
		return other.failure(sqlite3.SQLITE_ERROR)
	}
	// One step for all pages: a change between two steps would restart the copy.
	rc := sqlite3.Xsqlite3_backup_step(c.tls, backup, -1)
	if finished := sqlite3.Xsqlite3_backup_finish(c.tls, backup); rc == sqlite3.SQLITE_DONE {
		rc = finished
	}
	if rc != sqlite3.SQLITE_OK {
		return other.failure(rc)
	}
	return nil
}
