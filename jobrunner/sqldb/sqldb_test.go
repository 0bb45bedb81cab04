package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/smalldisk"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

var schema = []string{`
	CREATE TABLE notes (k {key}, name TEXT NOT NULL, body {blob});
	CREATE UNIQUE INDEX notes_name ON notes (name);`,
}

func open(t *testing.T, c sqldb.Config) *sqldb.DB {
	t.Helper()
	db := must.Do(sqldb.Open(t.Context(), c))(t)
	t.Cleanup(func() { must.Equal(t, db.Close(), nil) })
	must.Succeed(t, db.Migrate(t.Context(), "notes", schema))
	return db
}

func addNote(ctx context.Context, db *sqldb.DB, name string, body []byte) error {
	return db.Write(ctx, func(tx *sqldb.Tx) error {
		n, err := tx.Exec("INSERT INTO notes (name, body) VALUES (?, ?)", name, body)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows inserted", n)
		}
		return err
	})
}

func countNotes(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	must.Succeed(t, db.Read(t.Context(), func(r *sqldb.Reader) error { return r.QueryRow("SELECT count(*) FROM notes").Scan(&n) }))
	return n
}

// One statement for several rows has the same effect as a statement for each row.
func TestPipelineEach(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c sqldb.Config) {
		db := open(t, c)
		const insert = `INSERT INTO notes (name, body) VALUES (?, COALESCE(?, (SELECT body FROM notes WHERE name = ?))) ON CONFLICT (name) DO UPDATE SET body = excluded.body`
		must.Succeed(t, addNote(t.Context(), db, "a", []byte("1")))
		var all []string
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			all = nil
			err := errors.Join(
				tx.PipelineEach(insert, nil),
				tx.PipelineEach(insert, [][]any{{"b", []byte(nil), "a"}, {"c\x00", []byte{}, "a"}, {"a", []byte("2"), ""}}),
				tx.PipelineEach("UPDATE notes SET name = ? WHERE name = ? AND k > ?", [][]any{{"B", "b", 0}, {"A", "a", 1 << 40}}),
				tx.PipelineEach(insert, [][]any{{"d", []byte{}, ""}, {"e", []byte{}, ""}, {"f", []byte("3"), ""}}),
				tx.PipelineEach("DELETE FROM notes WHERE name = ? AND k > ?", [][]any{{"d", 0}, {"e", 0}, {"f", 1 << 40}}))
			if err != nil {
				return err
			}
			return tx.Each(func(row sqldb.Row) error {
				var name string
				var body []byte
				err := row.Scan(&name, &body)
				all = append(all, name[:1]+"="+string(body))
				return err
			}, "SELECT name, body FROM notes ORDER BY name")
		})
		got := strings.Join(all, " ")
		must.Hold(t, err == nil && got == "B=1 a=2 c= f=3", "the rows are", got, err)
	})
}

// testEachDatabase runs a test on each kind of database.
func testEachDatabase(t *testing.T, test func(t *testing.T, c sqldb.Config)) {
	t.Run("memory", func(t *testing.T) { test(t, sqldb.Config{}) })
	t.Run("file", func(t *testing.T) { test(t, sqldb.Config{Dir: t.TempDir()}) })
	t.Run("file without sync", func(t *testing.T) { test(t, sqldb.Config{Dir: t.TempDir(), NoSync: true}) })
	t.Run("postgres", func(t *testing.T) { test(t, sqldb.Config{URL: pgtest.Start(t)}) })
}

func TestReadYourWrites(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c sqldb.Config) {
		db := open(t, c)
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 50 {
					name := fmt.Sprintf("%d-%d", g, i)
					if err := addNote(t.Context(), db, name, []byte(name)); err != nil {
						t.Error(err)
						return
					}
					var body []byte
					err := db.Read(t.Context(), func(r *sqldb.Reader) error {
						return r.QueryRow("SELECT body FROM notes WHERE name = ?", name).Scan(&body)
					})
					must.Hold(t, err == nil && string(body) == name, name, "read back as", string(body), err)
				}
			})
		}
		all.Wait()
		must.Equal(t, countNotes(t, db), 400, "rows")
	})
}

func TestQuery(t *testing.T) { testEachDatabase(t, testQuery) }

