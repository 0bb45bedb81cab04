package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// The program prints only through these filters, because its output contains data of workers,
// clients, files and servers, which may have control sequences.
var (
	stdout = &filter{out: os.Stdout}
	stderr = &filter{out: os.Stderr}
)

// filter escapes control characters except line breaks and tabs. A write must not split a character.
type filter struct {
	out io.Writer

	mu  sync.Mutex
	err error // of the first write that failed
}

func (f *filter) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.out.Write(escapeControls(p)); err != nil {
		f.err = cmp.Or(f.err, err)
		return 0, err
	}
	return len(p), nil
}

// failure returns the error of the first write that failed.
func (f *filter) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// escapeControls escapes control characters, and characters that change the direction of text, as in JSON.
func escapeControls(p []byte) []byte {
	var out []byte // nil until the first replacement
	for i := 0; i < len(p); {
		if c := p[i]; out == nil && (c >= ' ' && c < 0x7f || c == '\n') { // the common case
			i++
			continue
		}
		r, n := utf8.DecodeRune(p[i:])
		isControl := r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
		isInvalid := r == utf8.RuneError && n == 1
		if (isControl || isInvalid) && out == nil {
			out = append(make([]byte, 0, len(p)+16), p[:i]...)
		}
		switch {
		case isInvalid: // some terminals treat the byte 0x9b as a control character
			out = append(out, "\uFFFD"...)
		case isControl:
			out = fmt.Appendf(out, `\u%04x`, r)
		case out != nil:
			out = append(out, p[i:i+n]...)
		}
		i += n
	}
	if out == nil {
		return p
	}
	return out
}

// maxPending limits the pending lines in bytes. Write blocks while it is exceeded.
const maxPending = 64 << 10

// writePause is the pause after each write, because a write costs more than many lines.
const writePause = time.Millisecond

// asyncWriter writes lines to w in the background, in order. Lines that arrive during a write and the
// pause after it are combined into the next write. Close writes the rest.
type asyncWriter struct {
	w    io.Writer
	wake chan struct{} // signals that lines are pending
	done chan struct{}

	mu      sync.Mutex
	emptied sync.Cond // signals that pending has become empty
	pending []byte
	closed  bool
}

func newAsyncWriter(w io.Writer) *asyncWriter {
	a := &asyncWriter{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	a.emptied.L = &a.mu
	go func() {
		defer close(a.done)
		var lines []byte
		for range a.wake {
			a.mu.Lock()
			lines, a.pending = a.pending, lines[:0]
			a.emptied.Broadcast()
			a.mu.Unlock()
			_, _ = w.Write(lines) // slog ignores errors of writing, too
			time.Sleep(writePause)
		}
	}()
	return a
}

func (a *asyncWriter) Write(line []byte) (int, error) {
	a.mu.Lock()
	for len(a.pending) > maxPending {
		a.emptied.Wait()
	}
	closed := a.closed
	if !closed {
		a.pending = append(a.pending, line...)
		notify.Signal(a.wake)
	}
	a.mu.Unlock()
	if closed {
		<-a.done
		return a.w.Write(line)
	}
	return len(line), nil
}

// Close waits until all lines are written. Later lines are written synchronously.
func (a *asyncWriter) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	close(a.wake)
	<-a.done
}
