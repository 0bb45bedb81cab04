package main

import (
	"io"
	"sync"
)

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
