package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// Line is a line that a worker wrote, or that the jobrunner says of it.
type Line struct {
	Number int64 // counted from 0
	Time   time.Time
	Text   string
	System bool   // the jobrunner's
	Job    string // the only one that could have written it; "" if that isn't known
}

// Log keeps the latest lines of a worker, without secrets. Its methods may be
// called from many goroutines.
type Log struct {
	config  LogConfig
	secrets []string

	mu       sync.Mutex
	job      string // see Line.Job
	partial  []byte
	cut      int // bytes of the partial line that are not kept
	lines    []Line
	size     int // bytes of lines
	next     int64
	changed  chan struct{} // closed at the next line, or at the end
	finished bool
}

// LogConfig says whose lines a log has, and how many of them.
type LogConfig struct {
	Clock *clock.Clock
	ID    string       // of the worker
	Also  io.Writer    // takes each line, behind the id; nil: none
	Most  int          // lines that are kept; 0: maxLines
	Bytes int          // that are kept of all lines; 0: maxText
	Keep  func(l Line) // is called with each line, while the log is locked; nil: not
	From  []Line       // those of a log before it
}

// NewLog makes a log without further lines.
func NewLog(c LogConfig) *Log {
	c.Most, c.Bytes = cmp.Or(c.Most, maxLines), cmp.Or(c.Bytes, maxText)
	l := &Log{config: c, changed: make(chan struct{})}
	for _, line := range c.From {
		l.size += len(line.Text)
		l.next = line.Number + 1
	}
	l.lines, l.config.From = c.From, nil
	l.trim()
	return l
}

// Hide keeps secrets out of all lines from now on.
func (l *Log) Hide(secrets ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range secrets {
		if s == "" {
			continue
		}
		l.secrets = append(l.secrets, s)
		// Loggers that write JSON escape what is special in it.
		if quoted, err := json.Marshal(s); err == nil && string(quoted[1:len(quoted)-1]) != s {
			l.secrets = append(l.secrets, string(quoted[1:len(quoted)-1]))
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
		room := max(0, maxRead+l.longestSecret()-len(l.partial)) // so that no secret is cut in two
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
		text = cutLine(text, l.cut+max(0, over))
	}
	l.partial, l.cut = l.partial[:0], 0
	l.add(text, false)
}

// cutLine makes a line that is too long short enough. Of a logger's line the
// message is kept, and the end of it, where a traceback has its cause.
func cutLine(text string, cut int) string {
	if line := logline.Parse(text); !line.Printed() {
		return line.Level + " | " + logline.Shorten(line.Text, maxLine)
	}
	return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:min(maxLine, len(text))], ""), cut)
}

// add keeps a line. The log is locked.
func (l *Log) add(text string, system bool) {
	line := Line{Number: l.next, Time: l.config.Clock.Now(), Text: text, System: system, Job: l.job}
	l.lines = append(l.lines, line)
	l.next++
	l.size += len(text)
	l.trim()
	if l.config.Keep != nil {
		l.config.Keep(line)
	}
	if l.config.Also != nil {
		if system {
			text = SystemPrefix + text
		}
		_, _ = fmt.Fprintf(l.config.Also, "%s %s\n", l.config.ID, text) // whoever looks may look away
	}
	l.wake()
}

// trim drops the oldest lines of too many. The log is locked.
func (l *Log) trim() {
	for len(l.lines) > l.config.Most || l.size > l.config.Bytes {
		l.size -= len(l.lines[0].Text)
		l.lines = l.lines[1:]
	}
}

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// runs makes job the writer of the lines that follow; "" names none.
func (l *Log) runs(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.end()
	}
	l.job = job
}

// Note adds a line of the jobrunner's own, behind all that the worker wrote.
func (l *Log) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.end()
	}
	l.add(text, true)
}

// SystemPrefix is in front of what the jobrunner itself says of a worker, where
// lines of both kinds are written to one place.
const SystemPrefix = "[jobrunner] "

// Finish says that nothing more comes.
func (l *Log) Finish() {
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

// tail is the end of what the worker wrote, for people, of at most so many
// bytes.
func (l *Log) tail(most int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, line := range l.lines {
		if !line.System {
			texts = append(texts, line.Text)
		}
	}
	return logline.End(texts, lastLines, most)
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
