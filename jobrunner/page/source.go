package page

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Source reads the current state of a deployment.
type Source interface {
	Endpoints(ctx context.Context) ([]store.Endpoint, error)
	// States counts an endpoint's workers on this jobrunner by state.
	States(endpoint string) map[string]int
	// Counts counts an endpoint's jobs. It is called often.
	Counts(endpoint string) engine.Counts
	// Active counts the waiting and running jobs of all endpoints that have any.
	Active(ctx context.Context) (map[string]engine.Counts, error)
	// Latest returns the newest n jobs of an endpoint, or of all for "", the newest first, without
	// their outputs.
	Latest(ctx context.Context, endpoint string, n int) ([]engine.Job, error)
	// Get returns a whole job, or engine.ErrNotFound.
	Get(ctx context.Context, endpoint, id string) (engine.Job, error)
	Workers(endpoint string) []Worker
	// Log returns the lines of a worker's log, the oldest first, or false if the worker doesn't exist
	// any more.
	Log(endpoint, worker string) ([]run.Line, bool)
	// PodLog returns the log of a pod, like Log.
	PodLog(pod string) ([]run.Line, bool)
	Objects(ctx context.Context) (Objects, error)
	// Releases returns the releases of an endpoint, the newest first.
	Releases(ctx context.Context, endpoint string) ([]store.Release, error)
	// Batches returns a page of the batches of an endpoint, the newest first, and how many it has.
	Batches(ctx context.Context, endpoint string, offset, limit int) (list []engine.Batch, total int, err error)
	GPUs() GPUs
	// Costs returns today's costs, the most expensive endpoint first.
	Costs(ctx context.Context) (Costs, error)
}

// The types below are also the page's JSON.

type Worker struct {
	Node     string `json:"node"` // its jobrunner, if there are several
	Endpoint string `json:"endpoint"`
	worker.Info
}

type GPUs struct {
	gpu.Driver
	Simulated bool  `json:"simulated"` // no real devices
	Devices   []GPU `json:"devices"`
}

type GPU struct {
	Node string `json:"node"`
	gpu.State
	Past []int32 `json:"past"` // recent utilization
}

// Costs are the deployment's costs today, in dollars, at the catalog's prices.
type Costs struct {
	Endpoints []EndpointCost `json:"endpoints"`
	Volumes   catalog.USD    `json:"volumes"`
	Pods      catalog.USD    `json:"pods"`
	Clusters  catalog.USD    `json:"clusters"`
	Total     catalog.USD    `json:"total"`
}

// EndpointCost is the cost of an endpoint, which may be deleted.
type EndpointCost struct {
	Endpoint string      `json:"endpoint"` // id
	Time     int64       `json:"time"`     // time of its workers, in milliseconds
	Compute  catalog.USD `json:"compute"`
	Disk     catalog.USD `json:"disk"`
	Total    catalog.USD `json:"total"`
}

// costsAge is the maximum age of the shown costs, because each sum reads all usage of the day.
const costsAge = 3 * time.Second
