package host

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// lines reads the visible lines of a command, trimmed and as valid UTF-8. The last line may lack a newline.
// An indented JSON value, such as jq prints, is one line.
type lines struct{ input *bufio.Reader }

func newLines(input io.Reader) *lines { return &lines{bufio.NewReaderSize(input, 64<<10)} }

// next returns a line. The caller may keep it.
func (l *lines) next() ([]byte, error) {
	line, err := l.read(nil)
	if first := string(bytes.TrimRight(line, "\r\n")); first == "{" || first == "[" {
		for open := true; open && err == nil; { // an inner line is indented, and the last one is the closing bracket
			begin, _ := l.input.Peek(1) // empty at the end
			if len(begin) == 0 || strings.IndexByte(" \t}]", begin[0]) < 0 {
				break
			}
			open = begin[0] == ' ' || begin[0] == '\t'
			line, err = l.read(line)
		}
		var compact bytes.Buffer
		if json.Compact(&compact, line) == nil {
			line = compact.Bytes()
		}
	}
	if err != nil {
		return nil, err
	}
	line = bytes.TrimSpace(line)
	line = line[bytes.LastIndexByte(line, '\r')+1:] // see logline.Visible
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	return line, nil
}

// read appends bytes to line until a newline or the end.
func (l *lines) read(line []byte) ([]byte, error) {
	for {
		part, err := l.input.ReadSlice('\n')
		if len(line)+len(part) > maxLine+1 {
			return nil, fmt.Errorf("the command wrote a line of more than %d MB to stdout, and was stopped: write large results to the network volume or to object storage, and print their path or URL to stdout", maxLine>>20)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(line) == 0:
			return nil, err
		}
		return line, nil
	}
}

// wholeLines passes on whole lines, so that the lines of two pipes don't mix.
type wholeLines struct {
	output  io.Writer
	partial []byte
}

// maxPartial is how many bytes of a line are held back.
const maxPartial = 64 << 10

func (w *wholeLines) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	end := bytes.LastIndexByte(w.partial, '\n') + 1
	if end == 0 && len(w.partial) > maxPartial {
		end = len(w.partial)
	}
	_, _ = w.output.Write(w.partial[:end]) // best effort
	w.partial = append(w.partial[:0], w.partial[end:]...)
	return len(p), nil
}

// flush passes on a last line that lacks a newline.
func (w *wholeLines) flush() {
	if len(w.partial) > 0 {
		_, _ = w.output.Write(append(w.partial, '\n'))
	}
}

// tail keeps the last maxBytes that are written to it.
type tail struct {
	maxBytes int

	mu  sync.Mutex
	end []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if excess := len(t.end) - t.maxBytes; excess > 0 {
		t.end = append(t.end[:0], t.end[excess:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns whole lines, unless a single line is longer than maxBytes.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.end
	if t.cut {
		if i := bytes.IndexByte(end, '\n'); i >= 0 && i < len(end)-1 {
			end = end[i+1:]
		}
	}
	visible := strings.Split(strings.ToValidUTF8(string(end), "\uFFFD"), "\n")
	for i, line := range visible {
		visible[i] = logline.Visible(line)
	}
	return strings.TrimSpace(strings.Join(visible, "\n"))
}

// followLog passes on the container's lines that are later than since, until the engine's command
// ends, and returns the time of the last line.
func (c *container) followLog(log run.Output, since time.Time) (last time.Time) {
	args := []string{c.engine.path, "logs", "--follow", "--timestamps"}
	if !since.IsZero() {
		args = append(args, "--since", since.Format(time.RFC3339Nano))
	}
	r, w := io.Pipe()
	group, err := procgroup.Start(procgroup.Command{
		Path: c.engine.path, Args: append(args, c.name), Env: c.engine.environment(), Output: w, Register: c.engine.register,
	})
	if err != nil {
		return since
	}
	c.follower.Store(group)
	if c.stopFailed.Load() { // the stop ran before follower was set, so it didn't kill this command
		group.KillNoWait()
	}
	go func() {
		<-group.Done()
		_ = w.Close()
	}()
	last, _ = run.CopyLines(r, since, lineJoiner{log}) // the pipe ends without an error
	return last
}

// lineJoiner joins the pieces of a line: if a program writes "ab\n" as "a" and "b\n", Podman logs "TIME aTIME b". Docker
// splits a line after each 16 KiB. lineJoiner removes only times that aren't before the line's own. An earlier time was written by the program.
type lineJoiner struct{ run.Output }

func (j lineJoiner) WriteLine(text, mark string) {
	at, _ := time.Parse(time.RFC3339Nano, mark) // the time of the line
	j.Output.WriteLine(pieceMark.ReplaceAllStringFunc(text, func(found string) string {
		if t, err := time.Parse(time.RFC3339Nano, strings.TrimSuffix(found, " ")); err != nil || t.Before(at) || len(found) != len(mark)+1 {
			return found
		}
		return ""
	}), mark)
}

var pieceMark = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d) `)
