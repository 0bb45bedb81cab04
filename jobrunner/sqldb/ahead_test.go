package sqldb_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// A write that Ahead causes before the commit joins that commit.
func TestAheadOfTheCommit(t *testing.T) {
	db := open(t, sqldb.Config{Dir: t.TempDir()})
	shared := false
	db.BeforeCommit(func(_ *sqldb.Tx, notes []any) error {
		shared = shared || slices.Equal(notes, []any{"first", "second"})
		return nil
	})
	noting := func(note string, ahead func()) {
		if err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			tx.Note(note)
			if ahead != nil {
				tx.Ahead(ahead)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	for range 1000 { // the scheduler may delay the second write
		var second sync.WaitGroup
		noting("first", func() { second.Go(func() { noting("second", nil) }) })
		if second.Wait(); shared {
			return
		}
	}
	t.Error("the second write never shared the first one's commit")
}

// A write that runs again because another one failed calls Ahead's function once. A write that
// fails doesn't call it.
func TestAheadIsCalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{Dir: t.TempDir(), NoSync: true}))(t)
		defer func() { _ = db.Close() }()
		release := make(chan struct{})
		var group sync.WaitGroup
		write := func(fn func(tx *sqldb.Tx) error) {
			group.Go(func() { _ = db.Write(context.Background(), fn) })
			synctest.Wait()
		}
		write(func(*sqldb.Tx) error { <-release; return nil })
		runs, calls, failed := 0, 0, 0
		write(func(tx *sqldb.Tx) error {
			runs++
			tx.Ahead(func() { calls++ })
			return nil
		})
		write(func(tx *sqldb.Tx) error {
			tx.Ahead(func() { failed++ })
			return errors.New("no")
		})
		close(release)
		group.Wait()
		must.Hold(t, runs == 2 && calls == 1 && failed == 0, "run", runs, "times, called", calls, "times, and", failed, "times for the write that failed; expected 2, 1, 0")
	})
}

// On PostgreSQL Ahead's function runs after the commit, so that others see the change.
func TestAheadOnPostgres(t *testing.T) {
	db := open(t, sqldb.Config{URL: pgtest.Start(t)})
	seen := 0
	if err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
		tx.Ahead(func() { seen = count(t, db) })
		_, err := tx.Exec("INSERT INTO notes (name, body) VALUES (?, ?)", "a", nil)
		return err
	}); err != nil || seen != 1 {
		t.Errorf("seen %d (%v), expected 1", seen, err)
	}
	_ = db.Write(t.Context(), func(tx *sqldb.Tx) error {
		tx.Ahead(func() { t.Error("called for a write that failed") })
		return errors.New("no")
	})
}

// The hook may be set during writes (for the race detector).
func TestBeforeCommitWhileOthersWrite(t *testing.T) {
	for name, c := range map[string]sqldb.Config{"in memory": {}, "folder": {Dir: t.TempDir(), NoSync: true}} {
		t.Run(name, func(t *testing.T) {
			db := open(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			var writing sync.WaitGroup
			defer writing.Wait()
			defer cancel()
			called := make(chan struct{})
			started := make(chan struct{})
			writing.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					_ = db.Write(context.Background(), func(tx *sqldb.Tx) error { tx.Note("note"); return nil })
					if i == 10 {
						close(started)
					}
				}
			})
			<-started
			call := sync.OnceFunc(func() { close(called) })
			db.BeforeCommit(func(*sqldb.Tx, []any) error { call(); return nil })
			<-called
		})
	}
}
