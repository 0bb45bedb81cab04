package workerapi

import "time"

// Durations for which a request is held.
const (
	// pollTimeout ends a poll without a result: well below the 90 s of the public SDK's
	// time-out, and below the 60 s of common proxies.
	pollTimeout = 50 * time.Second
	// refusalDelay delays the answer to a failed poll for jobs, because the SDK repeats
	// the poll at once.
	refusalDelay = time.Second
)

const (
	// maxBatch limits the number of jobs in one answer.
	maxBatch = 100
	// maxBody limits a posted body, in bytes. The contract has no limit for outputs; the public
	// service rejects bodies above about this size with 400.
	maxBody = 20 << 20
	// maxDiscarded limits how much of a body that is too large is read and discarded,
	// in bytes. A worker reads the answer only if it can finish its post.
	maxDiscarded = 256 << 20
	// maxReason limits the reason of an unhealthy worker, in bytes.
	maxReason = 1000
	// maxRelease limits the name of a release of the SDK, in bytes.
	maxRelease = 40
)
