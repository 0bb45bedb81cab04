package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// terminal shows the output of workers and the log of the jobrunner as lines of time,
// level and text. A bar marks lines that a handler prints.
type terminal struct {
	minLevel slog.Level // lowest level of log lines to show
	showIDs  bool       // shows the ids of workers
	onlyJob  string     // id of the job that all lines belong to, or "" if they belong to several
	repeats  repeatFilter

	mu sync.Mutex
	w  io.Writer
}

// printedMark replaces the level of lines that a handler prints.
const printedMark = "│"

// Write shows a line: a worker's id, a blank and the worker's output.
func (t *terminal) Write(line []byte) (int, error) {
	id, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	t.repeats.write(id, text, func(text string) { t.showLine(now(), id, text) })
	return len(line), nil
}

// now returns the current time in the format of lines.
func now() string { return time.Now().Format(time.TimeOnly) }

// showLine shows a line of a worker's log with its time.
func (t *terminal) showLine(at, id, text string) {
	if message, ok := strings.CutPrefix(text, run.SystemPrefix); ok {
		t.showAt(at, "INFO", id, "jobrunner: "+message)
		return
	}
	l := logline.Parse(text)
	switch {
	case l.IsPrinted():
		t.showAt(at, printedMark, id, l.Text)
	case levelOf(l.Level) >= t.minLevel:
		if l.Job != "" && l.Job != t.onlyJob {
			l.Text = "[" + shortID(l.Job) + "] " + l.Text
		}
		t.showAt(at, l.Level, id, l.Text)
	}
}

func levelOf(name string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(name)) // INFO for any other name
	return level
}

// show shows a text with the current time.
func (t *terminal) show(level, id, text string) { t.showAt(now(), level, id, text) }

// showAt shows a text and indents its further lines.
func (t *terminal) showAt(at, level, id, text string) {
	prefix := ""
	if t.showIDs && id != "" {
		prefix = shortID(id) + " "
	}
	head := fmt.Sprintf("%s %-5s %s", at, level, prefix)
	indent := strings.Repeat(" ", len(at)+1) + fmt.Sprintf("%-5s %s", map[bool]string{true: printedMark}[level == printedMark], strings.Repeat(" ", len(prefix)))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			head = indent
		}
		_, _ = fmt.Fprintln(t.w, strings.TrimRight(head+colour.ReplaceAllString(line, ""), " ")) // fails if the reader has closed the pipe
	}
}

// colour matches the escape sequences that only style text. The filter of stdout makes others harmless.
var colour = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

// shortID returns the end of an id. Ids begin with the time, so their ends differ.
func shortID(id string) string {
	if len(id) <= 12 {
		return id
	}
	return "…" + id[len(id)-12:]
}

func (t *terminal) logger() *slog.Logger { return slog.New(terminalHandler{t: t}) }

// terminalHandler shows log records without the endpoint, and with the reason below the message.
type terminalHandler struct {
	t     *terminal
	attrs []slog.Attr // of the logger
}

func (h terminalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= max(h.t.minLevel, slog.LevelWarn)
}

func (h terminalHandler) Handle(_ context.Context, r slog.Record) error {
	text, id, details := r.Message, "", ""
	r = r.Clone()
	r.AddAttrs(h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "endpoint":
		case "worker":
			id = a.Value.String()
		case "reason":
			reason, _, _ := strings.Cut(a.Value.String(), ". The end of its log:") // the terminal has shown the log
			details += "\n" + reason
		default:
			text += fmt.Sprintf(", %s: %v", a.Key, a.Value)
		}
		return true
	})
	h.t.show(r.Level.String(), id, text+details)
	return nil
}

func (h terminalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return terminalHandler{h.t, slices.Concat(h.attrs, attrs)}
}
func (h terminalHandler) WithGroup(string) slog.Handler { return h }

// repeatFilter shows the log of a failed worker only once. It holds back the lines of the next worker while they
// equal the log of the last failure. If that worker fails with the same log, one line replaces the log. If it
// writes a different line, ends in another way, or a job starts, the held-back lines are shown. A completed job
// ends the comparison with that failure.
type repeatFilter struct {
	mu          sync.Mutex
	lastFailure []string                // log of the worker that failed last
	starts      map[string]*workerStart // by worker
}

// workerStart is the log of a worker that may repeat the last failure.
type workerStart struct {
	lines []string // lines so far; nil if it can't repeat the last failure
	shown int      // how many of them were shown
}

// maxComparedLines limits the lines of a worker that are compared.
const maxComparedLines = 200

// write shows a line of a worker, unless it may repeat the last failure.
func (r *repeatFilter) write(id, text string, show func(string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.starts[id]
	if s == nil {
		if r.starts == nil {
			r.starts = map[string]*workerStart{}
		}
		s = &workerStart{lines: []string{}}
		r.starts[id] = s
	}
	exitText, ended := strings.CutPrefix(text, run.SystemPrefix+"the process ended with ")
	if ended {
		delete(r.starts, id)
	}
	if s.lines == nil || !ended && strings.HasPrefix(text, run.SystemPrefix) {
		show(text)
		return
	}
	s.lines = append(s.lines, text)
	n, failure := len(s.lines), ended && !strings.HasPrefix(exitText, "exit status 0")
	isRepeat := n <= len(r.lastFailure) && slices.EqualFunc(s.lines, r.lastFailure[:n], equalOutput)
	switch {
	case failure && isRepeat && n == len(r.lastFailure):
		if n-s.shown > 1 {
			show(run.SystemPrefix + "the same error again")
		} else {
			show(text)
		}
	case isRepeat && !ended:
	case failure:
		s.showHeldBack(show)
		r.lastFailure = s.lines
	default:
		s.showHeldBack(show)
		if n >= maxComparedLines {
			s.lines = nil
		}
	}
}

// release shows all held-back lines, because a running job proves that a worker has started. If a job has
// completed, later lines are shown at once.
func (r *repeatFilter) release(completed bool, show func(id, text string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if completed {
		r.lastFailure = nil
	}
	for id, s := range r.starts {
		s.showHeldBack(func(text string) { show(id, text) })
	}
}

// equalOutput compares two lines. It ignores the details in parentheses at the end of a system line.
func equalOutput(a, b string) bool {
	if strings.HasPrefix(a, run.SystemPrefix) {
		a, _, _ = strings.Cut(a, " (")
		b, _, _ = strings.Cut(b, " (")
	}
	return a == b
}

func (s *workerStart) showHeldBack(show func(string)) {
	for _, text := range s.lines[min(s.shown, len(s.lines)):] {
		show(text)
	}
	s.shown = len(s.lines)
}
