package apikey

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// movedName is a marker file next to the keys' file. It means that a database has taken over the
// keys. Without it, a deployment that reads the keys' file would accept keys that were revoked in
// the database.
const movedName = "keys.json.moved"

const movedText = "The deployment's PostgreSQL database has taken over the keys of keys.json. Manage them there:\njobrunner keys --engine-file FILE. Remove this file to use keys.json again, with keys that were removed since.\n"

// CheckMoved returns an error if a database has taken over the file's keys.
func (f *File) CheckMoved() error {
	moved, err := exists(f.marker())
	if moved {
		err = fmt.Errorf("the API keys of %s are in the deployment's database: name the database with --engine-file, --engine or GPUCLOUD_ENGINE. To use the keys in the file again, also keys that the database no longer has, remove %s", filepath.Dir(f.path), f.marker())
	}
	return err
}

func (f *File) marker() string { return filepath.Join(filepath.Dir(f.path), movedName) }

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the API keys: %w", err)
	}
	return true, nil
}

// setMoved writes the marker file if the keys' file exists.
func (f *File) setMoved() error {
	if found, err := exists(f.path); err != nil || !found {
		return err
	}
	if moved, err := exists(f.marker()); err != nil || moved {
		return err
	}
	if err := os.WriteFile(f.marker(), []byte(movedText), 0o600); err != nil {
		return fmt.Errorf("noting that the API keys are in the database: %w", err)
	}
	return nil
}
