package worker

import "time"

// Time-outs and intervals, by the deployment's clock unless a comment says otherwise.
const (
	// stopGrace is how long a handler may take to stop a job that was taken from its worker. Then the
	// worker is killed, because nothing else stops a handler that blocks.
	stopGrace = 5 * time.Second
	// missGrace is how long a worker's pings may leave out a job before the job counts as lost. A ping
	// may have been sent before the worker got the job.
	missGrace = 5 * time.Second
	// requestGrace is how long a worker that lost a job may take to request another. Then it is killed.
	requestGrace = 30 * time.Second
	// settleTime is how long a worker's requests may omit a job that it got: it may not have noted the job yet.
	settleTime = time.Second
	// watchDelay is how long, in real time, a built-in handler runs before the worker watches whether its job is taken away.
	watchDelay = 2 * time.Millisecond
	// deliveryPatience is how long a worker's report may wait for the database or the spool, in real
	// time. It is below the time-outs of workers and proxies.
	deliveryPatience = 50 * time.Second
	// retryDelay is the pause after an error of the engine.
	retryDelay = time.Second
	// pingEvery is how often, in real time, a process must report the jobs that it holds. It is shorter than the graces.
	pingEvery = 2 * time.Second
)

// The back-off of an endpoint whose workers exit right after their start.
const (
	minRetryPause = time.Second // doubled after each further failure
	maxRetryPause = time.Minute
	// startWindow is how soon after its start the exit of a worker that had no job counts as a failed start.
	startWindow = time.Minute
)

const (
	maxReason   = 2000 // length of a failure's text, in bytes
	maxArchived = 10   // ended workers whose logs a pool keeps
)
