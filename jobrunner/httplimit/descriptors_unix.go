//go:build unix

package httplimit

import (
	"math"
	"syscall"
)

// Descriptors returns the process's limit of open file descriptors.
func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
