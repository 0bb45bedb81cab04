package jobrunnertest

import (
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// environ returns this process's environment with other values of some variables.
func environ(variables []string) []string {
	all := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(variables, func(other string) bool { return strings.HasPrefix(other, name+"=") })
	})
	return append(all, variables...)
}

// testLog writes to the test's log until the test ends: after that it would panic.
type testLog struct {
	mu sync.Mutex
	w  io.Writer // nil once the test has ended
}

func (l *testLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return len(text), nil
	}
	return l.w.Write(text)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = nil
}
