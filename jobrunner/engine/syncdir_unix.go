//go:build unix

package engine

import (
	"errors"
	"os"
)

// syncDir makes the file names in a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // a folder of the program's own
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
