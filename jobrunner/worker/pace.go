package worker

import (
	"fmt"
	"time"
)

// pace detects a worker that pauses between its jobs although more jobs wait. The public SDK looks for a
// free slot only once a second, so a worker with one slot runs at most one job a second. The worker's
// lock guards it.
type pace struct {
	firstTake  time.Time     // start of the first consecutive take that found a job at once
	lastJobEnd time.Time     // when the worker's last job ended
	takes      int           // consecutive takes after the first
	pauses     time.Duration // total since the first take
}

const (
	minTakes      = 5                     // consecutive takes
	immediate     = 50 * time.Millisecond // a take that is this fast found a waiting job
	minPauseShare = 0.3                   // pauses as a fraction of the time
)

// notePace records a take: when the worker requested jobs, how many it got, and whether it held none
// before. The caller holds the worker's lock.
func (w *worker) notePace(requestedAt time.Time, jobs int, wasEmpty bool) {
	now, p := w.pool.clock.Now(), &w.pace
	if jobs != 1 || !wasEmpty || now.Sub(requestedAt) > immediate {
		*p = pace{lastJobEnd: p.lastJobEnd}
		w.advise(adviceOnPace, "")
		return
	}
	if p.firstTake.IsZero() || p.lastJobEnd.IsZero() {
		*p = pace{firstTake: requestedAt, lastJobEnd: p.lastJobEnd}
		return
	}
	p.takes++
	p.pauses += requestedAt.Sub(p.lastJobEnd)
	if share := float64(p.pauses) / float64(max(now.Sub(p.firstTake), 1)); p.takes >= minTakes && share >= minPauseShare {
		w.advise(adviceOnPace, fmt.Sprintf("it asks for its next job %d ms after the last one, although jobs wait: the public SDK looks for a free slot only once a second. "+
			"A concurrency_modifier lets it have more than one slot (docs/guides/worker.md)", (p.pauses/time.Duration(p.takes)).Milliseconds()))
	}
}

// Kinds of advice for a worker's author.
const (
	adviceOnPace = iota
	adviceOnFolder
	advices // their number
)

// advise sets the advice of a kind, or clears it if text is "". Each kind is logged once for each
// version of the endpoint. The caller holds the worker's lock.
func (w *worker) advise(kind int, text string) {
	w.advice[kind] = text
	mark := w.settings.Version + 1 // because 0 means that nothing was logged yet
	if text == "" || w.pool.advisedVersions[kind].Swap(mark) == mark {
		return
	}
	w.pool.logger.Warn("advice on a worker: "+text, "endpoint", w.pool.id, "worker", w.id)
}
