package engine

import "time"

// Event is a change of a job's state that was committed. Without From the job
// is new; without To it is gone.
type Event struct {
	Endpoint string
	Job      string // id
	From, To State
	// Retry says that a job that was in the queue before is in it again, because
	// its worker died.
	Retry bool
	// Delay is how long a job waited that is now IN_PROGRESS.
	Delay time.Duration
	// Execution is how long a job ran that is now over; 0 where it never did.
	Execution time.Duration
	// Counts are the endpoint's after it, without what other processes did.
	Counts Counts
}

// observe tells of changes, in the order in which they are known here.
func (e *Engine) observe(changes []change) {
	if e.observer == nil {
		return
	}
	now := e.now()
	for _, c := range changes {
		if c.from == c.to { // a chunk
			continue
		}
		event := Event{Endpoint: c.endpoint, Job: c.id, From: c.from, To: c.to, Retry: c.retry, Delay: c.delay, Counts: c.counts}
		if c.to.Terminal() && c.started > 0 {
			event.Execution = max(0, duration(now-c.started))
		}
		e.observer(event)
	}
}
