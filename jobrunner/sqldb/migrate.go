package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Migrate brings a component's tables up to date. steps are its schema's
// history, the oldest first, each one statement or several; those that the
// database has not seen are run, all or none. A database that has seen more
// steps than there are is ErrNewer. Several processes may do this at once.
func (db *DB) Migrate(ctx context.Context, component string, steps []string) error {
	if db.migrated(ctx, component, len(steps)) {
		return nil
	}
	defer db.backend.migrating()()
	err := db.WriteWithReserve(ctx, func(tx *Tx) error {
		if err := tx.Alone("migrate"); err != nil {
			return err
		}
		if _, err := tx.Exec("CREATE TABLE IF NOT EXISTS meta (component TEXT PRIMARY KEY, version BIGINT NOT NULL)"); err != nil {
			return err
		}
		var version int
		err := tx.QueryRow("SELECT version FROM meta WHERE component = ?", component).Scan(&version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if version > len(steps) {
			return fmt.Errorf("%w (it has version %d, this program knows %d)", ErrNewer, version, len(steps))
		}
		for n, step := range steps[version:] {
			if err := tx.conn.script(step); err != nil {
				return fmt.Errorf("step %d: %w", version+n+1, err)
			}
		}
		_, err = tx.Exec("INSERT INTO meta (component, version) VALUES (?, ?) ON CONFLICT (component) DO UPDATE SET version = excluded.version", component, len(steps))
		return err
	})
	if err != nil {
		return fmt.Errorf("preparing the tables of the %s: %w", component, err)
	}
	return nil
}

// migrated tells that nothing is to be done, which costs no write.
func (db *DB) migrated(ctx context.Context, component string, steps int) bool {
	var version int
	err := db.Read(ctx, func(r *Reader) error {
		return r.QueryRow("SELECT version FROM meta WHERE component = ?", component).Scan(&version)
	})
	return err == nil && version == steps
}
