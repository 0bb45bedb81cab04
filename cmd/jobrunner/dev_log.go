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
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// terminal shows what workers write and what the jobrunner says, for people:
// time, level, text. What a handler prints by itself stands beside a bar.
type terminal struct {
	least slog.Level // lines of loggers below it are left out
	named bool       // there are several workers, which are told apart

	mu sync.Mutex
	to io.Writer
}

// printed is in the place of the level of what a handler prints.
const printed = "│"

// Write takes a line of a worker, behind its id.
func (t *terminal) Write(line []byte) (int, error) {
	id, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	if said, ok := strings.CutPrefix(text, worker.SystemPrefix); ok {
		t.show("INFO", id, "jobrunner: "+said)
		return len(line), nil
	}
	l := logline.Parse(text)
	switch {
	case l.Printed():
		t.show(printed, id, l.Text)
	case levelOf(l.Level) >= t.least:
		if l.Job != "" {
			l.Text = "[" + shortID(l.Job) + "] " + l.Text
		}
		t.show(l.Level, id, l.Text)
	}
	return len(line), nil
}

func levelOf(name string) slog.Level {
	return map[string]slog.Level{"DEBUG": slog.LevelDebug, "WARN": slog.LevelWarn, "ERROR": slog.LevelError}[name]
}

// show writes lines, the further ones below the first.
func (t *terminal) show(level, id, text string) {
	who := ""
	if t.named && id != "" {
		who = shortID(id) + " "
	}
	head := fmt.Sprintf("%s %-5s %s", time.Now().Format(time.TimeOnly), level, who)
	indent := strings.Repeat(" ", len(time.TimeOnly)+1) + fmt.Sprintf("%-5s %s", map[bool]string{true: printed}[level == printed], strings.Repeat(" ", len(who)))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			head = indent
		}
		_, _ = fmt.Fprintln(t.to, strings.TrimRight(head+colour.ReplaceAllString(line, ""), " ")) // whoever looks may look away
	}
}

// colour is an escape sequence that only styles text. Others are shown by whoever
// writes to the terminal.
var colour = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

// shortID is the part of an id that tells a few apart.
func shortID(id string) string {
	if rest, ok := strings.CutPrefix(id, "sync-"); ok {
		return "sync-" + rest[:min(len(rest), 8)]
	}
	return id[:min(len(id), 8)]
}

// logger is for what the jobrunner itself says.
func (t *terminal) logger() *slog.Logger { return slog.New(terminalHandler{t}) }

// terminalHandler shows records without what everybody knows of one endpoint,
// and a reason below the message.
type terminalHandler struct{ t *terminal }

func (h terminalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= max(h.t.least, slog.LevelWarn)
}

func (h terminalHandler) Handle(_ context.Context, r slog.Record) error {
	text, id, below := r.Message, "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "endpoint":
		case "worker":
			id = a.Value.String()
		case "reason":
			reason, _, _ := strings.Cut(a.Value.String(), ". The end of its log:") // which was shown
			below += "\n" + reason
		default:
			text += fmt.Sprintf(", %s: %v", a.Key, a.Value)
		}
		return true
	})
	level := r.Level.String()
	h.t.show(level, id, text+below)
	return nil
}

func (h terminalHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h terminalHandler) WithGroup(string) slog.Handler      { return h }
