package sqldb_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// mountSmallDisk mounts a file system of a size. It needs root.
func mountSmallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=0700,size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("can't mount a small disk: %s %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmounting: %s %s", err, out)
		}
	})
	return dir
}

// fillDisk adds rows of a size, then smaller ones, until a row of one byte doesn't fit. It
// returns their names.
func fillDisk(t *testing.T, db *sqldb.DB, size int) (names []string) {
	t.Helper()
	for ; size > 0; size /= 4 {
		for {
			name := fmt.Sprintf("%d of %d bytes", len(names), size)
			err := add(t.Context(), db, name, []byte(strings.Repeat("x", size)))
			if errors.Is(err, sqldb.ErrFull) {
				break
			}
			must.Succeed(t, err)
			names = append(names, name)
		}
	}
	return names
}

// On a full disk a plain write fails without loss, writes with the reserve succeed, and the
// database opens.
func TestReserve(t *testing.T) {
	for _, size := range []int{4000, 300_000, 3_000_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			disk := mountSmallDisk(t, "40m")
			db := open(t, sqldb.Config{Dir: filepath.Join(disk, "data")})
			names := fillDisk(t, db, size)
			if n := count(t, db); n != len(names) {
				t.Fatalf("%d notes, want %d", n, len(names))
			}
			// Changes that free no space, and more of them than fit in the reserve.
			last := &names[len(names)-1] // the smallest row
			for i := range 1000 {
				err := db.WriteWithReserve(t.Context(), func(tx *sqldb.Tx) error {
					n, err := tx.Exec("UPDATE notes SET name = ? WHERE name = ?", fmt.Sprint("changed ", i), *last)
					if err == nil && n != 1 {
						err = fmt.Errorf("%d rows changed", n)
					}
					return err
				})
				if err != nil {
					t.Fatalf("change %d: %v", i, err)
				}
				*last = fmt.Sprint("changed ", i)
			}
			must.Succeed(t, db.Close())
			db = open(t, sqldb.Config{Dir: filepath.Join(disk, "data")})
			must.Equal(t, count(t, db), len(names), "notes after a restart")
			err := db.WriteWithReserve(t.Context(), func(tx *sqldb.Tx) error {
				n, err := tx.Exec("DELETE FROM notes")
				if err == nil && n != int64(len(names)) {
					err = fmt.Errorf("%d rows deleted, want %d", n, len(names))
				}
				return err
			})
			must.Succeed(t, err)
			if err := add(t.Context(), db, "again", make([]byte, size)); err != nil {
				t.Errorf("with room again: %v", err)
			}
		})
	}
}
