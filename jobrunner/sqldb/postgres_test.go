package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// Processes that start at the same time migrate the tables once.
func TestMigrateAtOnce(t *testing.T) {
	address := pgtest.Start(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			db, err := sqldb.Open(t.Context(), sqldb.Config{URL: address})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			must.Equal(t, db.Migrate(t.Context(), "notes", schema), nil)
		})
	}
	all.Wait()
}

// Transactions that lock the same name run one after the other, and see each other's changes.
func TestLock(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c sqldb.Config) {
		db := open(t, c)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 10 {
					err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
						if err := tx.Lock("notes"); err != nil {
							return err
						}
						var n int
						if err := tx.QueryRow("SELECT COUNT(*) FROM notes").Scan(&n); err != nil {
							return err
						}
						return must.Err(tx.Exec("INSERT INTO notes (name) VALUES (?)", fmt.Sprint(n)))
					})
					must.Hold(t, err == nil, err)
				}
			})
		}
		all.Wait()
		must.Equal(t, countNotes(t, db), 80, "rows")
	})
}

// A transaction that the server rolls back because of a conflict runs again.
func TestDeadlock(t *testing.T) {
	db := open(t, sqldb.Config{URL: pgtest.Start(t)})
	for _, name := range []string{"a", "b"} {
		must.Succeed(t, addNote(t.Context(), db, name, []byte{}))
	}
	var both, all sync.WaitGroup
	both.Add(2)
	var runs atomic.Int32
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		all.Go(func() {
			var first sync.Once
			err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
				runs.Add(1)
				for _, name := range order {
					_, err := tx.Exec("UPDATE notes SET body = body || 'x' WHERE name = ?", name)
					first.Do(func() { both.Done(); both.Wait() })
					if err != nil {
						return err
					}
				}
				return nil
			})
			must.Hold(t, err == nil, err)
		})
	}
	all.Wait()
	var bodies string
	err := db.Read(t.Context(), func(r *sqldb.Reader) error {
		return r.QueryRow("SELECT string_agg(encode(body, 'escape'), ' ') FROM notes").Scan(&bodies)
	})
	// There are more than three runs if a second run conflicts again.
	must.Hold(t, err == nil && bodies == "xx xx" && runs.Load() >= 3, "after", runs.Load(), "runs the bodies are", bodies, err, "want xx xx after at least 3")
}

// A process that hangs within a transaction blocks no other, and runs the transaction again.
func TestProcessHangs(t *testing.T) {
	t.Parallel() // it waits for the server's timeout
	address := pgtest.Start(t)
	hanging, other := open(t, sqldb.Config{URL: address}), open(t, sqldb.Config{URL: address})
	must.Succeed(t, addNote(t.Context(), hanging, "a", []byte{}))
	update := func(tx *sqldb.Tx) error {
		return must.Err(tx.Exec("UPDATE notes SET body = body || 'x' WHERE name = 'a'"))
	}
	locked, resume, ended := make(chan bool), make(chan bool), make(chan error)
	runs := 0
	go func() {
		ended <- hanging.Write(t.Context(), func(tx *sqldb.Tx) error {
			err := update(tx)
			if runs++; runs == 1 {
				close(locked)
				<-resume
			}
			return errors.Join(err, update(tx))
		})
	}()
	<-locked
	must.Succeed(t, other.Write(t.Context(), update))
	close(resume)
	must.Succeed(t, <-ended)
	must.Equal(t, runs, 2, "the number of runs of the transaction")
}

