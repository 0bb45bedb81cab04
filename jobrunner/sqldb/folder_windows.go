package sqldb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir opens the lock file without sharing. Closing it, or the end of the process, releases the lock.
func lockDir(dir string) (*os.File, error) {
	const sharingViolation = syscall.Errno(32)
	name := filepath.Join(dir, lockName)
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, sharingViolation) {
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data folder: %w", err)
	}
	return os.NewFile(uintptr(h), name), nil
}

func unlockDir(f *os.File) error { return f.Close() }

// onlyOwnerWrites is a no-op: the folder's access list decides.
func onlyOwnerWrites(string) error { return nil }
