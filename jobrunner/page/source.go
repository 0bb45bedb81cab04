package page

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
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
	Log(endpoint, worker string) ([]run.Line, bool)
	// PodLog is what a pod wrote, in the same way.
	PodLog(pod string) ([]run.Line, bool)
	Objects(ctx context.Context) (Objects, error)
	// Releases are those of an endpoint, the newest first, without their workers.
	Releases(ctx context.Context, endpoint string) ([]Release, error)
	// Batches are the newest n batches of an endpoint, the newest first, and how many it has.
	Batches(ctx context.Context, endpoint string, n int) (list []engine.Batch, total int, err error)
	GPUs() GPUs
	// Costs are today's, the most expensive endpoint first.
	Costs(ctx context.Context) (Costs, error)
}

// The types below are also the page's JSON: times are milliseconds since 1970, 0 if there
// is none, and durations milliseconds.

// Milliseconds is a time in the page's JSON.
func Milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Endpoint is an endpoint. The page counts its jobs.
type Endpoint struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	Image     string         `json:"image"`
	Min       int            `json:"min"` // workers
	Max       int            `json:"max"`
	Created   int64          `json:"created"`
	Queued    int            `json:"queued"`
	Running   int            `json:"running"`
	Completed int            `json:"completed"`
	Failed    int            `json:"failed"`
	Workers   map[string]int `json:"workers"` // how many this jobrunner has, by state
	Queue     []int32        `json:"queue"`   // recent lengths; one if it was always the same
}

// Worker is a worker.
type Worker struct {
	Node     string   `json:"node"` // on which it is, if there are several
	Version  int64    `json:"version"`
	Endpoint string   `json:"endpoint"`
	ID       string   `json:"id"`
	State    string   `json:"state"`  // one of States, or Died
	Reason   string   `json:"reason"` // why it is in this state, for people
	Advice   string   `json:"advice"` // for its author
	Stale    bool     `json:"stale"`  // of an older version of the endpoint
	Started  int64    `json:"started"`
	Devices  []string `json:"devices"` // UUIDs of its GPUs
	CPU      int64    `json:"cpu"`
	Memory   int64    `json:"memory"` // bytes
}

// GPUs are a machine's.
type GPUs struct {
	gpu.Driver
	Simulated bool  `json:"simulated"` // they don't exist
	Devices   []GPU `json:"devices"`
}

// GPU is a device and its load.
type GPU struct {
	Node string `json:"node"`
	gpu.Device
	gpu.Sample
	Holder string  `json:"holder"` // the worker that has it; "" if none has
	Past   []int32 `json:"past"`   // utilization
}
