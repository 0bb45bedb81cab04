package engine

import "time"

// The times of a job, from the service description (Limits) and the policy of a submission.
const (
	DefaultTimeout = 10 * time.Minute // execution timeout, unless the job or its endpoint sets one
	MinTimeout     = 5 * time.Second
	MaxTimeout     = 7 * 24 * time.Hour

	DefaultTTL = 24 * time.Hour // from submission, including the execution
	MinTTL     = 10 * time.Second
	MaxTTL     = 7 * 24 * time.Hour

	DefaultWait = 90 * time.Second // of a synchronous submission
	MinWait     = time.Second
	MaxWait     = 5 * time.Minute

	asyncRetention   = 30 * time.Minute // of a result, from completion
	syncRetention    = time.Minute      // or the submission's wait, if that is longer
	maxSyncRetention = 5 * time.Minute
)

// maxRetries is how often a job is dispatched again after its worker died.
const maxRetries = 1

// MaxChunk is the maximum size of a streamed chunk, with its metrics, in bytes of JSON
// (service description, Limits, where MB means 2^20 bytes).
const MaxChunk = 1 << 20

// MaxDrain bounds the chunks that one read of a stream returns, in bytes.
const MaxDrain = 8 << 20

// maxTake bounds the total size of the inputs that a worker takes at once, in bytes. A larger input is taken alone.
const maxTake = 16 << 20

// assumedInputSize is the assumed size in bytes of the input of a job that was read from the store. Reading all sizes
// would take a third of the time of a start.
const assumedInputSize = 1 << 20

// SmallOutput is the size in bytes up to which an output is read without reserving memory first.
const SmallOutput = 64 << 10

// maxError is the maximum size of a handler's error in bytes. Lists of jobs have the errors of all jobs.
const maxError = 32 << 10

// maxChunkRow bounds a row of several chunks, in bytes.
const maxChunkRow = 64 << 10
