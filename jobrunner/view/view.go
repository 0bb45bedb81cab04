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

// View is the source of data for the page (page.Source) and the metrics (metrics.Source).
type View struct {
	*engine.Engine
	*store.Store
	Pools     *worker.Pools
	Pods      *pod.Pods
	Meter     *billing.Meter
	Clock     *clock.Clock
	Inventory gpu.Inventory
	Allocator *gpu.Allocator
	PodReason func(p store.Pod) string
	PodPrice  func(p store.Pod) float64 // in dollars per hour
}

// States counts an endpoint's workers by state, including states without a worker.
func (v *View) States(endpoint string) map[string]int {
	c := v.Pools.Counts(endpoint)
	return map[string]int{"INITIALIZING": c.Initializing, "IDLE": c.Idle, "RUNNING": c.Running, "THROTTLED": c.Throttled, "UNHEALTHY": c.Unhealthy}
}

func (v *View) Workers(endpoint string) (out []page.Worker) {
	dead := v.Pools.DeadWorkers(endpoint)
	for i := range dead {
		dead[i].State, dead[i].Advice, dead[i].Devices = page.Died, "", nil
	}
	for _, w := range append(v.Pools.Workers(endpoint), dead...) {
		out = append(out, page.Worker{Endpoint: endpoint, Info: w})
	}
	return out
}

// Costs sums the costs since midnight UTC, when a bucket of billing begins.
func (v *View) Costs(ctx context.Context) (costs page.Costs, err error) {
	today, err := billing.LastBuckets(billing.Day, 1, v.Clock.Wall())
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
		if err := v.Meter.VisitUsage(ctx, kind, today, func(u billing.Usage) { add(u); costs.Total += u.Cost.Total() }); err != nil {
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

// EndpointLoads returns all endpoints with their jobs and workers, for the metrics.
func (v *View) EndpointLoads(ctx context.Context) ([]metrics.Endpoint, error) {
	ids, err := v.EndpointIDs(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]metrics.Endpoint, len(ids))
	for i, id := range ids {
		load, err := v.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		out[i] = metrics.Endpoint{ID: id, Jobs: v.Counts(id), Oldest: load.Oldest, WorkersByState: v.States(id), Workers: v.Pools.Workers(id)}
	}
	return out, nil
}

func (v *View) Objects(ctx context.Context) (out page.Objects, err error) {
	pods, err := v.Store.Pods(ctx)
	if err != nil {
		return out, err
	}
	for _, p := range pods {
		p.Reason = v.PodReason(p)
		out.Pods = append(out.Pods, page.Pod{
			Head: p.Head, PodState: p.PodState, Image: p.Image, Actions: pod.Actions(p), GPU: p.GPU, CPU: p.CPU, Locked: p.Locked, Cost: v.PodPrice(p), Cluster: p.Cluster,
		})
	}
	if out.Clusters, err = store.List[store.Cluster](ctx, v.Store); err != nil {
		return out, err
	}
	for i := range out.Clusters {
		out.Clusters[i].Owner = "" // a key with few rights learns nothing about other owners
	}
	out.Volumes, err = store.List[store.NetworkVolume](ctx, v.Store)
	return out, err
}

func (v *View) PodLog(id string) ([]run.Line, bool) { return linesOf(v.Pods.Log(id)) }

func (v *View) GPUs() page.GPUs {
	out := page.GPUs{Driver: v.Inventory.Driver(), Simulated: gpu.IsSimulated(v.Inventory), Devices: []page.GPU{}}
	for _, d := range v.Allocator.States() {
		out.Devices = append(out.Devices, page.GPU{DeviceState: d})
	}
	return out
}

func (v *View) Devices() []gpu.DeviceState { return v.Allocator.States() }
