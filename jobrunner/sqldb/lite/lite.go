// Package lite is a thin binding of SQLite. It doesn't use database/sql, whose overhead is
// higher than the cost of a statement on a small row. The SQLite library is pure Go.
//
// A Conn and its statements aren't safe for concurrent use.
package lite

import (
	"errors"
	"fmt"
	"math"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

type Error struct {
	Code    int // extended result code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("SQLite: %s (%d)", e.Message, e.Code) }

// Primary returns the primary result code, such as SQLITE_FULL.
func (e *Error) Primary() int { return e.Code & 0xff }

type Conn struct {
	tls *libc.TLS
	db  uintptr
	// out is memory for the address that a call of SQLite returns.
	out uintptr
	// args has the texts and blobs of the current statement, which SQLite doesn't copy.
	args buffer
}

func Open(uri string) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS()}
	c.out = libc.Xmalloc(c.tls, 8)
	name, err := libc.CString(uri)
	if err != nil || c.out == 0 {
		c.tls.Close()
		return nil, &Error{sqlite3.SQLITE_NOMEM, "out of memory"}
	}
	defer libc.Xfree(c.tls, name)
	// A Conn isn't used concurrently, so SQLite needs no mutex.
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_URI | sqlite3.SQLITE_OPEN_NOMUTEX
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.out, flags, 0)
	c.db = *pointerTo[uintptr](c.out)
	if rc != sqlite3.SQLITE_OK {
		err := c.failure(rc)
		return nil, errors.Join(err, c.Close())
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	return c, nil
}

// Close closes the connection. The caller must have closed its statements.
func (c *Conn) Close() (err error) {
	if rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db); rc != sqlite3.SQLITE_OK {
		err = c.failure(rc)
	}
	c.args.free(c.tls)
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
	return err
}

func (c *Conn) failure(rc int32) error {
	message := "out of memory"
	if c.db != 0 {
		if code := sqlite3.Xsqlite3_extended_errcode(c.tls, c.db); code&0xff == rc&0xff {
			rc = code
		}
		message = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
	}
	return &Error{int(rc), message}
}

// Changes returns the number of rows that the last statement changed.
func (c *Conn) Changes() int64 { return sqlite3.Xsqlite3_changes64(c.tls, c.db) }

// Script runs one or more statements without arguments.
func (c *Conn) Script(text string) error {
	sql, err := libc.CString(text)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, sql)
	if rc := sqlite3.Xsqlite3_exec(c.tls, c.db, sql, 0, 0, 0); rc != sqlite3.SQLITE_OK {
		return c.failure(rc)
	}
	return nil
}

type Stmt struct {
	conn    *Conn
	stmt    uintptr
	columns int
	params  int
}

// Prepare prepares the first statement of a text.
func (c *Conn) Prepare(text string) (*Stmt, error) {
	sql, err := libc.CString(text)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, sql)
	if rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, sql, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, c.out, 0); rc != sqlite3.SQLITE_OK {
		return nil, c.failure(rc)
	}
	stmt := *pointerTo[uintptr](c.out)
	return &Stmt{c, stmt, int(sqlite3.Xsqlite3_column_count(c.tls, stmt)), int(sqlite3.Xsqlite3_bind_parameter_count(c.tls, stmt))}, nil
}

func (s *Stmt) Close() { sqlite3.Xsqlite3_finalize(s.conn.tls, s.stmt) }

// Columns returns the number of columns of the result, or 0 if the statement returns no rows.
func (s *Stmt) Columns() int { return s.columns }

// Step runs the statement to its next row, or returns false at the end. The caller must then call Reset, also after an error.
func (s *Stmt) Step() (row bool, err error) {
	switch rc := sqlite3.Xsqlite3_step(s.conn.tls, s.stmt); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		return false, nil
	default:
		return false, s.conn.failure(rc)
	}
}

// Reset ends a run of the statement.
func (s *Stmt) Reset() {
	sqlite3.Xsqlite3_reset(s.conn.tls, s.stmt) // returns the error of the last Step again
	sqlite3.Xsqlite3_clear_bindings(s.conn.tls, s.stmt)
	if s.conn.args.size > maxBuffer { // after a large value
		s.conn.args.free(s.conn.tls)
	}
}

// Bind binds the arguments until Reset: nil, int, int64, bool, float64, string or []byte.
func (s *Stmt) Bind(args []any) error {
	if len(args) != s.params {
		return fmt.Errorf("a statement with %d arguments got %d", s.params, len(args))
	}
	size := 0
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	space, err := s.conn.args.grow(s.conn.tls, size)
	if err != nil {
		return err
	}
	for i, arg := range args {
		if space, err = s.bind(int32(i+1), arg, space); err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return nil
}

// bind binds one argument. It copies a text or blob to space, and returns the rest of space.
func (s *Stmt) bind(i int32, arg any, space uintptr) (uintptr, error) {
	tls, rc := s.conn.tls, int32(0)
	switch v := arg.(type) {
	case nil:
		rc = sqlite3.Xsqlite3_bind_null(tls, s.stmt, i)
	case int64:
		rc = sqlite3.Xsqlite3_bind_int64(tls, s.stmt, i, v)
	case int:
		rc = sqlite3.Xsqlite3_bind_int64(tls, s.stmt, i, int64(v))
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		rc = sqlite3.Xsqlite3_bind_int64(tls, s.stmt, i, n)
	case float64:
		rc = sqlite3.Xsqlite3_bind_double(tls, s.stmt, i, v)
	case string:
		copy(bytesAt(space, len(v)), v)
		rc = sqlite3.Xsqlite3_bind_text(tls, s.stmt, i, space, int32(len(v)), sqlite3.SQLITE_STATIC)
		space += uintptr(len(v))
	case []byte:
		if v == nil {
			rc = sqlite3.Xsqlite3_bind_null(tls, s.stmt, i)
			break
		}
		if len(v) > math.MaxInt32 {
			return space, &Error{sqlite3.SQLITE_TOOBIG, "the value is too large"}
		}
		copy(bytesAt(space, len(v)), v)
		rc = sqlite3.Xsqlite3_bind_blob(tls, s.stmt, i, space, int32(len(v)), sqlite3.SQLITE_STATIC)
		space += uintptr(len(v))
	default:
		return space, fmt.Errorf("invalid type %T", arg)
	}
	if rc != sqlite3.SQLITE_OK {
		return space, s.conn.failure(rc)
	}
	return space, nil
}

func (s *Stmt) IsNull(col int) bool {
	return sqlite3.Xsqlite3_column_type(s.conn.tls, s.stmt, int32(col)) == sqlite3.SQLITE_NULL
}

func (s *Stmt) Int64(col int) int64 {
	return sqlite3.Xsqlite3_column_int64(s.conn.tls, s.stmt, int32(col))
}

func (s *Stmt) Text(col int) string {
	text := sqlite3.Xsqlite3_column_text(s.conn.tls, s.stmt, int32(col))
	n := sqlite3.Xsqlite3_column_bytes(s.conn.tls, s.stmt, int32(col))
	return string(bytesAt(text, int(n)))
}

// Bytes returns a copy of a column of the row, or nil for NULL.
func (s *Stmt) Bytes(col int) []byte {
	if s.IsNull(col) {
		return nil
	}
	blob := sqlite3.Xsqlite3_column_blob(s.conn.tls, s.stmt, int32(col))
	n := sqlite3.Xsqlite3_column_bytes(s.conn.tls, s.stmt, int32(col))
	return append([]byte{}, bytesAt(blob, int(n))...)
}

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
