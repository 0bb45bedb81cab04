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

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// newInput returns a job's input as a line.
func newInput(input []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(input), strings.NewReader("\n"))
}

// lines reads the lines of a command, trimmed and as valid UTF-8. The last line may lack a
// newline.
type lines struct{ from *bufio.Reader }

func newLines(from io.Reader) *lines { return &lines{bufio.NewReaderSize(from, 64<<10)} }

// next returns a line. The caller may keep it.
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

// wholeLines passes on whole lines, so that the lines of two pipes don't mix.
type wholeLines struct {
	to      io.Writer
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
	_, _ = w.to.Write(w.partial[:end]) // best effort
	w.partial = append(w.partial[:0], w.partial[end:]...)
	return len(p), nil
}

// flush passes on a last line that lacks a newline.
func (w *wholeLines) flush() {
	if len(w.partial) > 0 {
		_, _ = w.to.Write(append(w.partial, '\n'))
	}
}

// tail keeps the end of what is written to it.
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
	shown := strings.Split(strings.ToValidUTF8(string(end), "\uFFFD"), "\n")
	for i, line := range shown {
		shown[i] = logline.Visible(line)
	}
	return strings.TrimSpace(strings.Join(shown, "\n"))
}
