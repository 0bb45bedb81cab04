package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// newName is a file that marks a database in creation. While it exists, an empty database
// file comes from an interrupted first start.
const newName = fileName + ".new"

// makeFile creates the database file if it is missing. It rejects a file that other users
// can write, or that has lost its content.
func makeFile(dir string) (path string, err error) {
	path, mark := filepath.Join(dir, fileName), filepath.Join(dir, newName)
	if err := onlyOwnerWrites(dir); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		for _, name := range []string{mark, path} {
			f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				return "", fmt.Errorf("making the database: %w", err)
			}
		}
		return path, nil
	case err != nil:
		return "", fmt.Errorf("opening the database: %w", err)
	case info.Size() > 0:
		return path, onlyOwnerWrites(path)
	}
	if _, err := os.Stat(mark); err != nil {
		return "", fmt.Errorf("the database %s is empty, and was not when it was made: restore it from a backup, or remove the file to begin with none of its jobs and objects", path)
	}
	return path, onlyOwnerWrites(path)
}

// removeNewMark removes the mark once the database has content.
func removeNewMark(path string) error {
	err := os.Remove(filepath.Join(filepath.Dir(path), newName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}
