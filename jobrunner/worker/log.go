package worker

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// Line is a line that a worker wrote.
type Line struct {
	Number int64 // counted from 0
	Time   time.Time
	Text   string
}

// Log keeps the latest lines of a worker, without secrets. Its methods may be
// called from many goroutines.
type Log struct {
	clock   *clock.Clock
	also    io.Writer // nil: nowhere
	prefix  string
	secrets []string

	mu       sync.Mutex
	partial  []byte
	cut      int // bytes of the partial line that are not kept
	lines    []Line
	size     int // bytes of lines
	next     int64
	changed  chan struct{} // closed at the next line, or at the end
	finished bool
}

func newLog(c *clock.Clock, worker string, also io.Writer) *Log {
	return &Log{clock: c, prefix: worker, also: also, changed: make(chan struct{})}
}

// hide keeps secrets out of all lines from now on.
func (l *Log) hide(secrets ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range secrets {
		if s != "" {
			l.secrets = append(l.secrets, s)
		}
	}
	// A secret may be a part of another one, which is hidden first.
	slices.SortFunc(l.secrets, func(a, b string) int { return len(b) - len(a) })
}

// Write takes what a worker writes, in any pieces. It does not fail.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		room := max(0, maxLine+l.longestSecret()-len(l.partial)) // so that none is cut in two
		l.partial = append(l.partial, line[:min(room, len(line))]...)
		l.cut += max(0, len(line)-room)
		if whole {
			l.end()
		}
		b = rest
	}
	return n, nil
}

func (l *Log) longestSecret() int {
	if len(l.secrets) == 0 {
		return 0
	}
	return len(l.secrets[0])
}

// end makes a line of what came since the last one. The log is locked.
func (l *Log) end() {
	text := strings.ToValidUTF8(strings.TrimSuffix(string(l.partial), "\r"), "\uFFFD")
	for _, secret := range l.secrets {
		text = strings.ReplaceAll(text, secret, "(secret)")
	}
	if over := len(text) - maxLine; over > 0 || l.cut > 0 {
		cut := l.cut + max(0, over)
		text = fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:min(maxLine, len(text))], ""), cut)
	}
	l.partial, l.cut = l.partial[:0], 0
	l.lines = append(l.lines, Line{l.next, l.clock.Now(), text})
	l.next++
	l.size += len(text)
	for len(l.lines) > maxLines || l.size > maxText {
		l.size -= len(l.lines[0].Text)
		l.lines = l.lines[1:]
	}
	if l.also != nil {
		_, _ = fmt.Fprintf(l.also, "%s %s\n", l.prefix, text) // whoever looks may look away
	}
	l.wake()
}

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// finish says that nothing more comes.
func (l *Log) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.end()
	}
	l.finished = true
	l.wake()
}

// Lines are those that are kept from a number on, the oldest first. To follow a
// log, ask for those after the last one whenever more is closed; it is nil after
// the worker's end.
func (l *Log) Lines(from int64) (lines []Line, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.lines, from, func(line Line, n int64) int { return int(line.Number - n) })
	if !l.finished {
		more = l.changed
	}
	return slices.Clone(l.lines[i:]), more
}

// tail is the last lines in one text.
func (l *Log) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, line := range l.lines[max(0, len(l.lines)-n):] {
		texts = append(texts, line.Text)
	}
	return strings.Join(texts, "\n")
}

// serialized lets several workers write lines to one place.
type serialized struct {
	mu sync.Mutex
	to io.Writer
}

func (s *serialized) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(b)
}
