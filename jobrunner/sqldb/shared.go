package sqldb

import (
	"context"
	"time"
)

// Shared reports whether other processes can use the same database.
func (db *DB) Shared() bool { return db.backend.shared() }

// Behind returns how far the clock now is behind the clock of a shared database, by which
// all processes set theirs. It returns 0 if the database isn't shared.
func (db *DB) Behind(ctx context.Context, now func() time.Time) (behind time.Duration, err error) {
	if !db.Shared() {
		return 0, nil
	}
	err = db.Read(ctx, func(r *Reader) error {
		var micros int64
		asked := now()
		err := r.QueryRow("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)").Scan(&micros)
		middle := asked.Add(now().Sub(asked) / 2)
		behind = time.UnixMicro(micros).Sub(middle)
		return err
	})
	return behind, err
}

// Alone acquires a lock until the end of the transaction: only one transaction in all
// processes can hold the lock of a name. It must be the first call of the transaction, whose
// later statements see the changes of earlier holders. On SQLite it is a no-op, because
// writes are serialized.
func (tx *Tx) Alone(name string) error { return tx.conn.alone(name) }

// Notify sends a hint of one line to the other processes that Listen. It returns at once.
// The caller must have committed the change that the hint is about. Hints are sent in
// batches, about every 10 ms, and may be lost, so receivers must also poll. On SQLite it is
// a no-op.
func (db *DB) Notify(hint string) { db.backend.notify(hint) }

// Listen calls f with the hints of other processes, one at a time, until Close. f must be
// quick and must not use the database. Listen may be called once.
func (db *DB) Listen(f func(hint string)) { db.backend.listen(f) }
