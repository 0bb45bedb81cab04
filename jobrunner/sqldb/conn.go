package sqldb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/fault"
)

// conn is one connection with its prepared statements. One goroutine uses it
// at a time. Statements run to their end whatever the caller's context: they
// are short, and watching a context costs more than most of them.
type conn struct {
	db       *sql.Conn
	dialect  dialect
	prepared map[string]*sql.Stmt
}

// maxPrepared bounds the statements kept; the program's own are far fewer.
const maxPrepared = 500

func newConn(db *sql.Conn, d dialect) *conn {
	return &conn{db: db, dialect: d, prepared: map[string]*sql.Stmt{}}
}

// statement prepares the query once per connection.
func (c *conn) statement(query string) (*sql.Stmt, error) {
	if s, ok := c.prepared[query]; ok {
		return s, nil
	}
	if len(c.prepared) >= maxPrepared {
		if err := c.forget(); err != nil {
			return nil, err
		}
	}
	s, err := c.db.PrepareContext(context.Background(), c.dialect.rewrite(fault.SQL(query)))
	if err != nil {
		return nil, err
	}
	c.prepared[query] = s
	return s, nil
}

// exec runs a statement and says how many rows it changed.
func (c *conn) exec(query string, args ...any) (rows int64, err error) {
	s, err := c.statement(query)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c *conn) query(query string, args ...any) (*sql.Rows, error) {
	s, err := c.statement(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.Background(), args...)
}

// script runs one or several statements without arguments, once.
func (c *conn) script(statements string) error {
	_, err := c.db.ExecContext(context.Background(), c.dialect.rewrite(fault.SQL(statements)))
	return err
}

// forget drops every prepared statement.
func (c *conn) forget() error {
	var errs []error
	for query, s := range c.prepared {
		errs = append(errs, s.Close())
		delete(c.prepared, query)
	}
	return errors.Join(errs...)
}

func (c *conn) close() error {
	return errors.Join(c.forget(), c.db.Close())
}

// session is a connection, or a transaction on one, of either kind of database.
type session interface {
	exec(query string, args ...any) (rows int64, err error)
	query(query string, args ...any) (*sql.Rows, error)
	script(statements string) error
}

// queries is what a Tx and a Reader have in common.
type queries struct{ conn session }

// Query runs a statement that answers rows; the caller closes them before the
// next statement. Arguments stand for the ? of the statement.
func (q queries) Query(query string, args ...any) (*sql.Rows, error) {
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
	rows *sql.Rows
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
type Tx struct{ queries }

// Exec runs a statement and says how many rows it changed.
func (tx *Tx) Exec(query string, args ...any) (rows int64, err error) {
	return tx.conn.exec(query, args...)
}
