//go:build unix

package sqldb

import (
	"fmt"
	"os"
)

// onlyOwnerWrites rejects a file or folder that other users can write, because the state
// determines what runs on this machine.
func onlyOwnerWrites(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by other users of this machine (mode %04o), who could choose what runs here: run chmod go-w %q", path, info.Mode().Perm(), path)
	}
	return nil
}
