package sqldb_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// addNotesTogether adds notes by concurrent writes and returns their errors.
func addNotesTogether(t *testing.T, db *sqldb.DB, names ...string) map[string]error {
	t.Helper()
	var mu sync.Mutex
	errs := map[string]error{}
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
				return must.Err(tx.Exec("INSERT INTO notes (name) VALUES (?)", name))
			})
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	all.Wait()
	return errs
}

func numberedNames(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// A write that waits for another process's transaction doesn't block other writes.
func TestWriteWaitsForALock(t *testing.T) {
	address := pgtest.Start(t)
	db, other := open(t, sqldb.Config{URL: address}), open(t, sqldb.Config{URL: address})
	must.Succeed(t, addNote(t.Context(), db, "locked", nil))
	locked, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	update := func(db *sqldb.DB, write func(tx *sqldb.Tx)) {
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			_, err := tx.Exec("UPDATE notes SET body = 'x' WHERE name = 'locked'")
			write(tx)
			return err
		})
		must.Hold(t, err == nil, err)
	}
	var once sync.Once
	all.Go(func() { update(other, func(*sqldb.Tx) { once.Do(func() { close(locked) }); <-release }) })
	<-locked
	all.Go(func() { update(db, func(*sqldb.Tx) {}) })
	for name, err := range addNotesTogether(t, db, numberedNames("free ", 20)...) {
		must.Hold(t, err == nil, "adding", name, "beside a write that waits returned", err)
	}
	close(release)
	all.Wait()
}

// If the reply to a commit is lost, the write returns ErrUnavailable, and was done once or not at all.
func TestLostReplyToACommit(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	db := open(t, sqldb.Config{URL: proxyURL, NoNotify: true})
	failed := 0
	for round := range 20 {
		names := numberedNames(fmt.Sprint("note ", round, " "), 20)
		proxy.LoseCommit()
		for name, err := range addNotesTogether(t, db, names...) {
			var rows int
			must.Succeed(t, db.Read(t.Context(), func(r *sqldb.Reader) error {
				return r.QueryRow("SELECT COUNT(*) FROM notes WHERE name = ?", name).Scan(&rows)
			}))
			must.Hold(t, rows <= 1 && (rows != 0 || err != nil) && (err == nil || errors.Is(err, sqldb.ErrUnavailable)), "adding", name, "stored", rows, "rows and returned", err)
			if err != nil {
				failed++
			}
		}
	}
	must.Hold(t, failed >= 20, "only", failed, "writes failed, want at least 20")
}

// A transaction whose requirement isn't met changes nothing, whether or not it reads after the requirement.
func TestRequire(t *testing.T) {
	db := open(t, sqldb.Config{URL: pgtest.Start(t)})
	errUnmet := errors.New("unmet")
	must.Succeed(t, addNote(t.Context(), db, "a", nil))
	for name, want := range map[string]error{"a": nil, "absent": errUnmet} {
		for _, reads := range []bool{false, true} {
			err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
				err := errors.Join(
					tx.Pipeline("INSERT INTO notes (name) VALUES (?)", fmt.Sprint(name, reads)),
					tx.Require("SELECT 1 FROM notes WHERE name = ?", errUnmet, name))
				if err == nil && reads {
					err = tx.QueryRow("SELECT COUNT(*) FROM notes").Scan(new(int))
				}
				return err
			})
			must.ErrorIs(t, err, want, "requiring the note", name, "with a later read:", reads)
		}
	}
	must.Equal(t, countNotes(t, db), 3, "the number of rows")
}