func testQuery(t *testing.T, c sqldb.Config) {
	db := open(t, c)
	for _, name := range []string{"a", "b"} {
		must.Succeed(t, addNote(t.Context(), db, name, nil))
	}
	var names []string
	err := db.Each(t.Context(), func(row sqldb.Row) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	}, "SELECT name FROM notes ORDER BY k")
	must.Hold(t, err == nil && strings.Join(names, ",") == "a,b", "got", names, err)
	err = db.Read(t.Context(), func(r *sqldb.Reader) error {
		return r.QueryRow("SELECT name FROM notes WHERE name = 'c'").Scan(new(string))
	})
	must.ErrorIs(t, err, sql.ErrNoRows, "an absent row")
	err = db.Each(t.Context(), func(sqldb.Row) error { return nil }, "DELETE FROM notes RETURNING k")
	must.Hold(t, err != nil && countNotes(t, db) == 2, "a reader changed a table, or its DELETE returned no error:", err)
}

// The rollback of a failed write doesn't roll back the writes that run at the same time.
func TestFailedWriteIsRolledBackAlone(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c sqldb.Config) {
		db := open(t, c)
		boom := errors.New("boom")
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				name := fmt.Sprint("n", i)
				switch i % 4 {
				case 0:
					must.Equal(t, addNote(t.Context(), db, name, nil), nil)
				case 1:
					err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
						if _, err := tx.Exec("INSERT INTO notes (name) VALUES (?)", name); err != nil {
							return err
						}
						return boom
					})
					must.ErrorIs(t, err, boom)
				case 2:
					err := db.Write(t.Context(), func(tx *sqldb.Tx) error { return must.Err(tx.Exec("INSERT INTO nothing (name) VALUES (?)", name)) })
					must.Hold(t, err != nil, "a write to a missing table succeeded")
				case 3:
					err := addNote(t.Context(), db, "same", nil)
					must.Hold(t, err == nil || sqldb.IsUnique(err), err)
				}
			})
		}
		all.Wait()
		must.Equal(t, countNotes(t, db), 15+1, "rows")
	})
}

func TestPanicReachesTheCaller(t *testing.T) { testEachDatabase(t, testPanic) }

func testPanic(t *testing.T, c sqldb.Config) {
	db := open(t, c)
	func() {
		defer func() {
			p := recover()
			must.Hold(t, p != nil && strings.Contains(fmt.Sprint(p), "oops"), "recovered", p)
		}()
		_ = db.Write(t.Context(), func(tx *sqldb.Tx) error {
			must.Equal(t, must.Err(tx.Exec("INSERT INTO notes (name) VALUES ('x')")), nil)
			panic("oops")
		})
	}()
	must.Equal(t, countNotes(t, db), 0, "rows of the write that panicked")
	must.Equal(t, addNote(t.Context(), db, "y", nil), nil, "a write after a panic")
}

func TestCancelledWriteIsWithdrawn(t *testing.T) {
	db := open(t, sqldb.Config{})
	running, hold := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		var once sync.Once
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			once.Do(func() { close(running) })
			<-hold
			return must.Err(tx.Exec("INSERT INTO notes (name) VALUES ('first')"))
		})
		must.Succeed(t, err)
	})
	<-running
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	all.Go(func() {
		must.ErrorIs(t, addNote(ctx, db, "second", nil), context.Canceled, "withdrawn")
		close(hold)
	})
	all.Wait()
	must.Equal(t, countNotes(t, db), 1, "rows")
}

func TestFullDisk(t *testing.T) {
	t.Run("folder", func(t *testing.T) { testFullDisk(t, t.TempDir(), "the disk that holds the database is full") })
	t.Run("memory", func(t *testing.T) { testFullDisk(t, "", "a quarter each for results and objects") })
}

