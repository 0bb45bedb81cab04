package run

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// Output receives what a process writes to stdout and stderr.
type Output interface {
	io.Writer // in pieces of any size
	// WriteLine receives a whole line. mark identifies it, for example by its time: the log of a process
	// that outlived a restart of the jobrunner continues after this line.
	WriteLine(text, mark string)
}

// MaxLines is the number of lines that a log keeps, and the most that a reader can ask for.
const MaxLines = 5000

const (
	defaultBytes = 1 << 20
	maxLine      = 8 << 10  // bytes; a longer line is cut
	maxRead      = 64 << 10 // bytes of a line that are examined before it is cut
	maxCopied    = 1 << 20  // bytes of a line that CopyLines keeps
	tailLines    = 20       // in Tail, or more, because Tail doesn't split messages
)

// Line is a line of a process, or of the jobrunner about the process. The JSON is for the files of pods' logs.
type Line struct {
	Number int64     `json:"n"` // from 0
	Time   time.Time `json:"t"` // later than the line before
	Text   string    `json:"x"`
	System bool      `json:"s,omitempty"` // written by the jobrunner
	Job    string    `json:"-"`           // the job that wrote it; "" if unknown
	Mark   string    `json:"m,omitempty"` // see Output
}

// Log keeps the latest lines of a worker or pod, without secrets. It is safe for concurrent use.
type Log struct {
	config  LogConfig
	secrets []string // longest first: one may be part of another

	mu         sync.Mutex
	job        string // see Line.Job
	mark       string // see Line.Mark
	partial    []byte
	cutBytes   int // bytes of the partial line that are not kept
	lines      []Line
	size       int // bytes of lines
	nextNumber int64
	changed    chan struct{} // closed at the next line, or by Finish
	finished   bool
}

// teeMu is held during a write to a Tee, which several logs may share.
var teeMu sync.Mutex

type LogConfig struct {
	Clock    *clock.Clock
	ID       string       // of the worker or pod
	Tee      io.Writer    // receives each line, after the id; nil for none
	MaxBytes int          // of all lines; 0 is 1 MiB
	OnLine   func(l Line) // is called with each line while the log is locked; may be nil
	Earlier  []Line       // lines of an earlier run
}

func NewLog(c LogConfig) *Log {
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultBytes)
	l := &Log{config: c, changed: make(chan struct{})}
	for _, line := range c.Earlier {
		l.size += len(line.Text)
		l.nextNumber = line.Number + 1
		l.mark = cmp.Or(line.Mark, l.mark)
	}
	l.lines, l.config.Earlier = c.Earlier, nil
	l.trim()
	return l
}

// Hide keeps secrets out of the lines that follow.
func (l *Log) Hide(secrets ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range secrets {
		if s == "" {
			continue
		}
		l.secrets = append(l.secrets, s)
		// Loggers escape special characters: Go's JSON loggers also those of HTML, Python's all but ASCII, in UTF-16.
		inJSON, _ := json.Marshal(s) // never fails for a string
		python := ""
		for _, unit := range utf16.Encode([]rune(strconv.Quote(s))) {
			if unit < utf8.RuneSelf {
				python += string(rune(unit))
			} else {
				python += fmt.Sprintf(`\u%04x`, unit)
			}
		}
		for _, quoted := range []string{string(inJSON), strconv.Quote(s), python} {
			l.secrets = append(l.secrets, quoted[1:len(quoted)-1])
		}
	}
	slices.SortFunc(l.secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	l.secrets = slices.Compact(l.secrets)
}

// Write implements io.Writer. It never fails.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(b)
	return len(b), nil
}

func (l *Log) WriteLine(text, mark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark = mark
	l.write([]byte(text + "\n"))
}

// write is called with mu held.
func (l *Log) write(b []byte) {
	longestSecret := 0
	if len(l.secrets) > 0 {
		longestSecret = len(l.secrets[0])
	}
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if len(l.partial)+len(line) > maxRead+longestSecret {
			// A progress bar overwrites its line with each update: drop the updates before the last.
			if i := bytes.LastIndexByte(bytes.TrimRight(line, "\r"), '\r'); i >= 0 || bytes.HasSuffix(l.partial, []byte{'\r'}) {
				l.partial, l.cutBytes, line = l.partial[:0], 0, line[i+1:]
			}
		}
		room := max(0, maxRead+longestSecret-len(l.partial)) // so that no secret is cut in two
		l.partial = append(l.partial, line[:min(room, len(line))]...)
		l.cutBytes += max(0, len(line)-room)
		if whole {
			l.endLine()
		}
		b = rest
	}
}

// endLine adds the partial line. The caller holds mu.
func (l *Log) endLine() {
	text, cut := string(l.partial), l.cutBytes
	for _, secret := range l.secrets {
		text = strings.ReplaceAll(text, secret, "(secret)")
	}
	if cut > 0 && len(l.secrets) > 0 { // the end may be a part of a secret
		kept := max(0, len(text)-len(l.secrets[0]))
		text, cut = text[:kept], cut+len(text)-kept
	}
	text = logline.Visible(strings.ToValidUTF8(text, "\uFFFD"))
	// If the handler printed without a newline, the SDK's line follows on the same line: split them.
	if i := strings.Index(text, `{"requestId": `); i > 0 && !logline.Parse(text[i:]).IsPrinted() {
		l.add(cutLine(text[:i], 0), false)
		text = text[i:]
	}
	l.add(cutLine(text, cut), false)
	l.partial, l.cutBytes = l.partial[:0], 0
}

