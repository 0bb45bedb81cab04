// Package smalldisk mounts file systems that tests can fill.
package smalldisk

import (
	"context"
	"os/exec"
	"testing"
)

// Mount mounts a file system of a size, such as 12m, or skips the test, for example without root.
func Mount(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "mode=0700,size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small disk can't be mounted here: %s %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmounting: %s %s", err, out)
		}
	})
	return dir
}
