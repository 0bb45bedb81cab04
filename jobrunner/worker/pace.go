package worker

import (
	"fmt"
	"time"
)

// pace detects a worker that pauses between its jobs although others wait. The public SDK looks for a
// free slot only once a second, so a worker with one slot runs at most one job a second. The worker's
// lock guards it.
type pace struct {
	since   time.Time     // first of the consecutive takes that found a job at once
	emptied time.Time     // when the last job left it
	takes   int           // consecutive takes after the first
	paused  time.Duration // total of the pauses since then
}

// Thresholds of the advice.
const (
	pacedTakes = 5                     // consecutive takes
	atOnce     = 50 * time.Millisecond // a take that is this fast found a waiting job
	pausedMost = 0.3                   // pauses as a fraction of the time
)

// notePace records a take: when the worker requested jobs, how many it got, and whether it held none
// before. The caller holds the worker's lock.
func (w *worker) notePace(requestedAt time.Time, jobs int, wasEmpty bool) {
	now, p := w.pool.clock.Now(), &w.pace
	if jobs != 1 || !wasEmpty || now.Sub(requestedAt) > atOnce {
		*p = pace{emptied: p.emptied}
		w.advise(adviceOnPace, "")
		return
	}
	if p.since.IsZero() || p.emptied.IsZero() {
		*p = pace{since: requestedAt, emptied: p.emptied}
		return
	}
	p.takes++
	p.paused += requestedAt.Sub(p.emptied)
	if share := float64(p.paused) / float64(max(now.Sub(p.since), 1)); p.takes >= pacedTakes && share >= pausedMost {
		w.advise(adviceOnPace, fmt.Sprintf("it asks for its next job %d ms after the last one, although jobs wait: the public SDK looks for a free slot only once a second. "+
			"A concurrency_modifier lets it have more than one (docs/guides/worker.md)", (p.paused/time.Duration(p.takes)).Milliseconds()))
	}
}

// Kinds of advice for a worker's author.
const (
	adviceOnPace = iota
	adviceOnFolder
	advices
)

// advise sets an advice, or clears it if text is "". It is logged once for each version of the
// endpoint. The caller holds the worker's lock.
func (w *worker) advise(about int, text string) {
	w.advice[about] = text
	if version := w.settings.Version + 1; text == "" || w.pool.advised[about].Swap(version) == version {
		return
	}
	w.pool.logger.Warn("advice on a worker: "+text, "endpoint", w.pool.id, "worker", w.id)
}
