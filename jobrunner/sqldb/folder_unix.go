//go:build unix

package sqldb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir locks the folder until unlockDir or the end of the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlockDir releases the lock. Closing the file isn't enough, because a child process that
// is being started has a copy of it until exec.
func unlockDir(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// onlyOwnerWrites rejects what other users can write: the state decides what runs on this machine.
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
