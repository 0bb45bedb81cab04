package sqldb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresTx is a transaction, and the session of its Tx. Its beginning, and what
// Later puts off, goes to the server in one flight with the next statement that
// somebody waits for, the last of which is the commit: of what a job costs, most
// are the ways there and back. Statements run to their end whatever the caller's
// context: giving one up costs the connection.
type postgresTx struct {
	p       *postgres
	conn    *pgx.Conn
	pending []statement // put off
	begun   bool
}

type statement struct {
	text string
	args []any
}

// run runs fn, the hook and the commit. again is as of transact.
func (s *postgresTx) run(fn func(*Tx) error) (again bool, err error) {
	over := false
	defer func() {
		if !over && s.begun { // after a failure, or a panic on its way to the caller
			_, _ = s.conn.Exec(context.Background(), "ROLLBACK")
		}
	}()
	s.queueStatement("BEGIN ISOLATION LEVEL READ COMMITTED")
	own := &Tx{queries: queries{s}}
	err = fn(own)
	if err == nil && len(own.notes) > 0 {
		err = s.p.hook.run(own, own.notes)
	}
	if err != nil {
		return isUnavailable(err) || isConflict(err), err
	}
	defer func() {
		if err == nil && own.ahead != nil {
			own.ahead()
		}
	}()
	if !s.begun && len(s.pending) == 1 { // nothing but the beginning
		return false, nil
	}
	tag, err := s.send("COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		err = errors.New("the server rolled the transaction back")
	}
	over = err == nil
	return isConflict(err), err
}

// errAlone says that a write, of a batch that changed nothing, is to have a transaction
// of its own.
var errAlone = errors.New("the write needs a transaction of its own")

// commitTogether runs a batch in one transaction. If that changed nothing, each
// caller runs its write alone: so one that fails, or waits for a lock, takes none of its
// neighbours with it. If the answer to the commit is lost, its error is everybody's.
func (p *postgres) commitTogether(batch []*write) {
	ran := false
	_, err := p.transact(context.Background(), func(tx *Tx) error {
		ran = false
		if err := tx.conn.later(lockTimeout); err != nil {
			return err
		}
		tx.batch = new(Batch)
		err := p.together.runAll(tx.conn, &batch, tx.batch)
		tx.notes, ran = notesOf(batch), err == nil
		return err
	})
	var rejected *pgconn.PgError
	if err != nil && (!ran || pgconn.SafeToRetry(err) || errors.As(err, &rejected) && (rejected.Code == lockNotAvailable || !isUnavailable(err))) {
		err = errAlone
	}
	for _, op := range batch {
		op.err, op.panic = err, nil
	}
	finish(batch)
}

// lockTimeout bounds how long a batch waits for a row that another transaction changes.
const lockTimeout = "SET LOCAL lock_timeout = '200ms'"

func (s *postgresTx) queueStatement(text string, args ...any) {
	s.pending = append(s.pending, statement{text, args})
}

// sendBatch sends what was put off with one more statement, the answers to which are
// the next.
func (s *postgresTx) sendBatch(text string, args []any) (pgx.BatchResults, error) {
	batch := new(pgx.Batch)
	for _, one := range s.pending {
		batch.Queue(one.text, one.args...)
	}
	batch.Queue(text, args...)
	before := len(s.pending)
	s.pending, s.begun = nil, true
	answers := s.conn.SendBatch(context.Background(), batch)
	for range before {
		if _, err := answers.Exec(); err != nil {
			_ = answers.Close() // answers the same error
			return nil, err
		}
	}
	return answers, nil
}

func (s *postgresTx) send(text string, args ...any) (pgconn.CommandTag, error) {
	answers, err := s.sendBatch(text, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := answers.Exec()
	if e := answers.Close(); err == nil {
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
	answers, err := s.sendBatch(s.p.text(query), storableTexts(args))
	if err != nil {
		return nil, err
	}
	rows, err := answers.Query()
	if err != nil {
		_ = answers.Close() // answers the same error
		return nil, err
	}
	return flightRows{rows, answers}, nil
}

// flightRows are those of the last statement of a flight.
type flightRows struct {
	pgx.Rows
	answers pgx.BatchResults
}

func (r flightRows) Close() error {
	r.Rows.Close()
	return r.answers.Close()
}

// script runs statements without arguments, which need not be one.
func (s *postgresTx) script(statements string) error {
	if len(s.pending) > 0 {
		if _, err := s.send("SELECT 1"); err != nil {
			return err
		}
	}
	_, err := s.conn.Exec(context.Background(), postgresDialect.rewrite(statements))
	return err
}

// alone takes a lock that ends with the transaction. Schemas of one database
// don't share it. It is sent with the next statement, which sees what was committed
// before it is run: each has a snapshot of its own (READ COMMITTED).
func (s *postgresTx) alone(name string) error {
	return s.later("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' gpucloud ' || ?, 0))", name)
}

// room is the server's to have.
func (s *postgresTx) room(int64, Use) error { return nil }
