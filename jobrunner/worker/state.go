package worker

import "time"

// State is a worker's state, in the words of API v2.
type State string

const (
	Initializing State = "INITIALIZING" // it starts, and hasn't requested a job yet
	Idle         State = "IDLE"
	Running      State = "RUNNING"   // it has one or more jobs
	Throttled    State = "THROTTLED" // no devices are free for it
	Unhealthy    State = "UNHEALTHY" // it can't work, or exited right after its start
	// ending is the state of a worker that is shutting down, unless it is Unhealthy. Counts and lists omit the worker,
	// but until it is gone it occupies one of the endpoint's Max places.
	ending State = "ENDING"
)

type event int

const (
	devicesRefused event = iota // no devices are free
	devicesGranted
	jobRequested // by the worker, or it passed its first health check
	jobTaken
	lastJobGone
	workerFailed // it can't work any more, or never could
	shutdown     // it ends
)

// transitions lists all transitions; the package's documentation has them as a table. A state
// ignores an event that isn't listed for it.
var transitions = map[event]map[State]State{
	devicesRefused: {Initializing: Throttled},
	devicesGranted: {Throttled: Initializing},
	jobRequested:   {Initializing: Idle},
	jobTaken:       {Initializing: Running, Idle: Running},
	lastJobGone:    {Running: Idle},
	workerFailed:   {Initializing: Unhealthy, Throttled: Unhealthy, Idle: Unhealthy, Running: Unhealthy},
	shutdown:       {Initializing: ending, Throttled: ending, Idle: ending, Running: ending},
}

// apply applies an event, and reports whether the state changed. The caller holds the worker's lock.
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
		w.idleSince = w.pool.clock.Now()
		w.pool.backoff.recordReady(w.settings.Version)
	}
	if e == jobTaken || e == lastJobGone {
		w.pool.jobsChanged()
	} else {
		w.pool.poke()
	}
	return true
}

// fail makes the worker Unhealthy for a reason, unless it is ending.
func (w *worker) fail(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apply(workerFailed)
	w.reason = reason
}

// view is a snapshot of a worker for its pool.
type view struct {
	State
	reason       string    // why it can't work
	idleSince    time.Time // when it last became idle, or was created
	jobs         int
	ready        bool   // it works and may take more jobs
	offClock     bool   // it runs a job and ignores the deployment's clock
	usesProtocol bool   // it uses the worker protocol
	folder       string // working folder of its process
	stale        bool   // the endpoint has a newer version
	takesJobs    bool   // it isn't shutting down; it may not be ready yet
}

func (w *worker) view() view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return view{
		State: w.state, reason: w.reason, idleSince: w.idleSince, jobs: len(w.jobs), ready: w.isReady(), offClock: len(w.jobs) > 0 && !w.followsClock,
		usesProtocol: w.usesProtocol, folder: w.folder, stale: w.stale(), takesJobs: w.takesJobs(),
	}
}

// isReady reports whether the worker works and may take more jobs. The caller holds the worker's lock.
func (w *worker) isReady() bool { return w.takesJobs() && (w.state == Idle || w.state == Running) }

type Counts struct {
	Idle         int `json:"idle"`
	Initializing int `json:"initializing"`
	Running      int `json:"running"`
	Throttled    int `json:"throttled"`
	Unhealthy    int `json:"unhealthy"`
}

func (c *Counts) Add(s State) {
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
