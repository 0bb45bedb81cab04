package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Breaking is the first line of a schema step that older programs can't work with: it
// drops, renames or redefines something that their statements use, or adds something that
// they would have to update. All other steps only add tables, indexes, or columns with a
// default, so that a deployment's nodes can be upgraded one by one.
const Breaking = "-- breaking\n"

// Whole is the line before and after the part of a step that creates all tables of its version.
// A new database starts with this part of the latest step that has one, and skips all earlier steps.
const Whole = "-- whole\n"

// compatibleFrom returns the lowest version that can work with a schema of these steps.
func compatibleFrom(steps []string) int {
	for n := len(steps); n > 0; n-- {
		if strings.HasPrefix(steps[n-1], Breaking) {
			return n
		}
	}
	return 0
}

const (
	// Old databases don't store the lowest compatible version, so only their own version is compatible.
	selectVersion = `SELECT version, COALESCE((SELECT version FROM compatible WHERE compatible.component = meta.component), version) FROM meta WHERE component = ?`
	setVersion    = `INSERT INTO meta (component, version) VALUES (?, ?) ON CONFLICT (component) DO UPDATE SET version = excluded.version`
	setCompatible = `INSERT INTO compatible (component, version) VALUES (?, ?) ON CONFLICT (component) DO UPDATE SET version = excluded.version`
	createMeta    = `CREATE TABLE IF NOT EXISTS meta (component TEXT PRIMARY KEY, version BIGINT NOT NULL)`
	// The lowest version that can work with a component's schema.
	createCompatible    = `CREATE TABLE IF NOT EXISTS compatible (component TEXT PRIMARY KEY, version BIGINT NOT NULL)`
	selectAllCompatible = `SELECT component, version FROM compatible`
)

// Migrate updates a component's tables. steps is the history of its schema, the oldest
// first; a step has one or more statements. Migrate runs the steps that the database lacks
// in one transaction. An empty step stands for a version that was never released: Migrate rejects a
// database of that version. If the database has more steps, Migrate leaves it unchanged,
// and returns ErrNewer if one of these is Breaking. Several processes may migrate at once.
func (db *DB) Migrate(ctx context.Context, component string, steps []string) error {
	db.mu.Lock()
	db.versions[component] = len(steps)
	db.mu.Unlock()
	if done, err := db.beforeMigration(ctx, component, steps); err != nil || done {
		return migrationError(component, err)
	}
	defer db.backend.beginMigration()()
	return migrationError(component, db.WriteWithReservedSpace(ctx, func(tx *Tx) error {
		if err := tx.Lock("migrate"); err != nil {
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
		if version > len(steps) { // another process has just migrated it
			return checkCompatible(version, compatible, steps)
		}
		if version > 0 && version < len(steps) && steps[version-1] == "" {
			return fmt.Errorf("the database has version %d, which was never released; this program opens version %d and later: use another database or data folder", version, 1+slices.IndexFunc(steps, func(step string) bool { return step != "" }))
		}
		missing := steps[version:]
		for n, step := range slices.Backward(missing) {
			if parts := strings.Split(step, Whole); version == 0 && len(parts) > 1 {
				missing = append(parts[1:2], missing[n+1:]...)
				break
			}
		}
		for n, step := range missing {
			if err := tx.session.script(step); err != nil {
				return fmt.Errorf("step %d: %w", len(steps)-len(missing)+n+1, err)
			}
		}
		if _, err := tx.Exec(setCompatible, component, compatibleFrom(steps)); err != nil {
			return err
		}
		_, err = tx.Exec(setVersion, component, len(steps))
		return err
	}))
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

// beforeMigration reports whether all steps are done. If a Breaking step isn't, it calls beforeBreaking.
func (db *DB) beforeMigration(ctx context.Context, component string, steps []string) (done bool, err error) {
	var version, compatible int
	readErr := db.Read(ctx, func(r *Reader) error {
		return r.QueryRow(selectVersion, component).Scan(&version, &compatible)
	})
	switch {
	case readErr != nil: // the table doesn't exist, or the write will return the error
	case version >= len(steps):
		return true, checkCompatible(version, compatible, steps)
	case compatibleFrom(steps) > version && db.beforeBreaking != nil:
		err = db.beforeBreaking(ctx)
	}
	return false, err
}

// BeforeBreaking sets a function that Migrate calls before it runs a Breaking step on
// existing tables. Its error stops the migration. BeforeBreaking must precede Migrate.
func (db *DB) BeforeBreaking(check func(ctx context.Context) error) { db.beforeBreaking = check }

// CheckVersions checks whether another process has run a Breaking step that this program
// doesn't know. If so, it returns an error, as all later calls of the database do.
func (db *DB) CheckVersions(ctx context.Context) error {
	newer := ""
	err := db.Each(ctx, func(row Row) error {
		var component string
		var version int
		err := row.Scan(&component, &version)
		db.mu.Lock()
		defer db.mu.Unlock()
		if known, ok := db.versions[component]; ok && version > known {
			newer = component
		}
		return err
	}, selectAllCompatible)
	if err != nil || newer == "" {
		return err
	}
	err = fmt.Errorf("%w: %w (the tables of the %s)", ErrClosed, ErrNewer, newer)
	db.outdated.Store(&err)
	return err
}

// checkOutdated returns the error of CheckVersions.
func (db *DB) checkOutdated() error {
	if err := db.outdated.Load(); err != nil {
		return *err
	}
	return nil
}
