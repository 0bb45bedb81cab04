//go:build unix

package httplimit

import (
	"math"
	"syscall"
)

// descriptors is the process's limit of open file descriptors.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
