package worker

import (
	"fmt"
	"time"
)

// pace notices a worker that lets time pass between its jobs although others
// wait. The public SDK looks for a free slot only once a second: a worker with
// one slot does one job a second at most. The worker's lock guards it.
type pace struct {
	since   time.Time     // the first of the takes in a row that found a job at once
	emptied time.Time     // when the last job left it
	takes   int           // in a row, after the first
	paused  time.Duration // between its jobs, since then
}

// When a pause between jobs is worth a word.
const (
	pacedTakes = 5                     // in a row
	atOnce     = 50 * time.Millisecond // a take that finds a job so soon found it waiting
	pausedMost = 0.3                   // of the time
)

// notePace notes a take: when it was asked for, and what came when. The worker is
// locked.
func (w *worker) notePace(asked time.Time, jobs int, alone bool) {
	now, p := w.pool.clock.Now(), &w.pace
	if jobs != 1 || !alone || now.Sub(asked) > atOnce {
		*p = pace{emptied: p.emptied}
		w.advise(adviceOnPace, "")
		return
	}
	if p.since.IsZero() || p.emptied.IsZero() {
		*p = pace{since: asked, emptied: p.emptied}
		return
	}
	p.takes++
	p.paused += asked.Sub(p.emptied)
	if share := float64(p.paused) / float64(max(now.Sub(p.since), 1)); p.takes >= pacedTakes && share >= pausedMost {
		w.advise(adviceOnPace, fmt.Sprintf("it asks for its next job %d ms after the last one, although jobs wait: the public SDK looks for a free slot only once a second. "+
			"A concurrency_modifier lets it have more than one (docs/guides/worker.md)", (p.paused/time.Duration(p.takes)).Milliseconds()))
	}
}

// What a worker's author may want to know.
const (
	adviceOnPace = iota
	adviceOnFolder
	advices
)

// advise notes an advice, or with "" that it does not count any more. The log has
// it once for each version of the endpoint. The worker is locked.
func (w *worker) advise(about int, text string) {
	w.advice[about] = text
	if version := w.settings.Version + 1; text == "" || w.pool.advised[about].Swap(version) == version {
		return
	}
	w.pool.logger.Warn("advice on a worker: "+text, "endpoint", w.pool.id, "worker", w.id)
}
