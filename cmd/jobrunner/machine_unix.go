//go:build unix

package main

import "golang.org/x/sys/unix"

// freeBytes is what this user may still write to a folder's disk.
func freeBytes(dir string) (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return uint64(disk.Bavail) * uint64(disk.Bsize), nil //nolint:gosec,unconvert // both are sizes; FreeBSD has them signed
}
