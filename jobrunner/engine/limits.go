package engine

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/fault"
)

// The times of a job, from the service description, section Limits, and the
// job submission body's policy.
var (
	DefaultTimeout = fault.Value("engine.DefaultTimeout", 10*time.Minute) // of execution, where neither the job nor its endpoint says
	MinTimeout     = fault.Value("engine.MinTimeout", 5*time.Second)
	MaxTimeout     = fault.Value("engine.MaxTimeout", 7*24*time.Hour)

	DefaultTTL = fault.Value("engine.DefaultTTL", 24*time.Hour) // from submission, waiting and running together
	MinTTL     = fault.Value("engine.MinTTL", 10*time.Second)
	MaxTTL     = fault.Value("engine.MaxTTL", 7*24*time.Hour)

	DefaultWait = fault.Value("engine.DefaultWait", 90*time.Second) // of a synchronous submission
	MinWait     = fault.Value("engine.MinWait", time.Second)
	MaxWait     = fault.Value("engine.MaxWait", 5*time.Minute)

	asyncRetention   = fault.Value("engine.asyncRetention", 30*time.Minute) // of a result, from completion
	syncRetention    = fault.Value("engine.syncRetention", time.Minute)     // at least; with a wait setting as long as that
	maxSyncRetention = fault.Value("engine.maxSyncRetention", 5*time.Minute)
)

// maxRetries is how often a job whose worker died is dispatched again.
var maxRetries = fault.Value("engine.maxRetries", 1)

// MaxChunk is the greatest output of one streamed chunk, in bytes of JSON
// (service description, Limits; MB is 2^20 here).
var MaxChunk = fault.Value("engine.MaxChunk", 1<<20)

// maxDrain bounds what one read of a stream hands over, in bytes.
const maxDrain = 8 << 20

// What a list of an endpoint's newest jobs holds: so many, and of their outputs
// those of at most so many bytes.
const (
	maxRecent       = 100
	maxRecentOutput = 64 << 10
	maxLatestError  = 200 // characters, in an overview
)

// sweepChunk bounds the rows that one transaction of the sweeper changes, so
// that it never holds up the others for long.
const sweepChunk = 500
