package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The program prints only through these filters, because its output contains data of workers,
// clients, files and servers, which may have control sequences.
var (
	stdout = &filter{out: os.Stdout}
	stderr = &filter{out: os.Stderr}
)

// filter escapes control characters except line breaks and tabs. A write must not split a
// character.
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

// escapeControls replaces control characters, and characters that change the direction
// of text, with their JSON escapes.
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

// maxPending limits the pending lines, in bytes. Write blocks while it is exceeded.
const maxPending = 64 << 10

// asyncWriter writes lines to w in the background, in order. Lines that arrive during a write are
// combined into the next write. Close writes the rest.
type asyncWriter struct {
	w io.Writer

	mu      sync.Mutex
	cond    sync.Cond // signals pending lines, or space for more
	pending []byte
	closed  bool
	done    chan struct{}
}

func newAsyncWriter(w io.Writer) *asyncWriter {
	l := &asyncWriter{w: w, done: make(chan struct{})}
	l.cond.L = &l.mu
	go l.run()
	return l
}

func (l *asyncWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > 0 && len(l.pending)+len(line) > maxPending && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return l.w.Write(line)
	}
	if len(l.pending) == 0 {
		l.cond.Broadcast()
	}
	l.pending = append(l.pending, line...)
	return len(line), nil
}

func (l *asyncWriter) run() {
	defer close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	var spare []byte
	for {
		for len(l.pending) == 0 {
			if l.closed {
				return
			}
			l.cond.Wait()
		}
		next := l.pending
		l.pending = spare[:0]
		l.cond.Broadcast()
		l.mu.Unlock()
		_, _ = l.w.Write(next) // slog ignores errors of writing, too
		l.mu.Lock()
		spare = next
	}
}

// Close waits until all lines are written. Later lines are written synchronously.
func (l *asyncWriter) Close() {
	l.mu.Lock()
	l.closed = true
	l.cond.Broadcast()
	l.mu.Unlock()
	<-l.done
}
