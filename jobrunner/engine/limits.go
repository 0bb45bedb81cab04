package engine

import "time"

// The times of a job, from the service description, section Limits, and the
// job submission body's policy.
const (
	DefaultTimeout = 10 * time.Minute // of execution, where neither the job nor its endpoint says
	MinTimeout     = 5 * time.Second
	MaxTimeout     = 7 * 24 * time.Hour

	DefaultTTL = 24 * time.Hour // from submission, waiting and running together
	MinTTL     = 10 * time.Second
	MaxTTL     = 7 * 24 * time.Hour

	DefaultWait = 90 * time.Second // of a synchronous submission
	MinWait     = time.Second
	MaxWait     = 5 * time.Minute

	asyncRetention   = 30 * time.Minute // of a result, from completion
	syncRetention    = time.Minute      // or the submission's wait, if that is longer
	maxSyncRetention = 5 * time.Minute
)

// maxRetries is how often a job whose worker died is dispatched again.
const maxRetries = 1

// MaxChunk is the greatest output of one streamed chunk, in bytes of JSON
// (service description, Limits; MB is 2^20 here).
const MaxChunk = 1 << 20

// maxDrain bounds what one read of a stream hands over, in bytes.
const maxDrain = 8 << 20

// maxChunkRow bounds a row that has several chunks, in bytes.
const maxChunkRow = 64 << 10

// A list of an endpoint's newest jobs has at most maxRecent jobs, and leaves out outputs of
// more than maxRecentOutput bytes.
const (
	maxRecent       = 100
	maxRecentOutput = 64 << 10
	maxLatestError  = 200 // characters, in an overview
)

// maxSlice bounds how many jobs one transaction changes, so that it never holds up the
// others for long; see slice.
const maxSlice = 500
