package pod

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// What is kept of what a pod writes.
const (
	logFile  = "log.jsonl"
	logLines = 5000    // as many as a reader may ask for
	logBytes = 4 << 20 // of all lines
	fileMost = 4 * logBytes
)

// record is a line in the file of a log.
type record struct {
	Number int64     `json:"n"`
	Time   time.Time `json:"t"`
	Text   string    `json:"x"`
	System bool      `json:"s,omitempty"`
	Mark   string    `json:"m,omitempty"` // where to go on after it
}

// keptLog is the log of a pod, in memory and in a file, from which the next run of the
// deployment goes on.
type keptLog struct {
	*worker.Log
	path   string
	logger *slog.Logger

	mu   sync.Mutex // of what follows; taken while the log is locked, and never the other way round
	file *os.File   // nil where nothing can be kept
	size int        // of the file
	mark string
	last []record // that the file is made anew of
}

// openLog reads what a pod wrote before. A line that was cut short by the end of the
// deployment is dropped.
func openLog(folder string, c worker.LogConfig, logger *slog.Logger) *keptLog {
	l := &keptLog{path: filepath.Join(folder, logFile), logger: logger}
	text, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.failed(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		l.last = append(l.last, r)
		if r.Mark != "" {
			l.mark = r.Mark
		}
	}
	l.last = l.last[max(0, len(l.last)-logLines):]
	for _, r := range l.last {
		c.From = append(c.From, worker.Line{Number: r.Number, Time: r.Time, Text: r.Text, System: r.System})
	}
	c.Most, c.Bytes, c.Keep = logLines, logBytes, l.keep
	l.Log = worker.NewLog(c)
	l.rewrite()
	return l
}

func (l *keptLog) failed(err error) {
	l.logger.Warn("the log of a pod can't be kept over the next start", "file", l.path, "error", err)
}

// line takes a line that the pod wrote.
func (l *keptLog) line(text, mark string) {
	l.mu.Lock()
	l.mark = mark
	l.mu.Unlock()
	_, _ = l.Write(append([]byte(text), '\n')) // a log does not fail
}

// after is where to go on.
func (l *keptLog) after() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mark
}

// keep writes a line to the file, which is made anew when it has grown too large.
func (l *keptLog) keep(line worker.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := record{line.Number, line.Time, line.Text, line.System, l.mark}
	if l.last = append(l.last, r); len(l.last) > 2*logLines {
		l.last = append([]record(nil), l.last[len(l.last)-logLines:]...)
	}
	if l.file == nil {
		return
	}
	text, err := json.Marshal(r)
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	if l.size += len(text) + 1; err != nil {
		l.failed(err)
		l.closeFile()
	} else if l.size > fileMost {
		l.rewrite()
	}
}

// rewrite makes the file of the lines that are kept.
func (l *keptLog) rewrite() {
	l.closeFile()
	l.last = l.last[max(0, len(l.last)-logLines):]
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	size := 0
	for i := len(l.last) - 1; i >= 0; i-- {
		if size += len(l.last[i].Text); size > logBytes {
			l.last = l.last[i+1:]
			break
		}
	}
	for _, r := range l.last {
		_ = encoder.Encode(r) // a record always has a JSON form
	}
	fresh := l.path + ".new"
	err := os.WriteFile(fresh, text.Bytes(), 0o600)
	if err == nil {
		err = os.Rename(fresh, l.path)
	}
	if err == nil {
		l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if l.size = text.Len(); err != nil {
		l.failed(err)
	}
}

func (l *keptLog) closeFile() {
	if l.file != nil {
		_ = l.file.Close() // each line was written
		l.file = nil
	}
}

// end says that nothing more comes.
func (l *keptLog) end() {
	l.Finish()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeFile()
}
