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

// A pod's log is in two files. When the current file is full, it replaces the previous file.
const (
	logFile      = "log.jsonl"
	previousFile = "log.previous.jsonl"
	logBytes     = 4 << 20 // kept in memory
	maxFileBytes = 2 * logBytes
)

// fileLog is a log that is also written to a file. The next run of the deployment continues it.
type fileLog struct {
	*run.Log
	folder string
	logger *slog.Logger

	mu     sync.Mutex // guards the rest. It is locked while run.Log is locked, never the other way round
	file   *os.File   // nil if it can't be opened
	size   int64      // of the file
	failed bool       // the latest line may be incomplete
}

// openLog reads the log of an earlier run. It skips a line that a kill left incomplete.
func openLog(folder string, c run.LogConfig, logger *slog.Logger) *fileLog {
	l := &fileLog{folder: folder, logger: logger}
	for _, name := range []string{previousFile, logFile} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.warn(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line run.Line
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				c.Earlier = append(c.Earlier, line)
			}
		}
		l.size = int64(len(text))
	}
	c.Earlier = slices.Clone(c.Earlier[max(0, len(c.Earlier)-run.MaxLines):])
	c.MaxBytes, c.OnLine = logBytes, l.append
	l.Log = run.NewLog(c)
	l.openFile()
	return l
}

func (l *fileLog) warn(err error) {
	l.logger.Warn("the log of a pod can't be stored: it will be lost at the next start", "folder", l.folder, "error", err)
}

// append writes a line to the file, and begins a new file if it's full.
func (l *fileLog) append(line run.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	text, err := json.Marshal(line)
	if err == nil {
		if l.failed {
			text = append([]byte("\n"), text...)
		}
		_, err = l.file.Write(append(text, '\n'))
	}
	l.size += int64(len(text)) + 1
	if err != nil && !l.failed {
		l.warn(err)
	}
	if l.failed = err != nil; !l.failed && l.size > maxFileBytes {
		l.closeFile()
		if err := os.Rename(filepath.Join(l.folder, logFile), filepath.Join(l.folder, previousFile)); err != nil {
			l.warn(err)
			return
		}
		l.size = 0
		l.openFile()
	}
}

// openFile opens the file for appending. The newline ends a line that a kill may have left incomplete.
func (l *fileLog) openFile() {
	file, err := os.OpenFile(filepath.Join(l.folder, logFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.WriteString("\n")
		l.file = file
	}
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
