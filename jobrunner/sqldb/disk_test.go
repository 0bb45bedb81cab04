package sqldb_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/smalldisk"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// fillDisk adds rows, ever smaller ones, until a byte doesn't fit. It returns their names.
func fillDisk(t *testing.T, db *sqldb.DB, size int) (names []string) {
	t.Helper()
	for ; size > 0; size /= 4 {
		for {
			name := fmt.Sprintf("%d of %d bytes", len(names), size)
			err := addNote(t.Context(), db, name, []byte(strings.Repeat("x", size)))
			if errors.Is(err, sqldb.ErrFull) {
				break
			}
			must.Succeed(t, err)
			names = append(names, name)
		}
	}
	return names
}

// On a full disk a plain write fails without loss, writes with the reserve succeed as long as
// they don't use it up, and the database opens. A deletion makes room, each time.
func TestReserveOnFullDisk(t *testing.T) {
	for _, size := range []int{4000, 300_000, 3_000_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			disk := smalldisk.Mount(t, "40m")
			db := open(t, sqldb.Config{Dir: filepath.Join(disk, "data")})
			for round := range 3 {
				names := fillDisk(t, db, size)
				must.Equal(t, countNotes(t, db), len(names), "round", round, "the number of notes")
				grown, last := names[len(names)-2], names[len(names)-1] // the smallest rows
				set := func(name, column string, value any) error {
					return db.WriteWithReservedSpace(t.Context(), func(tx *sqldb.Tx) error {
						return must.Err(tx.Exec("UPDATE notes SET "+column+" = ? WHERE name = ?", value, name))
					})
				}
				var err error
				for bytes := 0; err == nil; bytes += 50_000 {
					err = set(grown, "body", make([]byte, bytes))
				}
				must.ErrorIs(t, err, sqldb.ErrFull)
				// A change of the reserve's size succeeds 1,000 times, because each returns the space that it used.
				for i := range 1000 {
					must.Succeed(t, set(last, "name", fmt.Sprint("changed ", i)), "round", round, "change", i)
					last = fmt.Sprint("changed ", i)
				}
				if round%2 == 0 {
					must.Succeed(t, db.Close())
					db = open(t, sqldb.Config{Dir: filepath.Join(disk, "data")})
				}
				must.Equal(t, countNotes(t, db), len(names), "the number of notes after a restart")
				must.Succeed(t, db.WriteWithReservedSpace(t.Context(), func(tx *sqldb.Tx) error {
					return must.Err(tx.Exec("DELETE FROM notes"))
				}))
			}
			must.Equal(t, addNote(t.Context(), db, "again", make([]byte, size)), nil, "a write with free space again")
		})
	}
}

// Opening the database, Check and a backup detect damage, and say what to do.
func TestDamageIsNoticed(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, sqldb.Check(dir))
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{Dir: dir}))(t)
	must.Succeed(t, db.Migrate(t.Context(), "notes", schema))
	must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		for i := range 2000 {
			if _, err := tx.Exec("INSERT INTO notes (name, body) VALUES (?, ?)", fmt.Sprint(i), bytes.Repeat([]byte("x"), 100)); err != nil {
				return err
			}
		}
		return nil
	}))
	must.Equal(t, sqldb.Check(dir), nil, "Check of the open database")
	must.Succeed(t, db.Close())
	file := filepath.Join(dir, "jobrunner.db")
	must.Succeed(t, os.Mkdir(file+"-wal", 0o700))
	err := sqldb.Check(dir)
	must.Hold(t, err != nil && !strings.Contains(err.Error(), "damaged"), "a database that can't be read:", err)
	must.Succeed(t, os.Remove(file+"-wal"))
	text := must.ReadFile(t, file)
	offset := bytes.Index(text, bytes.Repeat([]byte("x"), 100)) / 4096 * 4096
	page, garbage := slices.Clone(text), bytes.Repeat([]byte("garbage"), 1000)
	copy(page[offset:], bytes.Repeat([]byte{0xff}, 4096))
	for name, damaged := range map[string][]byte{
		"a damaged page": page, "cut off": text[:len(text)/2/4096*4096], "not a database": garbage,
	} {
		must.Succeed(t, os.WriteFile(file, damaged, 0o600))
		db, openErr := sqldb.Open(t.Context(), sqldb.Config{Dir: dir})
		if openErr == nil {
			db.Close()
		}
		for what, err := range map[string]error{"Check": sqldb.Check(dir), "Open": openErr} {
			must.Hold(t, err != nil && strings.Count(err.Error(), "the database is damaged: restore a backup") == 1, name, what, "returned", err)
		}
	}
	must.Succeed(t, os.WriteFile(file, garbage, 0o600))
	must.ErrorContains(t, sqldb.Backup(dir, t.TempDir()), "is damaged")
}
