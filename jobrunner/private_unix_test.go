//go:build unix

package jobrunner_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// Other users of the machine can't read or write the data folder, even if the umask allows it.
func TestDataFolderIsPrivate(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	dir := filepath.Join(t.TempDir(), "state", "data")
	must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "other"}))(t)
	d := deployWith(t, jobrunner.Config{DataDir: dir})
	for path, body := range map[string]string{
		"/v2/registries": `{"name":"r","username":"u","password":"p"}`, "/v2/network-volumes": `{"name":"v","size":10,"dataCenter":"EU-RO-1"}`, "/v2/serverless": `{"name":"e","image":"builtin/echo"}`,
	} {
		d.must(201, "POST", path, body)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files++
		must.Equal(t, info.Mode().Perm()&0o077, 0, "the access of others to", path, info.Mode())
		return nil
	})
	must.Hold(t, err == nil && files >= 4, files, "files", err)
}
