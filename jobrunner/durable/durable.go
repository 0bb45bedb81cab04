// Package durable writes files that outlive a crash of the machine.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a file, which only its owner can read, atomically and durably.
func WriteFile(path string, content []byte) error { return write(path, content, os.Rename) }

// CreateFile is WriteFile for a new file. If the file exists, CreateFile returns os.ErrExist. On a file
// system without hard links, it replaces the file.
func CreateFile(path string, content []byte) error {
	return write(path, content, func(from, to string) error {
		if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
			return err
		}
		return os.Rename(from, to)
	})
}

func write(path string, content []byte, place func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails if the file was renamed
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), path); err != nil {
		return err
	}
	SyncFolderOf(path)
	return nil
}

// SyncFolderOf makes the name of a file durable.
func SyncFolderOf(path string) {
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = errors.Join(dir.Sync(), dir.Close()) // Windows flushes names with the file
	}
}
