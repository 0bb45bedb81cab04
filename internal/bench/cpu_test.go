//go:build unix

package bench_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpu is the processor time of the process so far, where the system tells it as
// Linux does; else zero.
func (s *subject) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	const tick = 10 * time.Millisecond // of all systems that Go runs on
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}
