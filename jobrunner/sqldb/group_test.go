package sqldb_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// addTogether adds notes by concurrent writes and returns their errors.
func addTogether(t *testing.T, db *sqldb.DB, names ...string) map[string]error {
	t.Helper()
	var mu sync.Mutex
	errs := map[string]error{}
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			err := db.WriteBehind(t.Context(), func(tx *sqldb.Tx) error {
				if _, err := tx.Exec("INSERT INTO notes (name) VALUES (?)", name); err != nil {
					return err
				}
				if strings.HasPrefix(name, "bad") {
					return errOnPurpose
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	all.Wait()
	return errs
}

var errOnPurpose = errors.New("on purpose")

func numberedNames(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// If a write fails, the other writes of its commit succeed.
func TestFailedWriteOfACommit(t *testing.T) {
	modes(t, func(t *testing.T, c sqldb.Config) {
		db := open(t, c)
		for round := range 10 {
			for name, err := range addTogether(t, db, append(numberedNames(fmt.Sprint("note ", round, " "), 20), "bad")...) {
				must.Equal(t, errors.Is(err, errOnPurpose), name == "bad", name, err)
			}
			must.Equal(t, count(t, db), 20*(round+1), "notes after round", round)
		}
	})
}

// A write that waits for another process's transaction doesn't delay other writes for long.
func TestWaitingWriteOfACommit(t *testing.T) {
	address := pgtest.Start(t)
	db, other := open(t, sqldb.Config{URL: address}), open(t, sqldb.Config{URL: address})
	must.Succeed(t, add(t.Context(), db, "locked", nil))
	locked, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	update := func(db *sqldb.DB, write func(tx *sqldb.Tx)) {
		err := db.WriteBehind(t.Context(), func(tx *sqldb.Tx) error {
			_, err := tx.Exec("UPDATE notes SET body = 'x' WHERE name = 'locked'")
			write(tx)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	var once sync.Once
	all.Go(func() {
		update(other, func(*sqldb.Tx) { once.Do(func() { close(locked) }); <-release })
	})
	<-locked
	all.Go(func() { update(db, func(*sqldb.Tx) {}) })
	for name, err := range addTogether(t, db, numberedNames("free ", 20)...) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	close(release)
	all.Wait()
}

// If the reply to a commit is lost, each of its writes returns an error, and was done once or
// not at all.
func TestLostReplyToAGroupCommit(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	db := open(t, sqldb.Config{URL: proxyURL, NoHints: true})
	failed := 0
	for round := range 20 {
		names := numberedNames(fmt.Sprint("note ", round, " "), 20)
		proxy.LoseCommit()
		for name, err := range addTogether(t, db, names...) {
			var rows int
			e := db.Read(t.Context(), func(r *sqldb.Reader) error {
				return r.QueryRow("SELECT COUNT(*) FROM notes WHERE name = ?", name).Scan(&rows)
			})
			if e != nil || rows > 1 || rows == 0 && err == nil || err != nil && !errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("%s: %v, and %d rows, %v", name, err, rows, e)
			}
			if err != nil {
				failed++
			}
		}
	}
	if failed < 20 {
		t.Errorf("only %d writes failed", failed)
	}
}
