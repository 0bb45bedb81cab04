package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
				tx.AfterRun(ahead)
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
			tx.AfterRun(func() { calls++ })
			return nil
		})
		write(func(tx *sqldb.Tx) error {
			tx.AfterRun(func() { failed++ })
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
		tx.AfterRun(func() { seen = count(t, db) })
		return must.Err(tx.Exec("INSERT INTO notes (name, body) VALUES (?, ?)", "a", nil))
	}); err != nil || seen != 1 {
		t.Errorf("seen %d (%v), expected 1", seen, err)
	}
	_ = db.Write(t.Context(), func(tx *sqldb.Tx) error {
		tx.AfterRun(func() { t.Error("called for a write that failed") })
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
		must.Hold(t, err == nil, err)
	}
	var once sync.Once
	all.Go(func() { update(other, func(*sqldb.Tx) { once.Do(func() { close(locked) }); <-release }) })
	<-locked
	all.Go(func() { update(db, func(*sqldb.Tx) {}) })
	for name, err := range addTogether(t, db, numberedNames("free ", 20)...) {
		must.Hold(t, err == nil, name, err)
	}
	close(release)
	all.Wait()
}

// If the reply to a commit is lost, each write returns an error, and was done once or not at all.
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
	must.Hold(t, failed >= 20, "only", failed, "writes failed")
}

// behindDB is a database whose writes behind add names to the batch. The hook writes them as notes.
type behindDB struct {
	*sqldb.DB
	t       *testing.T
	due     int // number of names at which the batch is due
	fail    error
	written [][]string // by transaction
	noted   []any
	runs    int
}

func openBehind(t *testing.T, c sqldb.Config) *behindDB {
	t.Helper()
	b := &behindDB{DB: open(t, c), t: t, due: 100}
	b.BeforeCommit(func(tx *sqldb.Tx, notes []any) error {
		if tx.Batch() == nil || tx.Batch().Value == nil {
			return nil
		}
		names := tx.Batch().Value.([]string)
		for _, name := range names {
			if err := tx.Later("INSERT INTO notes (name, body) VALUES (?, ?)", name, nil); err != nil {
				return err
			}
		}
		if tx.Batch().Value = nil; b.fail != nil {
			return b.fail
		}
		b.written = append(b.written, names)
		b.noted = append(b.noted, notes...)
		if tx.Batch().MayDefer {
			tx.Batch().Value = []string{"rest after " + names[len(names)-1]}
		}
		return nil
	})
	return b
}

// add puts a name into the batch, or writes it if there is no batch.
func (b *behindDB) add(name string) error {
	return b.WriteBehind(b.t.Context(), func(tx *sqldb.Tx) error {
		b.runs++
		batch := tx.Batch()
		if batch == nil {
			return tx.Later("INSERT INTO notes (name, body) VALUES (?, ?)", name, nil)
		}
		names, _ := batch.Value.([]string)
		batch.Value = append(slices.Clip(names), name)
		batch.Due = len(names)+1 >= b.due
		tx.Note(name)
		return nil
	})
}

func (b *behindDB) isWritten(want ...string) {
	b.t.Helper()
	must.Equal(b.t, fmt.Sprint(b.written), fmt.Sprint(want), "written", want)
}

func (b *behindDB) addAll(names ...string) {
	b.t.Helper()
	for _, name := range names {
		must.Succeed(b.t, b.add(name))
	}
}

// In memory, writes behind are written together before a read or another write, and when the
// batch is due, which may defer some.
func TestWriteBehind(t *testing.T) {
	b := openBehind(t, sqldb.Config{})
	b.addAll("a", "b")
	b.isWritten()
	must.Equal(t, count(t, b.DB), 2, "a read sees", "notes")
	b.isWritten("[a b]")
	b.addAll("c")
	must.Succeed(t, add(t.Context(), b.DB, "d", nil))
	b.isWritten("[a b]", "[c]")
	b.due = 2
	b.addAll("e", "f")
	b.isWritten("[a b]", "[c]", "[e f]")
	must.Equal(t, count(t, b.DB), 7, "a read sees", "notes")
	b.isWritten("[a b]", "[c]", "[e f]", "[rest after f]")
	must.Equal(t, b.runs, 5, "5 writes ran", "times")
}

// On a disk a write behind is an ordinary write.
func TestWriteBehindOnDisk(t *testing.T) {
	b := openBehind(t, sqldb.Config{Dir: t.TempDir()})
	b.addAll("a", "b")
	b.isWritten("[a]", "[b]")
}

