package sqldb

import "errors"

// writer owns the writing connection, and uses it for a group commit.
type writer struct {
	*group
	hook    hook
	conn    *conn
	reserve *reserve
}

func startWriter(c *conn, reserve *reserve) *writer {
	w := &writer{conn: c, reserve: reserve}
	w.group = startGroup(w.commit, c.close)
	return w
}

// commit runs a batch in one transaction. If a write fails, the batch runs again with a
// savepoint for each write, so that only the failed write is rolled back. If the whole
// transaction fails, for example because the disk is full, each write runs in its own
// transaction, so that the others can succeed.
func (w *writer) commit(batch []*write) {
	err := w.try(&batch, (*writer).runAll)
	if errors.Is(err, errOneFailed) {
		err = w.try(&batch, (*writer).runEach)
	}
	if err != nil {
		for _, op := range batch {
			if err := w.try(&[]*write{op}, (*writer).runEach); err != nil {
				op.err = classifySQLite(err)
			}
		}
	}
	w.reserve.refill()
	for _, op := range batch {
		if op.reserve && errors.Is(op.err, ErrFull) {
			op.err = classifySQLite(w.withReserve(op))
		}
	}
	finish(batch)
}

// try runs a batch in a transaction; run may add writes to it. Each write has its own
// error; an error of try means that nothing was committed.
func (w *writer) try(batch *[]*write, run func(*writer, *[]*write, *Batch) error) (err error) {
	if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = w.conn.exec("ROLLBACK") // fails if the error has already ended the transaction
		}
	}()
	shared := new(Batch)
	if err := run(w, batch, shared); err != nil {
		return err
	}
	if notes := notesOf(*batch); len(notes) > 0 {
		if err := w.hook.run(&Tx{queries: queries{w.conn}, batch: shared}, notes); err != nil {
			return err
		}
	}
	_, err = w.conn.exec("COMMIT")
	return err
}

func (w *writer) runAll(batch *[]*write, shared *Batch) error {
	return w.group.runAll(w.conn, batch, shared)
}

// runEach runs each write in a savepoint.
func (w *writer) runEach(batch *[]*write, _ *Batch) error {
	for _, op := range *batch {
		if err := w.runInSavepoint(op); err != nil {
			return err
		}
		if op.err == nil && op.panic == nil {
			op.callAhead()
		}
	}
	return nil
}

func (w *writer) runInSavepoint(op *write) error {
	op.err, op.panic = nil, nil
	if _, err := w.conn.exec("SAVEPOINT op"); err != nil {
		return err
	}
	if op.err = classifySQLite(op.run(w.conn, nil)); op.err != nil || op.panic != nil {
		if _, err := w.conn.exec("ROLLBACK TO op"); err != nil {
			if op.err != nil {
				return op.err // it has ended the whole transaction
			}
			return err
		}
	}
	_, err := w.conn.exec("RELEASE op")
	return err
}
