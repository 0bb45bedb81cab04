package main

import (
	"io"
	"sync"
)

// maxLines bounds the lines that wait to be written, in bytes: then who logs
// waits.
const maxLines = 64 << 10

// lines writes to w what others write to it, in their order, without having them
// wait: what comes during a write goes together with the next. Close writes what
// is left.
type lines struct {
	w io.Writer

	mu      sync.Mutex
	changed sync.Cond // of mu: there is something to write, or room
	waiting []byte
	closed  bool
	done    chan struct{}
}

func newLines(w io.Writer) *lines {
	l := &lines{w: w, done: make(chan struct{})}
	l.changed.L = &l.mu
	go l.run()
	return l
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 && len(l.waiting)+len(line) > maxLines && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return l.w.Write(line)
	}
	if len(l.waiting) == 0 {
		l.changed.Broadcast()
	}
	l.waiting = append(l.waiting, line...)
	return len(line), nil
}

func (l *lines) run() {
	defer close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	var spare []byte
	for {
		for len(l.waiting) == 0 {
			if l.closed {
				return
			}
			l.changed.Wait()
		}
		next := l.waiting
		l.waiting = spare[:0]
		l.changed.Broadcast()
		l.mu.Unlock()
		_, _ = l.w.Write(next) // to a log that nobody takes, as slog has it
		l.mu.Lock()
		spare = next
	}
}

// Close waits until all is written. What comes later is written at once.
func (l *lines) Close() {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	<-l.done
}
