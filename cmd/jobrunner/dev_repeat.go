package main

import (
	"slices"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// repeats shows the log of a failed worker only once: a further worker that fails with the same
// lines gets one line. It holds back the lines of a worker while they equal those of the failed
// one, until the worker writes a different line or ends, or a job runs.
type repeats struct {
	mu     sync.Mutex
	failed []string // log of the worker that failed last
	starts map[string]*workerStart
}

// workerStart is the log of a worker that may repeat the last failure.
type workerStart struct {
	lines []string // lines so far; nil if it can't repeat the last failure
	shown int      // number of shown lines
}

// maxStart limits the lines that are compared.
const maxStart = 200

// write shows a line of a worker, unless it may repeat the last failure.
func (r *repeats) write(id, text string, show func(string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.starts[id]
	if s == nil {
		if r.starts == nil {
			r.starts = map[string]*workerStart{}
		}
		s = &workerStart{lines: []string{}}
		r.starts[id] = s
	}
	end, ended := strings.CutPrefix(text, run.SystemPrefix+"the process ended with ")
	if ended {
		delete(r.starts, id)
	}
	if s.lines == nil || !ended && strings.HasPrefix(text, run.SystemPrefix) {
		show(text)
		return
	}
	s.lines = append(s.lines, text)
	n, failure := len(s.lines), ended && !strings.HasPrefix(end, "exit status 0")
	same := n <= len(r.failed) && slices.EqualFunc(s.lines, r.failed[:n], equalOutput)
	switch {
	case failure && same && n == len(r.failed):
		if n-s.shown > 1 {
			show(run.SystemPrefix + "the same error again")
		} else {
			show(text)
		}
	case same && !ended:
	case failure:
		s.show(show)
		r.failed = s.lines
	default:
		s.show(show)
		if n >= maxStart {
			s.lines = nil
		}
	}
}

// release shows all held-back lines, because a running job proves that a worker has started.
func (r *repeats) release(show func(id, text string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.starts {
		s.show(func(text string) { show(id, text) })
	}
}

// equalOutput compares two lines. It ignores the details in parentheses at the end of a system
// line.
func equalOutput(a, b string) bool {
	if strings.HasPrefix(a, run.SystemPrefix) {
		a, _, _ = strings.Cut(a, " (")
		b, _, _ = strings.Cut(b, " (")
	}
	return a == b
}

// show shows the lines that were held back.
func (s *workerStart) show(show func(string)) {
	for _, text := range s.lines[min(s.shown, len(s.lines)):] {
		show(text)
	}
	s.shown = len(s.lines)
}
