package sqldb

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresTx is a transaction, and the session of its Tx. BEGIN and the statements of Pipeline
// are pipelined with the next statement that needs a result, or with COMMIT, because round
// trips dominate the cost of a job. Statements ignore the caller's context, because
// cancelling one would break the connection.
type postgresTx struct {
	db         *postgres
	conn       *pgx.Conn
	pending    pgx.Batch // statements that aren't sent yet
	begun      bool      // BEGIN was sent
	refused    bool      // the server answered a pending statement with an error, so it ran no later one
	requireErr error     // of Tx.Require, or nil
}

// run runs fn and the commit. It reports retry as transact does.
func (s *postgresTx) run(fn func(*Tx) error) (retry bool, err error) {
	committed := false
	defer func() {
		if !committed && s.begun { // after an error or a panic
			_, _ = s.conn.Exec(context.Background(), "ROLLBACK")
		}
	}()
	s.pending.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	tx := &Tx{Reader{s}, s}
	if err = fn(tx); err != nil {
		return isUnavailable(err) || isConflict(err), s.requireError(err)
	}
	tag, err := s.send("COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		err = errors.New("the server rolled the transaction back")
	}
	committed = err == nil
	return isConflict(err) || s.refused && isUnavailable(err), s.requireError(err)
}

// requireError returns the error of Tx.Require if its query has caused err.
func (s *postgresTx) requireError(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == divisionByZero && s.requireErr != nil {
		return s.requireErr
	}
	return err
}

// sendBatch sends the pending statements and the given statement. It reads the results of the
// pending statements, and returns the result of the given one.
func (s *postgresTx) sendBatch(text string, args []any) (pgx.BatchResults, error) {
	batch, pending := s.pending, s.pending.Len()
	batch.Queue(text, args...)
	s.pending, s.begun = pgx.Batch{}, true
	results := s.conn.SendBatch(context.Background(), &batch)
	for range pending {
		if _, err := results.Exec(); err != nil {
			_, s.refused = errors.AsType[*pgconn.PgError](err)
			_ = results.Close() // returns the same error
			return nil, err
		}
	}
	return results, nil
}

func (s *postgresTx) send(text string, args ...any) (pgconn.CommandTag, error) {
	results, err := s.sendBatch(text, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, cmp.Or(err, results.Close())
}

func (s *postgresTx) exec(query string, args ...any) (rows int64, err error) {
	tag, err := s.send(s.db.translate(query), storableTexts(args)...)
	return tag.RowsAffected(), err
}

func (s *postgresTx) pipeline(query string, args ...any) error {
	s.pending.Queue(s.db.translate(query), storableTexts(args)...)
	return nil
}

func (s *postgresTx) query(row func(Row) error, query string, args ...any) error {
	results, err := s.sendBatch(s.db.translate(query), storableTexts(args))
	if err != nil {
		return err
	}
	rows, err := results.Query()
	for err == nil && rows.Next() {
		err = row(rows)
	}
	rows.Close()
	return cmp.Or(err, rows.Err(), results.Close())
}

// script runs one or more statements without arguments. A statement with a result must precede it,
// because script doesn't send the pending statements.
func (s *postgresTx) script(statements string) error {
	_, err := s.conn.Exec(context.Background(), forPostgres(statements))
	return err
}

// lock acquires a lock of the current schema, which ends with the transaction. It is
// pipelined with the next statement. That statement sees what earlier holders of the lock
// committed, because each statement has its own snapshot (READ COMMITTED).
func (s *postgresTx) lock(name string) error {
	return s.pipeline("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' gpucloud ' || ?, 0))", name)
}
