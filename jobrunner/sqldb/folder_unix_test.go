//go:build unix

package sqldb_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A folder or database that other users can write is rejected with the command that fixes it. An
// emptied database isn't treated as new unless the marker of an interrupted first start exists.
func TestFolderWritableByOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	database := filepath.Join(dir, "jobrunner.db")
	reopen := func() error {
		db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: dir})
		if err != nil {
			return err
		}
		return db.Close()
	}
	expectRejected := func(want string) {
		t.Helper()
		must.ErrorContains(t, reopen(), want)
		must.ErrorContains(t, sqldb.Check(dir), want)
	}
	must.Succeed(t, reopen())
	for path, mode := range map[string]os.FileMode{dir: 0o700, database: 0o600} {
		for _, others := range []os.FileMode{0o002, 0o020} {
			must.Succeed(t, os.Chmod(path, mode|others))
			expectRejected(`chmod go-w "` + path + `"`)
		}
		must.Succeed(t, os.Chmod(path, mode))
	}
	must.Succeed(t, reopen())
	must.Succeed(t, os.Truncate(database, 0))
	expectRejected(database + " is empty")
	expectRejected("remove the file")
	must.Succeed(t, os.WriteFile(database+".new", nil, 0o600))
	must.Succeed(t, reopen())
	must.Hold(t, must.Err(os.Stat(database+".new")) != nil, "the marker of the first start still exists")
}
