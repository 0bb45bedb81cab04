package engine

import "time"

// Event is a committed transition of a job. A new job has no From, a deleted job no To.
type Event struct {
	Endpoint string
	Job      string // id
	From, To State
	// Retry reports that the job was requeued because its worker died.
	Retry bool
	// Delay is the time in the queue of a job that is now IN_PROGRESS.
	Delay time.Duration
	// Execution is the running time of a job that ended; 0 if it never ran.
	Execution time.Duration
	// Counts are the endpoint's counts after the event, without changes by other processes.
	Counts Counts
}

// observe calls the observer for each transition.
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
