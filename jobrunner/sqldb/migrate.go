package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Breaking is the first line of a step of a schema with which programs that do not know
// it can't work: one that drops, renames or means differently what their statements
// name, or adds what they would have to keep up to date. Every other step only adds what
// they may leave out (tables, indexes, columns with a default), so that nodes of a
// deployment are upgraded one after the other.
const Breaking = "-- breaking\n"

// compatibleFrom is the lowest version that can work with a schema that has these steps.
func compatibleFrom(steps []string) int {
	for n := len(steps); n > 0; n-- {
		if strings.HasPrefix(steps[n-1], Breaking) {
			return n
		}
	}
	return 0
}

const (
	// The lowest version that can work with the schema is not known of those that
	// were written before it was stored: they are for their own version alone.
	selectVersion = `SELECT version, COALESCE((SELECT version FROM compatible WHERE compatible.component = meta.component), version) FROM meta WHERE component = ?`
	setVersion    = `INSERT INTO meta (component, version) VALUES (?, ?) ON CONFLICT (component) DO UPDATE SET version = excluded.version`
	setCompatible = `INSERT INTO compatible (component, version) VALUES (?, ?) ON CONFLICT (component) DO UPDATE SET version = excluded.version`
	createMeta    = `CREATE TABLE IF NOT EXISTS meta (component TEXT PRIMARY KEY, version BIGINT NOT NULL)`
	// The version from which on programs can work with a component's schema.
	createCompatible    = `CREATE TABLE IF NOT EXISTS compatible (component TEXT PRIMARY KEY, version BIGINT NOT NULL)`
	selectAllCompatible = `SELECT component, version FROM compatible`
)

// Migrate brings a component's tables up to date. steps are its schema's history, the
// oldest first, each one statement or several; those that the database has not seen are
// run, all or none. An empty step is a version that was never released: a database
// that has such a version is rejected. A database that has seen more steps than there are is used as it is,
// or is ErrNewer where one of them is Breaking. Several processes may do this at once.
func (db *DB) Migrate(ctx context.Context, component string, steps []string) error {
	db.mu.Lock()
	if db.versions == nil {
		db.versions = map[string]int{}
	}
	db.versions[component] = len(steps)
	db.mu.Unlock()
	if done, err := db.beforeMigration(ctx, component, steps); err != nil || done {
		return migrationError(component, err)
	}
	defer db.backend.migrating()()
	return migrationError(component, db.WriteWithReserve(ctx, func(tx *Tx) error {
		if err := tx.Alone("migrate"); err != nil {
			return err
		}
		for _, create := range []string{createMeta, createCompatible} {
			if _, err := tx.Exec(create); err != nil {
				return err
			}
		}
		var version, compatible int
		err := tx.QueryRow(selectVersion, component).Scan(&version, &compatible)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if version > len(steps) { // since it was read
			return checkCompatible(version, compatible, steps)
		}
		if version > 0 && version < len(steps) && steps[version-1] == "" {
			return fmt.Errorf("the database has version %d, which was never released; this program opens version %d and later: use another database or data folder", version, released(steps))
		}
		for n, step := range steps[version:] {
			if err := tx.conn.script(step); err != nil {
				return fmt.Errorf("step %d: %w", version+n+1, err)
			}
		}
		if _, err := tx.Exec(setCompatible, component, compatibleFrom(steps)); err != nil {
			return err
		}
		_, err = tx.Exec(setVersion, component, len(steps))
		return err
	}))
}

// released is the first version that was released.
func released(steps []string) int {
	return 1 + slices.IndexFunc(steps, func(step string) bool { return step != "" })
}

func migrationError(component string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("preparing the tables of the %s: %w", component, err)
}

func checkCompatible(version, compatible int, steps []string) error {
	if compatible <= len(steps) {
		return nil
	}
	return fmt.Errorf("%w (it has version %d, which programs from version %d on can use; this one knows %d)", ErrNewer, version, compatible, len(steps))
}

// beforeMigration tells that nothing is to be done, which costs no write. Before a
// Breaking step it asks whether that may be done.
func (db *DB) beforeMigration(ctx context.Context, component string, steps []string) (done bool, err error) {
	version, compatible, known := db.readVersion(ctx, component)
	switch {
	case !known: // there is no table yet, or what the write will find out
	case version >= len(steps):
		return true, checkCompatible(version, compatible, steps)
	case compatibleFrom(steps) > version && db.mayBreak != nil:
		err = db.mayBreak(ctx)
	}
	return false, err
}

func (db *DB) readVersion(ctx context.Context, component string) (version, compatible int, known bool) {
	err := db.Read(ctx, func(r *Reader) error {
		return r.QueryRow(selectVersion, component).Scan(&version, &compatible)
	})
	return version, compatible, err == nil
}

// BeforeBreaking has may called before a Breaking step is run on tables that exist; its
// error is Migrate's. It is set before the first Migrate.
func (db *DB) BeforeBreaking(may func(ctx context.Context) error) { db.mayBreak = may }

// CheckVersions looks whether another process has run a Breaking step that this program
// does not know. Then, and from then on, all that is asked of the database is refused.
func (db *DB) CheckVersions(ctx context.Context) error {
	newer := ""
	err := db.Read(ctx, func(r *Reader) error {
		newer = ""
		rows, err := r.Query(selectAllCompatible)
		if err != nil {
			return err
		}
		for rows.Next() {
			var component string
			var version int
			if err := rows.Scan(&component, &version); err != nil {
				return errors.Join(err, rows.Close())
			}
			db.mu.Lock()
			if known, ok := db.versions[component]; ok && version > known {
				newer = component
			}
			db.mu.Unlock()
		}
		return errors.Join(rows.Err(), rows.Close())
	})
	if err != nil || newer == "" {
		return err
	}
	err = fmt.Errorf("%w: %w (the tables of the %s)", ErrClosed, ErrNewer, newer)
	db.outdated.Store(&err)
	return err
}

// refused is the error of a database that this program can't work with any more.
func (db *DB) refused() error {
	if err := db.outdated.Load(); err != nil {
		return *err
	}
	return nil
}
