//go:build unix

package bench_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func (s *subject) cpuTime() time.Duration { return cpuTime(s.pid) }

// cpuTime returns a process's processor time from /proc, or zero on systems without it.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // skips the name, which may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	const tick = 10 * time.Millisecond // on all of Go's Linux architectures
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// residentMemory returns the process's resident set in bytes from /proc, or zero on systems
// without it.
func (s *subject) residentMemory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