func testFullDisk(t *testing.T, dir, text string) {
	db := open(t, sqldb.Config{Dir: dir, Memory: 4 * 40 * 4096})
	setMaxPages := func(pages int) {
		must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
			return tx.QueryRow(fmt.Sprintf("PRAGMA max_page_count=%d", pages)).Scan(new(int))
		}))
	}
	if dir != "" {
		setMaxPages(40)
	}
	kept, big := -1, make([]byte, 20_000)
	var full error
	for ; full == nil; kept++ {
		full = addNote(t.Context(), db, fmt.Sprint(kept), big)
	}
	must.Require(t, errors.Is(full, sqldb.ErrFull) && strings.Contains(full.Error(), text), "a full disk:", full)
	must.Equal(t, addNote(t.Context(), db, "small", nil), nil, "a row that fits")
	must.Equal(t, countNotes(t, db), kept+1, "rows")
	must.Hold(t, 2 < kept && kept < 8, kept, "rows of 20,000 bytes fit into 40 pages")
	setMaxPages(100_000)
	must.Equal(t, addNote(t.Context(), db, "later", big), nil, "a write with space again")
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data")
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{Dir: dir}))(t)
	must.Succeed(t, db.Migrate(t.Context(), "notes", schema))
	must.Succeed(t, addNote(t.Context(), db, "kept", nil))
	if runtime.GOOS != "windows" {
		for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "jobrunner.db"): 0o600, filepath.Join(dir, "jobrunner.db-wal"): 0o600} {
			must.Equal(t, must.Do(os.Stat(path))(t).Mode().Perm(), want, path)
		}
	}
	_, err := sqldb.Open(t.Context(), sqldb.Config{Dir: dir})
	must.Hold(t, errors.Is(err, sqldb.ErrInUse) && strings.Contains(err.Error(), dir), "a second Open:", err)
	must.Succeed(t, db.Close())
	must.ErrorIs(t, addNote(t.Context(), db, "late", nil), sqldb.ErrClosed, "write after close")
	must.ErrorIs(t, db.Read(t.Context(), func(*sqldb.Reader) error { return nil }), sqldb.ErrClosed, "read after close")
	must.Equal(t, db.Close(), nil, "a second Close")
	db = open(t, sqldb.Config{Dir: dir})
	must.Equal(t, countNotes(t, db), 1, "rows after opening again")
	if runtime.GOOS != "windows" { // Windows can't rename a folder with an open file
		must.Succeed(t, os.Rename(dir, dir+".moved"))
		must.ErrorIs(t, addNote(t.Context(), db, "moved", nil), sqldb.ErrUnavailable, "write to a file elsewhere")
		must.Succeed(t, os.Rename(dir+".moved", dir))
		must.Equal(t, addNote(t.Context(), db, "back", nil), nil, "write to the file at its path again")
	}
}

// A backup that is copied over the folder of a killed process replaces the log of that process, too.
func TestBackupOverFolder(t *testing.T) {
	dir, backup, killedDir := t.TempDir(), t.TempDir(), t.TempDir()
	db := open(t, sqldb.Config{Dir: dir})
	must.Succeed(t, addNote(t.Context(), db, "before", nil))
	must.Succeed(t, sqldb.Backup(dir, backup))
	must.Succeed(t, addNote(t.Context(), db, "after", nil))
	for _, file := range slices.Concat(must.Do(filepath.Glob(filepath.Join(dir, "*.db*")))(t), must.Do(filepath.Glob(filepath.Join(backup, "*")))(t)) {
		must.Succeed(t, os.WriteFile(filepath.Join(killedDir, filepath.Base(file)), must.ReadFile(t, file), 0o600))
	}
	must.Equal(t, countNotes(t, open(t, sqldb.Config{Dir: killedDir})), 1, "rows")
}

// If the target's disk is full, and not the database's disk, the error names the target.
func TestBackupOnFullDisk(t *testing.T) {
	dir, target := t.TempDir(), smalldisk.Mount(t, "1m")
	must.Succeed(t, addNote(t.Context(), open(t, sqldb.Config{Dir: dir}), "big", make([]byte, 2<<20)))
	must.ErrorContains(t, sqldb.Backup(dir, target), "to "+target+": the disk")
}

func TestInvalidFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	must.Hold(t, must.Err(sqldb.Open(t.Context(), sqldb.Config{Dir: filepath.Join(file, "data")})) != nil, "opened inside a file")
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "jobrunner.db"), []byte(strings.Repeat("not a database ", 100)), 0o600))
	_, err := sqldb.Open(t.Context(), sqldb.Config{Dir: dir})
	must.ErrorContains(t, err, dir)
	folder := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(folder, "jobrunner.db"), 0o700))
	_, err = sqldb.Open(t.Context(), sqldb.Config{Dir: folder})
	must.Hold(t, errors.Is(err, sqldb.ErrUnavailable) && strings.Contains(err.Error(), "whether its disk is read-only"), "a file that can't be opened:", err)
}

func TestMigrate(t *testing.T) { testEachDatabase(t, testMigrate) }

