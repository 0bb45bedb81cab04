package worker

import "time"

// State is what a worker does, in the words of API v2.
type State string

// The states of a worker. It has one at a time.
const (
	Initializing State = "INITIALIZING" // it starts, and has not asked for a job yet
	Idle         State = "IDLE"
	Running      State = "RUNNING"   // it has a job, or several
	Throttled    State = "THROTTLED" // no devices are free for it
	Unhealthy    State = "UNHEALTHY" // it can't work, or ended right after its start
	// ending is of one whose end is under way. It is in no count and no list, and
	// takes a place below the maximum until it is gone.
	ending State = "ENDING"
)

// event is what happens to a worker.
type event int

const (
	refused event = iota // no devices are free
	placed               // it has its devices
	asked                // for a job
	took                 // a job
	emptied              // the last job has left it
	failed               // it is no worker any more, or never was
	ends                 // nothing of it is needed any more
)

// transitions are all ways from one state to another, as the package's
// documentation draws them. An event that a state does not have changes nothing.
var transitions = map[event]map[State]State{
	refused: {Initializing: Throttled},
	placed:  {Throttled: Initializing},
	asked:   {Initializing: Idle},
	took:    {Initializing: Running, Idle: Running},
	emptied: {Running: Idle},
	failed:  {Initializing: Unhealthy, Throttled: Unhealthy, Idle: Unhealthy, Running: Unhealthy},
	ends:    {Initializing: ending, Throttled: ending, Idle: ending, Running: ending},
}

// apply applies an event to the state, and tells whether that changed. The caller
// holds the worker's lock.
func (w *worker) apply(e event) bool {
	next, ok := transitions[e][w.state]
	if !ok {
		return false
	}
	w.state = next
	switch next {
	case Initializing, Idle, Running:
		w.reason = ""
	}
	if next == Idle {
		w.since = w.pool.clock.Now()
		w.pool.backoff.ready(w.settings.Version)
	}
	if e == took || e == emptied {
		w.pool.jobsChanged()
	} else {
		w.pool.poke()
	}
	return true
}

// fail notes why the worker can't work.
func (w *worker) fail(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apply(failed)
	w.reason = reason
}

// view is how a worker stands at a moment.
type view struct {
	State
	reason         string    // why it does not work
	since          time.Time // when it last became idle
	jobs           int
	ready          bool // works, and may take more
	offClock       bool // runs a job and does not follow the deployment's clock
	speaks         bool // the worker protocol
	folder         string
	stale, staying bool
}

func (w *worker) now() view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return view{
		State: w.state, reason: w.reason, since: w.since, jobs: len(w.jobs), ready: w.isReady(), offClock: len(w.jobs) > 0 && !w.followsClock,
		speaks: w.speaks, folder: w.folder, stale: w.stale(), staying: w.takesJobs(),
	}
}

// isReady tells whether it works, and may take more. The worker is locked.
func (w *worker) isReady() bool { return w.takesJobs() && (w.state == Idle || w.state == Running) }

// Counts are an endpoint's workers by state.
type Counts struct {
	Idle, Initializing, Running, Throttled, Unhealthy int
}

func (c *Counts) add(s State) {
	switch s {
	case Idle:
		c.Idle++
	case Initializing:
		c.Initializing++
	case Running:
		c.Running++
	case Throttled:
		c.Throttled++
	case Unhealthy:
		c.Unhealthy++
	}
}
