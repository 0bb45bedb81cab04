// Package durable writes files that outlive a crash of the machine.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a file, which only its owner can read, atomically and durably.
func WriteFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails if the file was renamed
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // make the file name durable
		_ = errors.Join(dir.Sync(), dir.Close()) // Windows flushes names with the file
	}
	return nil
}
