package main

import "golang.org/x/sys/windows"

// freeBytes returns the space on a folder's disk that is available to this user.
func freeBytes(dir string) (free uint64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return free, err
}
