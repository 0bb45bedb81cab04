// Package livelog has a log that tests read, and wait on, while it is written.
package livelog

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// Log collects what is written to it. The zero value is an empty log.
type Log struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed by the next write; nil if no test waits
}

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return l.text.Write(b)
}

// WriteLine implements run.Output. It ignores the mark, which identifies the line.
func (l *Log) WriteLine(text, _ string) { _, _ = l.Write([]byte(text + "\n")) }

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Await waits until the log has a text n times, and returns the log.
func (l *Log) Await(t testing.TB, text string, n int) string {
	t.Helper()
	return l.Until(t, text, func(log string) bool { return strings.Count(log, text) >= n })
}

// Until waits until the log is complete, and returns it. It waits for three minutes at most.
func (l *Log) Until(t testing.TB, what string, complete func(log string) bool) string {
	t.Helper()
	for timeout := time.After(3 * time.Minute); ; {
		l.mu.Lock()
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed, log := l.changed, l.text.String()
		l.mu.Unlock()
		if complete(log) {
			return log
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("after three minutes the log lacks %q:\n%s", what, log)
		}
	}
}
