package sqldb

import (
	"database/sql"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

// conn is a connection to SQLite with its prepared statements. It isn't safe for concurrent use.
type conn struct {
	lite     *lite.Conn
	prepared map[string]*lite.Stmt
	multiRow map[string]string // maps an INSERT … VALUES to the same statement with rowsAtOnce rows
}

// prepare prepares a query once per connection. The program has few queries, which are constants.
func (c *conn) prepare(query string) (*lite.Stmt, error) {
	s, ok := c.prepared[query]
	if ok {
		return s, nil
	}
	s, err := c.lite.Prepare(forSQLite(query))
	if err == nil {
		c.prepared[query] = s
	}
	return s, err
}

func (c *conn) statement(query string, args []any) (*lite.Stmt, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	if err := convertArguments(args); err != nil {
		return nil, err
	}
	if err := s.Bind(args); err != nil {
		s.Reset()
		return nil, err
	}
	return s, nil
}

// exec runs a statement and returns the number of rows that it changed.
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

func (c *conn) pipeline(query string, args ...any) error {
	_, err := c.exec(query, args...)
	return err
}

// rowsAtOnce is the number of small rows that one INSERT stores. More would hardly be faster.
const rowsAtOnce = 8

func (c *conn) pipelineEach(query string, rows [][]any) error {
	for len(rows) >= rowsAtOnce && strings.HasPrefix(query, "INSERT") {
		arguments := slices.Concat(rows[:rowsAtOnce]...)
		if slices.ContainsFunc(arguments, isLarge) {
			break
		}
		text, ok := c.multiRow[query]
		if !ok {
			text = withRows(forSQLite(query), rowsAtOnce)
			c.multiRow[query] = text
		}
		if err := c.pipeline(text, arguments...); err != nil {
			return err
		}
		rows = rows[rowsAtOnce:]
	}
	for _, args := range rows {
		if err := c.pipeline(query, args...); err != nil {
			return err
		}
	}
	return nil
}

// isLarge reports whether an argument is so large that rows with it are stored one by one.
func isLarge(arg any) bool {
	blob, _ := arg.([]byte)
	return len(blob) > 64<<10
}

// withRows repeats the row of an INSERT … VALUES.
func withRows(query string, n int) string {
	const values = "VALUES "
	start := strings.Index(query, values) + len(values)
	end := start + closingBracket(query[start:]) + 1
	return query[:end] + strings.Repeat(", "+query[start:end], n-1) + query[end:]
}

func (c *conn) query(row func(Row) error, query string, args ...any) error {
	s, err := c.statement(query, args)
	if err != nil {
		return err
	}
	defer s.Reset()
	for {
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
		if err := row(liteRow{s}); err != nil {
			return err
		}
	}
}

// script runs one or more statements without arguments.
func (c *conn) script(statements string) error {
	return c.lite.Script(forSQLite(statements))
}

// lock is a no-op, because SQLite has one writer.
func (c *conn) lock(string) error { return nil }

func (c *conn) close() error {
	if c == nil {
		return nil
	}
	for _, s := range c.prepared {
		s.Close()
	}
	return c.lite.Close()
}

// querier is the reading part of a session.
type querier interface {
	query(row func(Row) error, query string, args ...any) error
}

// session is a connection or transaction of SQLite or PostgreSQL.
type session interface {
	querier
	exec(query string, args ...any) (rows int64, err error)
	pipeline(query string, args ...any) error
	pipelineEach(query string, rows [][]any) error
	script(statements string) error
	lock(name string) error // see Tx.Lock
}

type Querier interface {
	Each(row func(Row) error, query string, args ...any) error
	QueryRow(query string, args ...any) Row
}

// Reader runs the statements of a DB.Read, or the reading statements of a DB.Write.
type Reader struct{ conn querier }

// Each runs a statement, and calls row for each of its rows. The function row must not run a
// statement. The arguments replace the question marks.
func (r Reader) Each(row func(Row) error, query string, args ...any) error {
	return r.conn.query(row, query, args...)
}

// QueryRow returns the only row of a statement. The statement runs when the caller calls Scan. If it
// returns no row, Scan returns sql.ErrNoRows.
func (r Reader) QueryRow(query string, args ...any) Row {
	return onlyRow(func(dest ...any) error {
		found := false
		err := r.Each(func(row Row) error {
			found = true
			return row.Scan(dest...)
		}, query, args...)
		if err == nil && !found {
			return sql.ErrNoRows
		}
		return err
	})
}

// onlyRow is the result of QueryRow.
type onlyRow func(dest ...any) error

func (scan onlyRow) Scan(dest ...any) error { return scan(dest...) }

// Tx is the transaction of a DB.Write.
type Tx struct {
	Reader
	session session
}

// Exec runs a statement and returns the number of rows that it changed.
func (tx *Tx) Exec(query string, args ...any) (rows int64, err error) {
	return tx.session.exec(query, args...)
}

// Pipeline runs a statement whose result the transaction doesn't need. On PostgreSQL it is
// pipelined with the next statement or the commit, which returns the error if it fails.
func (tx *Tx) Pipeline(query string, args ...any) error { return tx.session.pipeline(query, args...) }

// PipelineEach is Pipeline for each of several argument lists of the same types, which must
// change different rows. On PostgreSQL one statement takes all lists as a table, so the
// query must be an INSERT … VALUES or have a WHERE. On SQLite several rows share an INSERT.
func (tx *Tx) PipelineEach(query string, rows [][]any) error {
	return tx.session.pipelineEach(query, rows)
}

// Require fails the transaction with errNoRow if a query returns no row. The query is pipelined
// as in Pipeline. Only on PostgreSQL.
func (tx *Tx) Require(query string, errNoRow error, args ...any) error {
	tx.session.(*postgresTx).requireErr = errNoRow
	return tx.Pipeline("WITH required AS ("+query+") SELECT 1 / COUNT(*) FROM required", args...) // fails with divisionByZero
}
