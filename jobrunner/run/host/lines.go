package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// newInput is a job's input, in a line.
func newInput(input []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(input), strings.NewReader("\n"))
}

// lines are those of what a command writes, without blanks around them, in
// valid UTF-8. The last one need not have an end.
type lines struct{ from *bufio.Reader }

func newLines(from io.Reader) *lines { return &lines{bufio.NewReaderSize(from, 64<<10)} }

// next is a line that is the caller's own.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.from.ReadSlice('\n')
		if len(line)+len(part) > maxLine+1 {
			return nil, fmt.Errorf("the command wrote a line of more than %d MB to stdout, and was stopped: write large results to the network volume or a store, and their place to stdout", maxLine>>20)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(line) == 0:
			return nil, err
		}
		line = bytes.TrimSpace(line)
		if !utf8.Valid(line) {
			line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
		}
		return line, nil
	}
}

// wholeLines passes on whole lines, so that those of two pipes don't mix.
type wholeLines struct {
	to   io.Writer
	rest []byte
}

// maxPartial is how much of a line is held back, in bytes.
const maxPartial = 64 << 10

func (w *wholeLines) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	if end == 0 && len(w.rest) > maxPartial {
		end = len(w.rest)
	}
	_, _ = w.to.Write(w.rest[:end]) // a log may lack lines
	w.rest = append(w.rest[:0], w.rest[end:]...)
	return len(p), nil
}

// flush passes on a last line without an end.
func (w *wholeLines) flush() {
	if len(w.rest) > 0 {
		_, _ = w.to.Write(append(w.rest, '\n'))
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	most int

	mu  sync.Mutex
	end []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if over := len(t.end) - t.most; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is whole lines, unless the last one alone is longer than what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.end
	if t.cut {
		if i := bytes.IndexByte(end, '\n'); i >= 0 && i < len(end)-1 {
			end = end[i+1:]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(end), "\uFFFD"))
}
