package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// terminal shows the output of workers and the log of the jobrunner for people: time,
// level, text. A bar marks lines that a handler prints.
type terminal struct {
	minLevel slog.Level // lower log lines are not shown
	showIDs  bool       // of several workers
	onlyJob  string     // id of the job that all lines are about; "" where they may be about several
	repeats  repeats

	mu  sync.Mutex
	out io.Writer
}

// printedMark replaces the level of lines that a handler prints.
const printedMark = "│"

// Write writes a worker's line, which follows the worker's id.
func (t *terminal) Write(line []byte) (int, error) {
	id, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	t.repeats.write(id, text, func(text string) { t.showLine(now(), id, text) })
	return len(line), nil
}

// now is the time as lines show it.
func now() string { return time.Now().Format(time.TimeOnly) }

// showLine shows a line of a worker's log, of a time.
func (t *terminal) showLine(at, id, text string) {
	if message, ok := strings.CutPrefix(text, run.SystemPrefix); ok {
		t.showAt(at, "INFO", id, "jobrunner: "+message)
		return
	}
	l := logline.Parse(text)
	switch {
	case l.Printed():
		t.showAt(at, printedMark, id, l.Text)
	case levelOf(l.Level) >= t.minLevel:
		if l.Job != "" && l.Job != t.onlyJob {
			l.Text = "[" + shortID(l.Job) + "] " + l.Text
		}
		t.showAt(at, l.Level, id, l.Text)
	}
}

func levelOf(name string) slog.Level {
	return map[string]slog.Level{"DEBUG": slog.LevelDebug, "WARN": slog.LevelWarn, "ERROR": slog.LevelError}[name]
}

// show writes a text of now.
func (t *terminal) show(level, id, text string) { t.showAt(now(), level, id, text) }

// showAt writes a text, and indents its further lines.
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
		_, _ = fmt.Fprintln(t.out, strings.TrimRight(head+colour.ReplaceAllString(line, ""), " ")) // fails if nobody reads the output
	}
}

// colour matches escape sequences that only style text. The filter of stdout makes
// others visible.
var colour = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

// shortID is the end of an id, which is enough to distinguish a few: ids begin with the
// time.
func shortID(id string) string {
	if len(id) <= 12 {
		return id
	}
	return "…" + id[len(id)-12:]
}

// logger is the logger of the jobrunner itself.
func (t *terminal) logger() *slog.Logger { return slog.New(terminalHandler{t}) }

// terminalHandler shows records without the name of the only endpoint, and with the
// reason below the message.
type terminalHandler struct{ t *terminal }

func (h terminalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= max(h.t.minLevel, slog.LevelWarn)
}

func (h terminalHandler) Handle(_ context.Context, r slog.Record) error {
	text, id, details := r.Message, "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "endpoint":
		case "worker":
			id = a.Value.String()
		case "reason":
			reason, _, _ := strings.Cut(a.Value.String(), ". The end of its log:") // the log was shown before
			details += "\n" + reason
		default:
			text += fmt.Sprintf(", %s: %v", a.Key, a.Value)
		}
		return true
	})
	level := r.Level.String()
	h.t.show(level, id, text+details)
	return nil
}

func (h terminalHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h terminalHandler) WithGroup(string) slog.Handler      { return h }
