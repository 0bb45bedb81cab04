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
	"slices"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Limits of a pod's log.
const (
	logFile      = "log.jsonl"
	logBytes     = 4 << 20
	maxFileBytes = 4 * logBytes
)

// fileLog is a log that is also written to a file. The next run of the deployment continues
// it.
type fileLog struct {
	*run.Log
	path   string
	logger *slog.Logger

	mu     sync.Mutex // guards the rest. It is locked while run.Log is locked, never the other way round
	file   *os.File   // nil if it can't be written
	size   int        // of the file
	latest []run.Line // for the next rewrite of the file
}

// openLog reads the log of an earlier run. It skips a line that is incomplete because the
// deployment was killed.
func openLog(folder string, c run.LogConfig, logger *slog.Logger) *fileLog {
	l := &fileLog{path: filepath.Join(folder, logFile), logger: logger}
	text, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.warn(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line run.Line
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			l.latest = append(l.latest, line)
		}
	}
	l.latest = l.latest[max(0, len(l.latest)-run.MaxLines):]
	c.Earlier, c.MaxBytes, c.OnLine = slices.Clone(l.latest), logBytes, l.append
	l.Log = run.NewLog(c)
	l.rewrite()
	return l
}

func (l *fileLog) warn(err error) {
	l.logger.Warn("the log of a pod can't be stored: it will be lost at the next start", "file", l.path, "error", err)
}

// append writes a line to the file, and rewrites the file if it's too large.
func (l *fileLog) append(line run.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest = append(l.latest, line); len(l.latest) > 2*run.MaxLines {
		l.latest = slices.Clone(l.latest[len(l.latest)-run.MaxLines:])
	}
	if l.file == nil {
		return
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	l.size += len(text) + 1
	if err != nil {
		l.warn(err)
		l.closeFile()
	} else if l.size > maxFileBytes {
		l.rewrite()
	}
}

// rewrite replaces the file with the latest lines.
func (l *fileLog) rewrite() {
	l.closeFile()
	l.latest = l.latest[max(0, len(l.latest)-run.MaxLines):]
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	size := 0
	for i := len(l.latest) - 1; i >= 0; i-- {
		if size += len(l.latest[i].Text); size > logBytes {
			l.latest = l.latest[i+1:]
			break
		}
	}
	for _, line := range l.latest {
		_ = encoder.Encode(line) // never fails
	}
	fresh := l.path + ".new"
	err := os.WriteFile(fresh, text.Bytes(), 0o600)
	if err == nil {
		err = os.Rename(fresh, l.path)
	}
	if err == nil {
		l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o600)
	}
	l.size = text.Len()
	if err != nil {
		l.warn(err)
	}
}

func (l *fileLog) closeFile() {
	if l.file != nil {
		_ = l.file.Close() // every line has been written
		l.file = nil
	}
}

// close ends the log: no line follows.
func (l *fileLog) close() {
	l.Finish()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeFile()
}
