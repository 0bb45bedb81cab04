package sqldb_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Opening the database and Check detect a damaged page.
func TestDamageIsNoticed(t *testing.T) {
	dir := t.TempDir()
	if err := sqldb.Check(dir); err != nil {
		t.Error(err)
	}
	db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), "notes", schema); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
		for i := range 2000 {
			if _, err := tx.Exec("INSERT INTO notes (name, body) VALUES (?, ?)", fmt.Sprint(i), bytes.Repeat([]byte("x"), 100)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := sqldb.Check(dir); err != nil {
		t.Errorf("Check of the open database: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "jobrunner.db")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, bytes.Repeat([]byte("x"), 100)) / 4096 * 4096
	copy(text[at:], bytes.Repeat([]byte{0xff}, 4096))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqldb.Check(dir); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("Check of the damaged database: %v", err)
	}
	if db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("opening the damaged database: %v", err)
		db.Close()
	}
}