// endPartial adds the partial line if there is one. The caller holds mu.
func (l *Log) endPartial() {
	if len(l.partial) > 0 {
		l.endLine()
	}
}

// cutLine shortens a line that is too long, or that has lost bytes already. It keeps the level and the end
// of a logger's line, because a traceback ends with its cause, and the start of any other line.
func cutLine(text string, cut int) string {
	if cut += max(0, len(text)-maxLine); cut == 0 {
		return text
	}
	if line := logline.Parse(text); !line.IsPrinted() {
		return line.Level + " | " + logline.Shorten(line.Text, maxLine)
	}
	return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:min(maxLine, len(text))], ""), cut)
}

// add is called with mu held.
func (l *Log) add(text string, system bool) {
	at := l.config.Clock.Now().Round(0) // without the monotonic clock, which no reader sees
	if n := len(l.lines); n > 0 && !at.After(l.lines[n-1].Time) {
		at = l.lines[n-1].Time.Add(1)
	}
	line := Line{Number: l.nextNumber, Time: at, Text: text, System: system, Job: l.job, Mark: l.mark}
	l.lines = append(l.lines, line)
	l.nextNumber++
	l.size += len(text)
	l.trim()
	if l.config.OnLine != nil {
		l.config.OnLine(line)
	}
	if l.config.Tee != nil {
		if system {
			text = SystemPrefix + text
		}
		teeMu.Lock()
		_, _ = fmt.Fprintf(l.config.Tee, "%s %s\n", l.config.ID, text) // the reader may be gone
		teeMu.Unlock()
	}
	l.wake()
}

// trim drops the oldest lines beyond the limits. The caller holds mu.
func (l *Log) trim() {
	for len(l.lines) > MaxLines || l.size > l.config.MaxBytes {
		l.size -= len(l.lines[0].Text)
		l.lines = l.lines[1:]
	}
}

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// SetJob names the job that writes the lines that follow; "" for none.
func (l *Log) SetJob(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endPartial()
	l.job = job
}

// SystemPrefix precedes the jobrunner's own lines wherever they are mixed with a process's.
const SystemPrefix = "[jobrunner] "

// Note adds a line of the jobrunner.
func (l *Log) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endPartial()
	l.add(text, true)
}

// Finish ends the log: no line follows.
func (l *Log) Finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endPartial()
	l.finished = true
	l.wake()
}

func (l *Log) Mark() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mark
}

// Lines returns the lines from a number on, oldest first. more is closed when further
// lines can be read; it is nil if the log has ended.
func (l *Log) Lines(from int64) (lines []Line, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.lines, from, func(line Line, n int64) int { return int(line.Number - n) })
	if !l.finished {
		more = l.changed
	}
	return slices.Clone(l.lines[i:]), more
}

// Tail returns the last lines of the process as human-readable text of at most maxBytes.
func (l *Log) Tail(maxBytes int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, line := range l.lines {
		if !line.System {
			texts = append(texts, line.Text)
		}
	}
	return logline.LastMessages(texts, tailLines, maxBytes)
}

// LastError returns the last line of the latest error that a logger wrote about a job, or "".
func (l *Log) LastError(job string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range slices.Backward(l.lines) {
		if m := logline.Parse(line.Text); m.Job == job && m.Level == "ERROR" {
			return m.Text[strings.LastIndexByte(m.Text, '\n')+1:]
		}
	}
	return ""
}

// Resolver replaces placeholders of account secrets in variables, and also returns the values of the secrets.
type Resolver func(ctx context.Context, env map[string]string) (resolved map[string]string, values []string, err error)

// shortestHidden is the length from which a line of a secret is also hidden by itself. The whole value is always hidden.
const shortestHidden = 4

// Resolve resolves variables, and hides the values of secrets from a log. A nil Resolver is a no-op.
func (r Resolver) Resolve(ctx context.Context, env map[string]string, log *Log) (map[string]string, error) {
	if r == nil {
		return env, nil
	}
	resolved, values, err := r(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("its account secrets: %w", err)
	}
	var hidden []string
	for _, value := range values {
		if strings.Contains(value, "\x00") {
			return nil, errors.New("its account secrets: one has a NUL character, which environment variables can't have: set it again without it")
		}
		hidden = append(hidden, value)
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= shortestHidden {
				hidden = append(hidden, line)
			}
		}
	}
	log.Hide(hidden...)
	return resolved, nil
}

// CopyLines reads lines of the form "TIME TEXT", and writes the texts of lines that are later than since to log.
// A line's mark is the latest time so far, because lines of stdout and stderr may be out of order. CopyLines
// returns that time. It skips a line in which the stream breaks, because the next stream has the whole line.
func CopyLines(stream io.Reader, since time.Time, log Output) (last time.Time, err error) {
	lines := bufio.NewReader(stream)
	mark := ""
	for last = since; ; {
		var line []byte
		err := bufio.ErrBufferFull
		for errors.Is(err, bufio.ErrBufferFull) {
			var part []byte
			part, err = lines.ReadSlice('\n')
			line = append(line, part[:min(len(part), maxCopied-len(line))]...)
		}
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return last, err
		}
		stamp, text, found := strings.Cut(string(line), " ")
		at, timeErr := time.Parse(time.RFC3339Nano, stamp)
		if found && timeErr == nil && at.After(since) {
			if at.After(last) {
				last, mark = at, stamp
			}
			log.WriteLine(strings.TrimSuffix(text, "\n"), mark)
		}
		if ended {
			return last, nil
		}
	}
}