func testMigrate(t *testing.T, c sqldb.Config) {
	db := open(t, c)
	must.Succeed(t, addNote(t.Context(), db, "old", nil))
	newer := append(schema[:1:1], "ALTER TABLE notes ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")
	broken := append(newer[:2:2], "CREATE TABLE half (x BIGINT); CREATE TABLE notes (x BIGINT)")
	must.Require(t, db.Migrate(t.Context(), "notes", broken) != nil, "a broken step was accepted")
	for range 2 {
		must.Succeed(t, db.Migrate(t.Context(), "notes", newer))
	}
	var colour string
	err := db.Read(t.Context(), func(r *sqldb.Reader) error { return r.QueryRow("SELECT colour FROM notes").Scan(&colour) })
	must.Hold(t, err == nil && colour == "red", "the new column:", colour, err)
	// An empty step is a version that was never released: a database of that version is rejected.
	for version, steps := range [][]string{nil, {"CREATE TABLE early (x BIGINT)"}, {"", "CREATE TABLE early (x BIGINT)"}} {
		component := fmt.Sprint("from version ", version)
		must.Equal(t, db.Migrate(t.Context(), component, steps), nil, component)
		err := db.Migrate(t.Context(), component, []string{"", "", "CREATE TABLE IF NOT EXISTS late (x BIGINT)"})
		rejected := err != nil && strings.Contains(err.Error(), fmt.Sprintf("version %d, which was never released; this program opens version 3", version))
		must.Hold(t, rejected == (version > 0) && (err == nil || rejected), "migrating", component, "returned", err)
		must.Equal(t, db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec("DROP TABLE IF EXISTS early"); return err }), nil)
	}
	must.Equal(t, db.Migrate(t.Context(), "others", nil), nil, "another component")
	// An older program works with later steps if none of them is breaking, the last or an earlier one.
	err = errors.Join(db.Migrate(t.Context(), "notes", schema), addNote(t.Context(), db, "by an older program", nil), db.CheckVersions(t.Context()))
	must.Hold(t, err == nil, "an older program:", err)
	renamed := append(newer[:2:2], sqldb.Breaking+"ALTER TABLE notes RENAME COLUMN colour TO shade", "CREATE TABLE shades (x BIGINT)")
	db.BeforeBreaking(func(context.Context) error { return errors.New("not now") })
	must.ErrorContains(t, db.Migrate(t.Context(), "notes", renamed), "not now")
	db.BeforeBreaking(func(context.Context) error { return nil })
	for _, steps := range [][]string{newer, renamed, renamed[:3]} {
		must.Equal(t, db.Migrate(t.Context(), "notes", steps), nil)
	}
	for range 2 {
		must.ErrorIs(t, db.Migrate(t.Context(), "notes", newer), sqldb.ErrNewer, "Migrate of an older program")
	}
	must.ErrorIs(t, db.CheckVersions(t.Context()), sqldb.ErrNewer, "CheckVersions of an older program")
	must.ErrorIs(t, addNote(t.Context(), db, "too late", nil), sqldb.ErrClosed, "a write of an older program")
}

func TestReclaim(t *testing.T) {
	db := open(t, sqldb.Config{Dir: t.TempDir()})
	for i := range 20 {
		must.Succeed(t, addNote(t.Context(), db, fmt.Sprint(i), make([]byte, 100_000)))
	}
	pages := func() (n int) {
		must.Succeed(t, db.Read(t.Context(), func(r *sqldb.Reader) error { return r.QueryRow("PRAGMA page_count").Scan(&n) }))
		return n
	}
	full := pages()
	must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error { return must.Err(tx.Exec("DELETE FROM notes")) }))
	must.Succeed(t, db.Reclaim(t.Context(), 10, 100))
	must.Equal(t, pages(), full-100, "the number of pages after a Reclaim of 100 pages")
	for range 10 {
		must.Succeed(t, db.Reclaim(t.Context(), 10, 100))
	}
	n := pages()
	must.Hold(t, n >= 10 && n <= full/10, n, "of", full, "pages are left, want 10 to", full/10)
}

// The database works in virtual time, and leaves no goroutine behind.
func TestVirtualTime(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c sqldb.Config) {
		synctest.Test(t, func(t *testing.T) {
			db := must.Do(sqldb.Open(t.Context(), c))(t)
			must.Succeed(t, db.Migrate(t.Context(), "notes", schema))
			start := time.Now()
			for i := range 10 {
				time.Sleep(24 * time.Hour)
				must.Succeed(t, addNote(t.Context(), db, fmt.Sprint(i), nil))
			}
			n, d := countNotes(t, db), time.Since(start)
			must.Hold(t, n == 10 && d == 240*time.Hour, "the database has", n, "rows after", d, "want 10 rows after 240 h")
			must.Succeed(t, db.Close())
		})
	})
}

func BenchmarkWrite(b *testing.B) {
	for _, c := range []sqldb.Config{{}, {Dir: b.TempDir()}} {
		b.Run("file="+fmt.Sprint(c.Dir != ""), func(b *testing.B) {
			db := must.Do(sqldb.Open(b.Context(), c))(b)
			defer db.Close()
			must.Succeed(b, db.Migrate(b.Context(), "notes", schema))
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					must.Succeed(b, db.Write(b.Context(), func(tx *sqldb.Tx) error {
						return must.Err(tx.Exec("INSERT INTO notes (name, body) VALUES (hex(randomblob(16)), ?)", make([]byte, 1000)))
					}))
				}
			})
		})
	}
}
