package lite

import (
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// CopyTo makes another database, whose content is lost, a copy of this one: as it is at
// one moment, whatever other connections and processes write meanwhile.
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
	// In one step: between two of them a change would begin it anew.
	rc := sqlite3.Xsqlite3_backup_step(c.tls, backup, -1)
	if finished := sqlite3.Xsqlite3_backup_finish(c.tls, backup); rc == sqlite3.SQLITE_DONE {
		rc = finished
	}
	if rc != sqlite3.SQLITE_OK {
		return other.failure(rc)
	}
	return nil
}
