//go:build unix

package apikey

import (
	"os"
	"path/filepath"
	"syscall"
)

// giveToOwner gives a new file to the owner of its folder. Otherwise the deployment, which often
// runs as its own user, couldn't read a file written by root.
func giveToOwner(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
