package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
)

// progress tells what runs and what is left: on a terminal in one line that
// changes, elsewhere in a line every few seconds.
type progress struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	drawn time.Time
	any   bool
}

func newProgress(out *os.File) *progress {
	return &progress{out: out, terminal: terminal(out), drawn: time.Now()}
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("CI") == ""
}

// colours tells whether an output takes them.
func colours(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && terminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Between two lines.
const (
	redraw = 50 * time.Millisecond
	again  = 5 * time.Second
)

func (p *progress) show(now conformance.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pause := again
	if p.terminal {
		pause = redraw
	}
	if time.Since(p.drawn) < pause {
		return
	}
	p.drawn, p.any = time.Now(), true
	slices.Sort(now.Running)
	line := fmt.Sprintf("%d of %d cases, running %s", now.Done, now.Total, strings.Join(now.Running, " "))
	if len(line) > 100 {
		line = line[:97] + "…"
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// end removes the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.any {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
