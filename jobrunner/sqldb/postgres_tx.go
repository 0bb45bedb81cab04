package sqldb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresTx is a transaction, and the session of its Tx. BEGIN and the statements of Later
// are pipelined with the next statement that needs a result, or with COMMIT, because round
// trips dominate the cost of a job. Statements ignore the caller's context, because
// cancelling one would break the connection.
type postgresTx struct {
	p       *postgres
	conn    *pgx.Conn
	pending []statement // not sent yet
	begun   bool
}

type statement struct {
	text string
	args []any
}

// run runs fn, the hook and the commit. For retry see transact.
func (s *postgresTx) run(fn func(*Tx) error) (retry bool, err error) {
	committed := false
	defer func() {
		if !committed && s.begun { // after an error or a panic
			_, _ = s.conn.Exec(context.Background(), "ROLLBACK")
		}
	}()
	s.queueStatement("BEGIN ISOLATION LEVEL READ COMMITTED")
	tx := &Tx{queries: queries{s}}
	err = fn(tx)
	if err == nil && len(tx.notes) > 0 {
		err = s.p.hook.run(tx, tx.notes)
	}
	if err != nil {
		return isUnavailable(err) || isConflict(err), err
	}
	defer func() {
		if err == nil && tx.afterRun != nil {
			tx.afterRun()
		}
	}()
	if !s.begun && len(s.pending) == 1 { // only BEGIN
		return false, nil
	}
	tag, err := s.send("COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		err = errors.New("the server rolled the transaction back")
	}
	committed = err == nil
	return isConflict(err), err
}

// errOwnTransaction tells the callers of a batch that changed nothing to run each write in
// a transaction of its own.
var errOwnTransaction = errors.New("the write needs a transaction of its own")

// commitTogether runs a batch in one transaction. If the batch changed nothing, each write
// gets errOwnTransaction, so that a write that fails or waits for a lock doesn't affect the
// others. If the reply to the commit is lost, each write gets the commit's error.
func (p *postgres) commitTogether(batch []*write) {
	ran := false
	_, err := p.transact(context.Background(), func(tx *Tx) error {
		ran = false
		if err := tx.conn.later(setLockTimeout); err != nil {
			return err
		}
		tx.batch = new(Batch)
		err := p.behind.runAll(tx.conn, &batch, tx.batch)
		tx.notes, ran = notesOf(batch), err == nil
		return err
	})
	var rejected *pgconn.PgError
	if err != nil && (!ran || pgconn.SafeToRetry(err) || errors.As(err, &rejected) && (rejected.Code == lockNotAvailable || !isUnavailable(err))) {
		err = errOwnTransaction
	}
	for _, op := range batch {
		op.err, op.panic = err, nil
	}
	finish(batch)
}

// setLockTimeout limits how long a batch waits for a row that another transaction changes.
const setLockTimeout = "SET LOCAL lock_timeout = '200ms'"

func (s *postgresTx) queueStatement(text string, args ...any) {
	s.pending = append(s.pending, statement{text, args})
}

// sendBatch sends the pending statements and one more. It reads the results of the pending
// statements, and returns the result of the last one.
func (s *postgresTx) sendBatch(text string, args []any) (pgx.BatchResults, error) {
	batch := new(pgx.Batch)
	for _, one := range s.pending {
		batch.Queue(one.text, one.args...)
	}
	batch.Queue(text, args...)
	pending := len(s.pending)
	s.pending, s.begun = nil, true
	results := s.conn.SendBatch(context.Background(), batch)
	for range pending {
		if _, err := results.Exec(); err != nil {
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
	if e := results.Close(); err == nil {
		err = e
	}
	return tag, err
}

func (s *postgresTx) exec(query string, args ...any) (rows int64, err error) {
	tag, err := s.send(s.p.text(query), storableTexts(args)...)
	return tag.RowsAffected(), err
}

func (s *postgresTx) later(query string, args ...any) error {
	s.queueStatement(s.p.text(query), storableTexts(args)...)
	return nil
}

func (s *postgresTx) insert(query string, args ...any) (k int64, err error) {
	rows, err := s.query(query, args...)
	err = Row{rows, err}.Scan(&k)
	return k, err
}

func (s *postgresTx) query(query string, args ...any) (Rows, error) {
	results, err := s.sendBatch(s.p.text(query), storableTexts(args))
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // returns the same error
		return nil, err
	}
	return batchRows{rows, results}, nil
}

// batchRows are the rows of a batch's last statement.
type batchRows struct {
	pgx.Rows
	results pgx.BatchResults
}

func (r batchRows) Close() error {
	r.Rows.Close()
	return r.results.Close()
}

// script runs one or more statements without arguments.
func (s *postgresTx) script(statements string) error {
	if len(s.pending) > 0 {
		if _, err := s.send("SELECT 1"); err != nil {
			return err
		}
	}
	_, err := s.conn.Exec(context.Background(), forPostgres(statements))
	return err
}

// lock acquires a lock of the current schema, which ends with the transaction. It is
// pipelined with the next statement. That statement sees what earlier holders of the lock
// committed, because each statement has its own snapshot (READ COMMITTED).
func (s *postgresTx) lock(name string) error {
	return s.later("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' gpucloud ' || ?, 0))", name)
}

// checkRoom is a no-op, because PostgreSQL manages its own space.
func (s *postgresTx) checkRoom(int64, Use) error { return nil }
