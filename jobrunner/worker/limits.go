package worker

import (
	"time"
)

// How long is waited for a worker. All go by the deployment's clock.
const (
	// stopGrace is how long a handler may take to stop a job that is not its
	// worker's any more. Then the worker is killed, for a handler that blocks can't
	// be stopped otherwise.
	stopGrace = 5 * time.Second
	// missGrace is for how long a worker must say that it does not have a job that
	// it was given before the job counts as lost: what it says may have been on its
	// way when it was given the job.
	missGrace = 5 * time.Second
	// settleTime is how long a worker may take to note a job that it was given.
	settleTime = time.Second
	// watchDelay is how long a built-in handler has run, in real time, when somebody
	// begins to watch whether its job is still the worker's.
	watchDelay = 2 * time.Millisecond
	// deliveryPatience is how long a worker's report is held that the database
	// can't take and that no disk has: below the time-outs of workers and proxies.
	// It goes by real time.
	deliveryPatience = 50 * time.Second
	// retake is the pause after an error of the engine.
	retake = time.Second
	// pingEvery is how often a process is to say which jobs it holds: more
	// than once within a grace.
	pingEvery = 2 * time.Second
)

// The back-off of an endpoint whose workers end right after their start.
const (
	firstRetry = time.Second // doubled at each further failure
	lastRetry  = time.Minute
	// startWindow is for how long the end of a worker that had no job is a failure of
	// its start.
	startWindow = time.Minute
)

const (
	maxReason = 2000 // bytes of a failure's text
	keptPast  = 10   // ended workers of an endpoint whose logs can be read
)
