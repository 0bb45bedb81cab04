//go:build unix

package apikey_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// A file that root writes belongs to the folder's owner, even if the folder is a link or an earlier file is root's.
func TestRootChangesKeysOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	const owner, group = 12345, 12346
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	path := filepath.Join(dir, apikey.FileName)
	must.Succeed(t, os.Symlink(dir, link))
	expectOwner := func(what string, uid, gid uint32) {
		t.Helper()
		info := must.Do(os.Stat(path))(t)
		stat, ok := info.Sys().(*syscall.Stat_t)
		must.Hold(t, ok && stat.Uid == uid && stat.Gid == gid && info.Mode().Perm() == 0o600, what, "the file belongs to", stat, "mode", info.Mode())
	}
	addKey(t, apikey.FileIn(dir), "of-root")
	expectOwner("root's folder", 0, uint32(os.Getegid()))
	if err := os.Chown(dir, owner, group); err != nil {
		t.Skip("this root may not give files away: ", err)
	}
	addKey(t, apikey.FileIn(link), "of-another")
	expectOwner("another user's folder", owner, group)
	must.Succeed(t, apikey.FileIn(link).Remove("of-root"))
	expectOwner("after a removal", owner, group)
}