// If writing the batch fails, it is written later, without loss or duplicates.
func TestWriteBehindFails(t *testing.T) {
	b := openBehind(t, sqldb.Config{})
	no := errors.New("no")
	b.fail, b.due = no, 2
	b.addAll("a", "b") // due
	must.FailWith(t, b.Read(t.Context(), func(*sqldb.Reader) error { return nil }), no, "a read")
	must.FailWith(t, add(t.Context(), b.DB, "c", nil), no, "a write")
	b.fail = nil
	must.Equal(t, count(t, b.DB), 2, "notes")
	b.isWritten("[a b]")
	must.Equal(t, b.noted, []any{"a", "b"}, "noted", "expected a and b")
}

// A write behind that changes a table runs again in a transaction, after the batch was
// written. A write that fails leaves nothing.
func TestWriteBehindNeedsTransaction(t *testing.T) {
	b := openBehind(t, sqldb.Config{})
	b.addAll("a")
	seen, runs, ahead := -1, 0, 0
	write := func(result error) error {
		return b.WriteBehind(t.Context(), func(tx *sqldb.Tx) error {
			runs++
			tx.AfterRun(func() { ahead++ })
			if err := tx.QueryRow("SELECT COUNT(*) FROM notes").Scan(&seen); err != nil {
				return err
			}
			must.Hold(t, runs != 1 || seen == 0, seen, "notes at first")
			_, err := tx.Exec("INSERT INTO notes (name, body) VALUES (?, ?)", fmt.Sprint("run ", runs), nil)
			return errors.Join(err, result)
		})
	}
	if err := write(nil); err != nil || runs != 2 || seen != 1 || ahead != 1 {
		t.Errorf("%v after %d runs, the last of which saw %d notes; %d calls ahead; expected 2 runs, 1 note, 1 call", err, runs, seen, ahead)
	}
	no := errors.New("no")
	if err := write(no); !errors.Is(err, no) || ahead != 1 {
		t.Errorf("%v and %d calls, expected %v and still one", err, ahead, no)
	}
	must.Equal(t, count(t, b.DB), 2, "notes")
	// A statement that returns rows can still change a table.
	b.addAll("b")
	var name string
	err := b.WriteBehind(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow("DELETE FROM notes WHERE name = 'b' RETURNING name").Scan(&name)
	})
	n := count(t, b.DB)
	must.Hold(t, err == nil && name == "b" && n == 2, err, "deleted", name, n, "notes left; expected b, and 2")
}

// If memory seems to be full, it is measured after the batch was written.
func TestWriteBehindNeedsRoom(t *testing.T) {
	b := openBehind(t, sqldb.Config{Memory: 1 << 20})
	room := func() (batch bool, err error) {
		err = b.WriteBehind(t.Context(), func(tx *sqldb.Tx) error {
			batch = tx.Batch() != nil
			return tx.CheckRoom(300<<10, sqldb.ForJobs)
		})
		return batch, err
	}
	batch, err := room()
	must.Hold(t, batch && err == nil, "with room: batch", batch, err)
	b.addAll("a")
	batch, err = room()
	must.Hold(t, !batch && err == nil, "memory seems full: batch", batch, err, "expected a transaction")
	b.isWritten("[a]")
	must.Succeed(t, add(t.Context(), b.DB, "large", make([]byte, 400<<10)))
	full := new(sqldb.MemoryFullError)
	batch, err = room()
	must.Hold(t, !batch && errors.As(err, &full), "without room: batch", batch, err, "expected a *MemoryFullError")
}

// A write that panics changes nothing, and the database stays open.
func TestPanicInMemory(t *testing.T) {
	b := openBehind(t, sqldb.Config{})
	for name, write := range map[string]func(func(*sqldb.Tx) error) error{
		"write":        func(fn func(*sqldb.Tx) error) error { return b.Write(t.Context(), fn) },
		"write behind": func(fn func(*sqldb.Tx) error) error { return b.WriteBehind(t.Context(), fn) },
	} {
		func() {
			defer func() { must.Hold(t, recover() != nil, name, "no panic") }()
			_ = write(func(tx *sqldb.Tx) error {
				if _, err := tx.Exec("INSERT INTO notes (name, body) VALUES (?, ?)", name, nil); err != nil {
					return err
				}
				panic("on purpose")
			})
		}()
	}
	must.Equal(t, count(t, b.DB), 0, "notes")
}
