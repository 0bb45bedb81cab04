package sqldb_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

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
	err := sqldb.Check(dir)
	must.Hold(t, err == nil, "Check of the open database", err)
	must.Succeed(t, db.Close())
	file := filepath.Join(dir, "jobrunner.db")
	must.Succeed(t, os.Mkdir(file+"-wal", 0o700))
	err = sqldb.Check(dir)
	must.Hold(t, err != nil && !strings.Contains(err.Error(), "damaged"), "a database that can't be read:", err)
	must.Succeed(t, os.Remove(file+"-wal"))
	text := must.ReadFile(t, file)
	at := bytes.Index(text, bytes.Repeat([]byte("x"), 100)) / 4096 * 4096
	page, garbage := slices.Clone(text), bytes.Repeat([]byte("garbage"), 1000)
	copy(page[at:], bytes.Repeat([]byte{0xff}, 4096))
	for name, damaged := range map[string][]byte{
		"a damaged page": page, "cut off": text[:len(text)/2/4096*4096], "not a database": garbage,
	} {
		must.Succeed(t, os.WriteFile(file, damaged, 0o600))
		db, opened := sqldb.Open(t.Context(), sqldb.Config{Dir: dir})
		if opened == nil {
			db.Close()
		}
		for what, err := range map[string]error{"Check": sqldb.Check(dir), "Open": opened} {
			must.Hold(t, err != nil && strings.Count(err.Error(), "the database is damaged: restore a backup") == 1, name, what, "returned", err)
		}
	}
	must.Succeed(t, os.WriteFile(file, garbage, 0o600))
	must.Fail(t, sqldb.Backup(dir, t.TempDir()), "is damaged")
}
