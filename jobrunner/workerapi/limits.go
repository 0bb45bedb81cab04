package workerapi

import "time"

// How long a request is held.
const (
	// pollTimeout is for a poll without news: well below the 90 s at which the public
	// SDK gives up, and below the 60 s of common proxies.
	pollTimeout = 50 * time.Second
	// refusalDelay is for a failed poll for jobs, which the SDK repeats at once: it
	// would spin.
	refusalDelay = time.Second
)

const (
	// maxBatch bounds the jobs of one answer.
	maxBatch = 100
	// maxBody bounds what a worker posts, in bytes. The contract has no limit for
	// outputs; the public service refuses with 400 above about as much.
	maxBody = 20 << 20
	// maxDiscarded bounds what is read of a body that is too large, in bytes: a worker
	// that may finish its post reads the answer, any other a broken connection.
	maxDiscarded = 256 << 20
	// maxReason bounds the reason of an unhealthy worker, in bytes.
	maxReason = 1000
	// maxRelease bounds the name of a release of the SDK, in bytes.
	maxRelease = 40
)
