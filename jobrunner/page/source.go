package page

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// Source is what the page shows, as it stands.
type Source interface {
	Endpoints(ctx context.Context) ([]Endpoint, error)
	// Counts counts an endpoint's jobs; it is asked often.
	Counts(endpoint string) engine.Counts
	// Active counts the jobs that wait or run, of all endpoints that have some.
	Active(ctx context.Context) (map[string]engine.Counts, error)
	// Latest are the newest n jobs, the newest first, of an endpoint or of all
	// for "", without their outputs.
	Latest(ctx context.Context, endpoint string, n int) ([]engine.Job, error)
	// Job is one job whole, or engine.ErrNotFound.
	Job(ctx context.Context, endpoint, id string) (engine.Job, error)
	Workers(endpoint string) []Worker
	// Log is what a worker wrote, the oldest line first; false: there is no such
	// worker, or none any more.
	Log(endpoint, worker string) ([]Line, bool)
	// PodLog is what a pod wrote, in the same way.
	PodLog(pod string) ([]Line, bool)
	Objects(ctx context.Context) (Objects, error)
	// Releases are those of an endpoint, the newest first, without their workers.
	Releases(ctx context.Context, endpoint string) ([]Release, error)
	// Batches are the newest n batches of an endpoint, the newest first, and how many it has.
	Batches(ctx context.Context, endpoint string, n int) (list []engine.Batch, total int, err error)
	GPUs() GPUs
	// Costs are today's, the most expensive endpoint first.
	Costs(ctx context.Context) (Costs, error)
}

// Endpoint is what the page says of an endpoint.
type Endpoint struct {
	ID, Name, Type, Image string
	Min, Max              int            // workers
	Workers               map[string]int // how many there are here, by state
	Created               time.Time
}

// Worker is what the page says of a worker.
type Worker struct {
	ID      string
	State   string // one of States, or Died
	Reason  string // why it is as it is, for people
	Advice  string // for its author
	Stale   bool   // of an older version of the endpoint
	Version int64  // of the endpoint
	Started time.Time
	Devices []string // UUIDs of its GPUs
	CPU     time.Duration
	Memory  int64 // bytes
}

// Line is a line of a worker's log.
type Line struct {
	Time   time.Time
	Text   string
	System bool // the deployment says it of the worker, which did not write it
}

// GPUs are the machine's.
type GPUs struct {
	Driver    gpu.Driver
	Simulated bool // they are not there
	Devices   []GPU
}

// GPU is a device and how it does.
type GPU struct {
	gpu.Device
	gpu.Sample
	Holder string // the worker that has it; "" where none has
}
