package sqldb

import (
	"context"
	"time"
)

// Shared tells that other processes may work on the same database.
func (db *DB) Shared() bool { return db.backend.shared() }

// Behind is how far a time of this process, which now answers, is behind the
// database's, which counts where several processes share it. It is 0 for a
// database that is not shared.
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

// Alone makes the transaction wait until no other one that was Alone by this
// name, in any process, is under way: from here on it sees what those did. It
// is the first thing that the transaction does. SQLite's are alone anyway.
func (tx *Tx) Alone(name string) error { return tx.conn.alone(name) }

// Notify passes a hint of one line on to the other processes that Listen on
// this database. It returns at once; what was hinted at must be committed
// before. Hints are brought together, about every 10 ms, and may be lost: they
// make things quick, never right. On SQLite there is nobody to tell.
func (db *DB) Notify(hint string) { db.backend.notify(hint) }

// Listen has f called with the hints of other processes, one at a time, until
// Close. It is called once. f is quick and does not use the database.
func (db *DB) Listen(f func(hint string)) { db.backend.listen(f) }
