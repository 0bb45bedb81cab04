//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

// A state that other users can write is rejected with the command that fixes it. An emptied state
// isn't treated as a new one.
func TestFolderOfOthers(t *testing.T) {
	acctest.LeaveToCI(t, "sqldb.TestInvalidFolder and TestFolder have its parts")
	t.Parallel()
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	data := filepath.Join(t.TempDir(), "data")
	p := serve(t, env, "--data="+data)
	p.interrupt()
	database := filepath.Join(data, "jobrunner.db")
	for _, path := range []string{data, database} {
		for _, others := range []os.FileMode{0o002, 0o020} {
			was, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, was.Mode().Perm()|others); err != nil {
				t.Fatal(err)
			}
			said := mustFail(t, env, "serve", "--listen=127.0.0.1:0", "--data="+data)
			if !strings.Contains(said, `chmod go-w "`+path+`"`) {
				t.Errorf("%s with mode %o: said %q", path, was.Mode().Perm()|others, said)
			}
			if err := os.Chmod(path, was.Mode().Perm()); err != nil {
				t.Fatal(err)
			}
		}
	}
	serve(t, env, "--data="+data).interrupt()

	if err := os.Truncate(database, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if said := mustFail(t, env, "serve", "--listen=127.0.0.1:0", "--data="+data); !strings.Contains(said, database+" is empty") || !strings.Contains(said, "remove the file") {
			t.Errorf("an empty database: said %q", said)
		}
	}
	// An interrupted first start can be repeated, because it left a marker.
	put(t, filepath.Join(data, "jobrunner.db.new"), "")
	serve(t, env, "--data="+data).interrupt()
	if _, err := os.Stat(filepath.Join(data, "jobrunner.db.new")); err == nil {
		t.Error("the marker of the first start still exists")
	}
}
