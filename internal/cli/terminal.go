package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// IsTerminal reports whether a file is a terminal (or another device, such as /dev/null), outside of CI.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("CI") == ""
}

// Colours reports whether an output is a terminal with colours and NO_COLOR is empty.
func Colours(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && IsTerminal(f) && os.Getenv("NO_COLOR") == "" && !isDumb()
}

// isDumb reports whether the terminal doesn't support escape sequences.
func isDumb() bool { return os.Getenv("TERM") == "dumb" }

// StopSignals returns the signals that stop a program. They include SIGHUP, which a closed terminal sends, except
// under nohup.
func StopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// SurviveClosedPipe makes a write to a closed pipe fail instead of killing the program.
func SurviveClosedPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// redrawInterval is the minimum time between two texts of a line.
const redrawInterval = 50 * time.Millisecond

// Progress is a line of a terminal whose text changes. If the output isn't a terminal, it prints nothing.
type Progress struct {
	out io.Writer // nil: not a terminal

	mu        sync.Mutex
	lastDrawn time.Time
	hasLine   bool
}

// NewProgress returns an empty line.
func NewProgress(out *os.File) *Progress {
	if !IsTerminal(out) || isDumb() {
		return &Progress{}
	}
	return &Progress{out: out}
}

// maxWidth is the number of characters that fit into a line of a narrow terminal.
const maxWidth = 78

// Show replaces the text, which has no line breaks.
func (p *Progress) Show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil || time.Since(p.lastDrawn) < redrawInterval {
		return
	}
	p.lastDrawn, p.hasLine = time.Now(), true
	text := []rune(fmt.Sprintf(format, args...))
	if len(text) > maxWidth {
		text = append(text[:maxWidth-1], '…')
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", string(text))
}

// End removes the line. Show may follow.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasLine {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.hasLine = false
	}
}
