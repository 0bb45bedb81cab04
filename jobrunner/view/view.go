// Package view reads a deployment for the page and the metrics.
package view

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// View reads a deployment for the page.
type View struct {
	*engine.Engine
	Store     *store.Store
	Pools     *worker.Pools
	Pods      *pod.Pods
	Meter     *billing.Meter
	Clock     *clock.Clock
	Inventory gpu.Inventory
	GPUOwners func() map[string]string // by the device's UUID
	PodReason func(p store.Pod) string
	PodPrice  func(p store.Pod) float64 // in dollars per hour
}

// states counts an endpoint's workers by state, including states without a worker.
func (v *View) states(endpoint string) map[string]int {
	c := v.Pools.Counts(endpoint)
	return map[string]int{"INITIALIZING": c.Initializing, "IDLE": c.Idle, "RUNNING": c.Running, "THROTTLED": c.Throttled, "UNHEALTHY": c.Unhealthy}
}

func (v *View) Endpoints(ctx context.Context) ([]page.Endpoint, error) {
	endpoints, err := v.Store.Endpoints(ctx)
	out := make([]page.Endpoint, len(endpoints))
	for i, e := range endpoints {
		out[i] = page.Endpoint{
			ID: e.ID, Name: e.Name, Type: e.Type, Image: e.Image, Min: int(e.WorkersMin), Max: int(e.WorkersMax), Workers: v.states(e.ID),
		}
	}
	return out, err
}

func (v *View) Job(ctx context.Context, endpoint, id string) (engine.Job, error) {
	return v.Get(ctx, endpoint, id)
}

func (v *View) Batches(ctx context.Context, endpoint string, n int) ([]engine.Batch, int, error) {
	return v.Engine.Batches(ctx, endpoint, 0, n)
}

func (v *View) Workers(endpoint string) (out []page.Worker) {
	died := v.Pools.Died(endpoint)
	for i := range died {
		died[i].State, died[i].Advice, died[i].Devices = page.Died, "", nil
	}
	for _, w := range append(v.Pools.Workers(endpoint), died...) {
		worker := page.Worker{
			Endpoint: endpoint, ID: w.ID, State: string(w.State), Reason: w.Reason, Advice: w.Advice, Stale: w.Stale, Version: w.Version,
			Started: page.Milliseconds(w.StartedAt), Devices: []string{}, CPU: w.Usage.CPU.Milliseconds(), Memory: w.Usage.Memory,
		}
		for _, d := range w.Devices {
			worker.Devices = append(worker.Devices, d.UUID)
		}
		out = append(out, worker)
	}
	return out
}

// Costs sums the costs since midnight UTC, where the buckets of billing begin.
func (v *View) Costs(ctx context.Context) (costs page.Costs, err error) {
	today, err := billing.Last(billing.Day, 1, v.Clock.Wall())
	if err != nil {
		return costs, err
	}
	endpoints := map[string]page.EndpointCost{}
	for kind, add := range map[billing.Kind]func(billing.Usage){
		billing.Worker: func(u billing.Usage) {
			e := endpoints[u.Owner]
			endpoints[u.Owner] = page.EndpointCost{
				Endpoint: u.Owner, Time: e.Time + u.Time.Milliseconds(),
				Compute: e.Compute + u.Cost.GPU + u.Cost.CPU, Disk: e.Disk + u.Cost.Disk, Total: e.Total + u.Cost.Total(),
			}
		},
		billing.Volume:  func(u billing.Usage) { costs.Volumes += u.Cost.Total() },
		billing.Pod:     func(u billing.Usage) { costs.Pods += u.Cost.Total() },
		billing.Cluster: func(u billing.Usage) { costs.Clusters += u.Cost.Total() },
	} {
		if err := v.Meter.Usage(ctx, kind, today, func(u billing.Usage) { add(u); costs.Total += u.Cost.Total() }); err != nil {
			return costs, err
		}
	}
	costs.Endpoints = slices.AppendSeq([]page.EndpointCost{}, maps.Values(endpoints))
	slices.SortFunc(costs.Endpoints, func(a, b page.EndpointCost) int {
		return cmp.Or(-cmp.Compare(a.Total, b.Total), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return costs, nil
}

func (v *View) Log(endpoint, worker string) ([]run.Line, bool) {
	return linesOf(v.Pools.Log(endpoint, worker))
}

func linesOf(log *run.Log, ok bool) ([]run.Line, bool) {
	if !ok {
		return nil, false
	}
	lines, _ := log.Lines(0)
	return lines, true
}

// Metrics reads a deployment for each scrape of the metrics.
type Metrics struct{ *View }

// Endpoints returns all endpoints with their jobs and workers.
func (v Metrics) Endpoints(ctx context.Context) ([]metrics.Endpoint, error) {
	ids, err := v.Store.EndpointIDs(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]metrics.Endpoint, len(ids))
	for i, id := range ids {
		load, err := v.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		out[i] = metrics.Endpoint{ID: id, Jobs: v.Counts(id), Oldest: load.Oldest, Workers: v.states(id)}
		for _, w := range v.Pools.Workers(id) {
			if w.Usage != (run.Usage{}) { // the worker is a process
				out[i].Each = append(out[i].Each, metrics.Worker{ID: w.ID, CPU: w.Usage.CPU, Memory: w.Usage.Memory})
			}
		}
	}
	return out, nil
}
