//go:build unix

package main

import "golang.org/x/sys/unix"

// freeBytes returns the space on a folder's disk that is available to this user.
func freeBytes(dir string) (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return uint64(disk.Bavail) * uint64(disk.Bsize), nil //nolint:gosec,unconvert // never negative; signed on FreeBSD
}