func TestFullDiskOfServer(t *testing.T) {
	address := pgtest.Start(t)
	db := open(t, sqldb.Config{URL: address})
	pgtest.Exec(t, address, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
	pgtest.Exec(t, address, `CREATE TRIGGER full_disk BEFORE INSERT ON notes FOR EACH ROW WHEN (NEW.name = 'big') EXECUTE FUNCTION full_disk()`)
	must.ErrorIs(t, addNote(t.Context(), db, "big", nil), sqldb.ErrFull, "a full disk")
	must.Succeed(t, addNote(t.Context(), db, "small", nil))
}

// Rows of many bytes are sent in parts, because the server refuses an array of a gigabyte.
func TestManyBytesAreSentInParts(t *testing.T) {
	address := pgtest.Start(t)
	db := open(t, sqldb.Config{URL: address})
	pgtest.Exec(t, address, `CREATE TABLE statements (at timestamptz DEFAULT clock_timestamp())`)
	pgtest.Exec(t, address, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO statements DEFAULT VALUES; RETURN NULL; END $$`)
	pgtest.Exec(t, address, `CREATE TRIGGER note AFTER INSERT ON notes FOR EACH STATEMENT EXECUTE FUNCTION note()`)
	var statements int
	err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
		big := make([]byte, 9<<20)
		err := tx.PipelineEach("INSERT INTO notes (name, body) VALUES (?, ?)", [][]any{{"a", big}, {"b", big}, {"c", []byte{}}, {"d", big}, {"e", big}, {"f", []byte{}}})
		return errors.Join(err, tx.QueryRow("SELECT count(*) FROM statements").Scan(&statements))
	})
	must.Hold(t, err == nil && statements == 3, "the rows were inserted by", statements, "statements, want 3;", err)
	must.Equal(t, countNotes(t, db), 6, "rows")
}

// A row is found by the text with which it was stored, even if PostgreSQL can't store that text unchanged.
func TestUnstorableTextIsFound(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c sqldb.Config) {
		db := open(t, c)
		for i, name := range []string{"nothing\x00more", "no \xff text", "what? isn't --a\n?comment", "$1"} {
			must.Equal(t, addNote(t.Context(), db, name, []byte(name)), nil, name)
			var body []byte
			err := db.Read(t.Context(), func(r *sqldb.Reader) error {
				return r.QueryRow("SELECT body -- isn't it\nFROM notes WHERE name = ? AND 'it''s' <> '' AND k > ?", name, i).Scan(&body)
			})
			must.Hold(t, err == nil && string(body) == name, name, "read back as", string(body), err)
		}
	})
}

func TestAsynchronousCommitIsRejected(t *testing.T) {
	address := pgtest.Start(t) + "&options=-c%20synchronous_commit%3Doff"
	_, err := sqldb.Open(t.Context(), sqldb.Config{URL: address})
	must.ErrorContains(t, err, "synchronous_commit is off")
	must.Succeed(t, must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: address, NoSync: true}))(t).Close())
}

// The error for an unavailable server names the server without the password. Once the server is back, it is used.
func TestUnavailableServer(t *testing.T) {
	proxy, address := pgtest.NewProxy(t, pgtest.Start(t))
	db := open(t, sqldb.Config{URL: address})
	u := must.Do(url.Parse(address))(t)
	for round := range 3 {
		must.Succeed(t, addNote(t.Context(), db, fmt.Sprint("before ", round), nil))
		proxy.Cut()
		expectUnavailable := func(err error) {
			t.Helper()
			must.Hold(t, errors.Is(err, sqldb.ErrUnavailable) && strings.Contains(err.Error(), u.Port()) &&
				!strings.Contains(err.Error(), pgtest.Password), "a call to an unavailable server returned", err)
		}
		expectUnavailable(addNote(t.Context(), db, "lost", nil))
		expectUnavailable(db.Read(t.Context(), func(r *sqldb.Reader) error { return r.QueryRow("SELECT 1").Scan(new(int)) }))
		_, err := sqldb.Open(t.Context(), sqldb.Config{URL: address})
		expectUnavailable(err)
		proxy.Mend(t)
		must.Equal(t, countNotes(t, db), round+1, "rows")
	}
	// No call fails if the server terminates all sessions, even between a write's first statement and its end.
	terminate := func() {
		pgtest.Exec(t, address, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'gpucloud jobrunner'")
	}
	for round := range 3 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _ = countNotes(t, db) })
			all.Go(func() { must.Equal(t, db.Write(t.Context(), func(*sqldb.Tx) error { return nil }), nil) })
		}
		all.Wait()
		terminate()
		var once sync.Once
		must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
			once.Do(terminate)
			return tx.Pipeline("INSERT INTO notes (name) VALUES (?)", fmt.Sprint("after restart ", round))
		}))
	}
	must.Equal(t, countNotes(t, db), 6, "rows")
}

func TestInvalidAddresses(t *testing.T) {
	for _, address := range []string{
		"postgres://user:secr/et@127.0.0.1:1/db", "postgres://user:secret@127.0.0.1:x/db", "postgres://user:secret@127.0.0.1:1/db?sslmode=secret",
		"postgres://user:secret@127.0.0.1:1/db?connect_timeout=secret", "user=u password=secret", "mysql://user:secret@h/db", "postgres://user:%secret@h/db",
		"postgres://user:secret@127.0.0.1:1/db",
	} {
		_, err := sqldb.Open(t.Context(), sqldb.Config{URL: address})
		must.Hold(t, err != nil && !strings.Contains(err.Error(), "secr"), "opening", address, "returned", err)
	}
	address := pgtest.Start(t)
	server, _, _ := strings.Cut(address, "?")
	for reason, setting := range map[string]string{
		"/absent":                       "sslmode=verify-full&sslrootcert=/absent",
		"unable to add CA to cert pool": "sslmode=verify-full&sslrootcert=postgres_test.go",
		"the server is read-only":       "sslmode=disable&default_transaction_read_only=on",
		"can't create tables":           "sslmode=disable&search_path=absent",
	} {
		_, err := sqldb.Open(t.Context(), sqldb.Config{URL: server + "?" + setting})
		must.ErrorContains(t, err, reason)
	}
	address = strings.Replace(address, url.PathEscape(pgtest.Password), "another-secret", 1)
	_, err := sqldb.Open(t.Context(), sqldb.Config{URL: address})
	must.Hold(t, err != nil && strings.Contains(err.Error(), "the server refuses the connection: password authentication failed") &&
		!strings.Contains(err.Error(), "another-secret"), "a wrong password:", err)
}

func TestClosedServer(t *testing.T) {
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: pgtest.Start(t)}))(t)
	db.Listen(func(string) {})
	for range 2 {
		must.Equal(t, db.Close(), nil)
	}
	db.Notify("nobody")
	must.ErrorIs(t, addNote(t.Context(), db, "late", nil), sqldb.ErrClosed, "write after close")
	must.ErrorIs(t, db.Read(t.Context(), func(*sqldb.Reader) error { return nil }), sqldb.ErrClosed, "read after close")
}

func TestCancelledWriteOnPostgres(t *testing.T) {
	db := open(t, sqldb.Config{URL: pgtest.Start(t)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.ErrorIs(t, addNote(ctx, db, "withdrawn", nil), context.Canceled, "a write with a cancelled context")
	ctx, cancel = context.WithCancel(t.Context())
	err := db.Write(ctx, func(tx *sqldb.Tx) error {
		cancel() // too late: the write has started
		return must.Err(tx.Exec("INSERT INTO notes (name) VALUES ('kept')"))
	})
	n := countNotes(t, db)
	must.Hold(t, err == nil && n == 1, "a write that was cancelled after its start stored", n, "rows, want 1;", err)
}

// A call that is cancelled while it connects isn't an outage.
func TestCancelledConnect(t *testing.T) {
	proxy, address := pgtest.NewProxy(t, pgtest.Start(t))
	db := open(t, sqldb.Config{URL: address})
	proxy.Cut()
	silent := must.Do(net.Listen("tcp", must.Do(url.Parse(address))(t).Host))(t)
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = silent.Accept() // never answers
		cancel()
	}()
	err := db.Read(ctx, func(r *sqldb.Reader) error { return r.QueryRow("SELECT 1").Scan(new(int)) })
	must.Hold(t, errors.Is(err, context.Canceled) && !sqldb.Temporary(err), "the cancelled call returned", err)
}

// Hints reach only other processes on the same tables, also after a listening connection was lost.
func TestHints(t *testing.T) {
	address := pgtest.Start(t)
	openAndListen := func(address string, noNotify bool) (*sqldb.DB, chan string) {
		db := open(t, sqldb.Config{URL: address, NoNotify: noNotify})
		c := make(chan string, 20_000)
		db.Listen(func(hint string) { c <- hint })
		return db, c
	}
	a, atA := openAndListen(address, false)
	b, atB := openAndListen(address, false)
	c, atC := openAndListen(address, true)
	_, atD := openAndListen(pgtest.Start(t), false)

	// Retry until the other processes listen.
	sendUntilReceived := func(sender *sqldb.DB, hint string, received chan string) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		deadline := time.After(time.Minute)
		for {
			sender.Notify(hint)
			select {
			case got := <-received:
				if got == hint {
					return
				}
			case <-tick.C:
			case <-deadline:
				t.Fatalf("the hint %q never arrived", hint)
			}
		}
	}
	sendUntilReceived(a, "hello b", atB)
	sendUntilReceived(b, "hello a", atA)

	const many = 3000
	for i := range many {
		a.Notify(fmt.Sprintf("%d %s", i, strings.Repeat("x", 100)))
	}
	a.Notify(strings.Repeat("too long", 1000))
	a.Notify("the end")
	var got []string
	for len(got) == 0 || got[len(got)-1] != "the end" {
		if hint := <-atB; hint != "hello b" {
			got = append(got, hint)
		}
	}
	got = slices.DeleteFunc(got, func(hint string) bool { return hint == "the end" })
	must.Hold(t, len(got) == many && strings.HasPrefix(got[len(got)-1], fmt.Sprint(many-1)), len(got), "hints arrived, want", many, "in order")

	pgtest.Exec(t, address, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
	sendUntilReceived(a, "hello again", atB)
	c.Notify("never")
	sendUntilReceived(b, "hello a again", atA)
	for _, received := range []chan string{atC, atD} {
		must.Hold(t, len(received) == 0, "a process with NoNotify, or on other tables, received", len(received), "hints")
	}
	for len(atA) > 0 {
		if hint := <-atA; !strings.HasPrefix(hint, "hello a") {
			t.Errorf("a process received its own hint, or one that was not sent: %.20q", hint)
		}
	}
}

// A server on this machine has this machine's time. The lag is 0 for a database that isn't shared.
func TestClockLag(t *testing.T) {
	lag := must.Do(open(t, sqldb.Config{URL: pgtest.Start(t)}).MeasureClockLag(t.Context(), time.Now))(t)
	must.Hold(t, lag.Abs() <= time.Second, "this machine's clock is behind PostgreSQL by", lag, "want at most 1 s")
	must.Equal(t, must.Do(open(t, sqldb.Config{}).MeasureClockLag(t.Context(), time.Now))(t), 0, "the lag behind SQLite")
}
