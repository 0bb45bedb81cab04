package sqldb

import (
	"database/sql"
	"errors"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

// conn is one connection to SQLite with its prepared statements. One goroutine
// uses it at a time.
type conn struct {
	lite     *lite.Conn
	dialect  dialect
	prepared map[string]*lite.Stmt
	memory   int64 // bound of a database in memory, in bytes; 0: it is elsewhere
	used     int64 // of that, about: see Room
}

// maxPrepared bounds the statements kept; the program's own are far fewer.
const maxPrepared = 500

func newConn(c *lite.Conn, d dialect) *conn {
	return &conn{lite: c, dialect: d, prepared: map[string]*lite.Stmt{}}
}

// prepare prepares the query, once per connection.
func (c *conn) prepare(query string) (*lite.Stmt, error) {
	s, ok := c.prepared[query]
	if ok {
		return s, nil
	}
	if len(c.prepared) >= maxPrepared {
		c.forget()
	}
	s, err := c.lite.Prepare(c.dialect.rewrite(query))
	if err == nil {
		c.prepared[query] = s
	}
	return s, err
}

// statement prepares the query, and gives it its arguments.
func (c *conn) statement(query string, args []any) (*lite.Stmt, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	if err := arguments(args); err != nil {
		return nil, err
	}
	if err := s.Bind(args); err != nil {
		s.Reset()
		return nil, err
	}
	return s, nil
}

// exec runs a statement and says how many rows it changed.
func (c *conn) exec(query string, args ...any) (rows int64, err error) {
	s, err := c.statement(query, args)
	if err != nil {
		return 0, err
	}
	defer s.Reset()
	for more := true; more; {
		if more, err = s.Step(); err != nil {
			return 0, err
		}
	}
	return c.lite.Changes(), nil
}

// insert runs a statement that ends in {returning k}, and returns the new row's
// key.
func (c *conn) insert(query string, args ...any) (k int64, err error) {
	if _, err := c.exec(query, args...); err != nil {
		return 0, err
	}
	return c.lite.LastInsertID(), nil // cheaper than the rows of a RETURNING
}

func (c *conn) later(query string, args ...any) error {
	_, err := c.exec(query, args...)
	return err
}

func (c *conn) query(query string, args ...any) (Rows, error) {
	s, err := c.statement(query, args)
	if err != nil {
		return nil, err
	}
	rows := &liteRows{stmt: s}
	rows.first, err = s.Step() // by which a statement that changes something does so
	if err != nil {
		s.Reset()
		return nil, err
	}
	rows.begun = true
	return rows, nil
}

// script runs one or several statements without arguments, once.
func (c *conn) script(statements string) error {
	return c.lite.Script(c.dialect.rewrite(statements))
}

// alone has nothing to wait for: one goroutine writes.
func (c *conn) alone(string) error { return nil }

// forget drops every prepared statement.
func (c *conn) forget() {
	for query, s := range c.prepared {
		s.Close()
		delete(c.prepared, query)
	}
}

func (c *conn) close() error {
	c.forget()
	return c.lite.Close()
}

// session is a connection, or a transaction on one, of either kind of database.
type session interface {
	exec(query string, args ...any) (rows int64, err error)
	insert(query string, args ...any) (k int64, err error)
	later(query string, args ...any) error
	query(query string, args ...any) (Rows, error)
	script(statements string) error
	alone(name string) error         // see Tx.Alone
	room(bytes int64, use Use) error // see Tx.Room
}

// Querier is a Tx, or a Reader.
type Querier interface {
	Query(query string, args ...any) (Rows, error)
	QueryRow(query string, args ...any) Row
}

// queries is what a Tx and a Reader have in common.
type queries struct{ conn session }

// Query runs a statement that answers rows; the caller closes them before the
// next statement. Arguments stand for the ? of the statement.
func (q queries) Query(query string, args ...any) (Rows, error) {
	return q.conn.query(query, args...)
}

// QueryRow runs a statement that answers one row at most. Its Scan answers
// sql.ErrNoRows where there is none.
func (q queries) QueryRow(query string, args ...any) Row {
	rows, err := q.conn.query(query, args...)
	return Row{rows, err}
}

// Row is the answer of QueryRow. It must be scanned.
type Row struct {
	rows Rows
	err  error
}

// Scan copies the row's columns and closes it.
func (r Row) Scan(dest ...any) (err error) {
	if r.err != nil {
		return r.err
	}
	defer func() { err = errors.Join(err, r.rows.Close()) }()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	return r.rows.Scan(dest...)
}

// Reader reads; see DB.Read.
type Reader struct{ queries }

// Tx is a transaction; see DB.Write.
type Tx struct {
	queries
	notes []any
	ahead func()
	batch *Batch
}

// Batch is what writes have in common that are committed together, or written behind
// together.
type Batch struct {
	// Value passes what callers put off to the hook of DB.BeforeCommit. It is nil at first,
	// and dropped if the batch is undone. If the transaction fails, the hook is called again
	// with the same Value: the hook may replace it, and must not change it.
	Value any
	// Due says that enough has been put off to be written now.
	Due bool
	// Rest lets the hook keep Value for the next batch, because more is expected soon.
	Rest bool
}

// Batch returns the batch of the transaction. It is nil if the write shares its transaction
// with no other, or may have to be undone alone.
func (tx *Tx) Batch() *Batch { return tx.batch }

// Note leaves word for the hook of DB.BeforeCommit.
func (tx *Tx) Note(v any) { tx.notes = append(tx.notes, v) }

// Ahead calls fn when the write has run without an error. If one writer commits the changes
// of many callers together, that is before the commit, so that a write that fn causes
// can be part of it; otherwise it is after the commit. Another goroutine calls fn, once for
// all runs of the write, or on PostgreSQL once for each. Write may return an error
// nevertheless. fn must be quick.
func (tx *Tx) Ahead(fn func()) { tx.ahead = fn }

// Insert runs a statement that inserts a row into a table with a {key} k and ends
// in {returning k}, and returns the key.
func (tx *Tx) Insert(query string, args ...any) (k int64, err error) {
	return tx.conn.insert(query, args...)
}

// Exec runs a statement and says how many rows it changed.
func (tx *Tx) Exec(query string, args ...any) (rows int64, err error) {
	return tx.conn.exec(query, args...)
}

// Later runs a statement whose outcome nothing in the transaction depends on. A
// server is sent it together with the next statement, or with the commit, which
// fail where it does.
func (tx *Tx) Later(query string, args ...any) error { return tx.conn.later(query, args...) }

// LaterEach is Later for each of several rows of arguments, which have the same types. No
// two may change the same row. A server is sent one statement for all: an INSERT … VALUES
// or an UPDATE … WHERE.
func (tx *Tx) LaterEach(query string, rows [][]any) error {
	if s, ok := tx.conn.(*postgresTx); ok {
		return s.laterEach(query, rows)
	}
	for _, args := range rows {
		if err := tx.Later(query, args...); err != nil {
			return err
		}
	}
	return nil
}
