// Package view reads a deployment for the page and the metrics.
package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
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

func (v *View) Workers(endpoint string) (out []page.Worker) {
	died := v.Pools.Died(endpoint)
	for i := range died {
		died[i].State, died[i].Advice, died[i].Devices = page.Died, "", nil
	}
	for _, w := range append(v.Pools.Workers(endpoint), died...) {
		out = append(out, page.Worker{Endpoint: endpoint, Info: w})
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

func (v *View) Objects(ctx context.Context) (out page.Objects, err error) {
	pods, err := v.Store.Pods(ctx)
	if err != nil {
		return out, err
	}
	for _, p := range pods {
		out.Pods = append(out.Pods, v.pagePod(p))
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

func (v *View) pagePod(p store.Pod) page.Pod {
	out := page.Pod{
		Head: p.Head, PodState: p.PodState, Image: p.Image, Actions: pod.Actions(p), GPU: p.GPU, CPU: p.CPU, Locked: p.Locked, Cluster: p.Cluster,
	}
	out.Reason = v.PodReason(p)
	if p.Status.Active() {
		out.Cost = v.PodPrice(p)
	}
	return out
}

func (v *View) PodLog(id string) ([]run.Line, bool) { return linesOf(v.Pods.Log(id)) }

func (v *View) Releases(ctx context.Context, endpoint string) ([]page.Release, error) {
	releases, err := v.Store.Releases(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	out := make([]page.Release, len(releases))
	for i, r := range releases {
		out[i] = page.Release{Version: r.Version, Created: page.Milliseconds(r.Created), Changes: []string{}}
		for _, c := range r.Changes {
			out[i].Changes = append(out[i].Changes, describeChange(c))
		}
	}
	return out, nil
}

// maxShownValue is the maximum length of a changed value of a release, in bytes.
const maxShownValue = 200

// describeChange describes a change for people. For variables it shows only the names, because their
// values may be secrets.
func describeChange(c store.Change) string {
	name := strings.TrimPrefix(c.Field, "template.")
	var oldEnv, newEnv map[string]string
	if name == "env" && json.Unmarshal(c.Old, &oldEnv) == nil && json.Unmarshal(c.New, &newEnv) == nil {
		changed := map[string]string{}
		maps.Copy(changed, oldEnv)
		maps.Copy(changed, newEnv)
		maps.DeleteFunc(changed, func(variable, _ string) bool { return oldEnv[variable] == newEnv[variable] })
		return "env: " + strings.Join(slices.Sorted(maps.Keys(changed)), ", ")
	}
	return fmt.Sprintf("%s: %s → %s", name, logline.Shorten(plain(c.Old), maxShownValue), logline.Shorten(plain(c.New), maxShownValue))
}

// plain formats a value for people: as JSON, except for text and absent values.
func plain(value json.RawMessage) string {
	var text string
	switch err := json.Unmarshal(value, &text); {
	case string(value) == "null", err == nil && text == "":
		return "none"
	case err == nil:
		return text
	}
	return string(value)
}

// eachGPU visits each device with its sample and its holder, "" if it is free. A value that the device
// doesn't report is -1.
func (v *View) eachGPU(visit func(d gpu.Device, s gpu.Sample, holder string)) {
	held := v.GPUOwners()
	for _, d := range v.Inventory.Devices() {
		sample, err := v.Inventory.Sample(d.UUID)
		if err != nil { // it was removed meanwhile
			sample = gpu.Sample{Utilization: -1, MemoryUsed: -1, Power: -1, Temperature: -1}
		}
		visit(d, sample, held[d.UUID])
	}
}

func (v *View) GPUs() page.GPUs {
	out := page.GPUs{Driver: v.Inventory.Driver(), Simulated: gpu.Simulated(v.Inventory), Devices: []page.GPU{}}
	v.eachGPU(func(d gpu.Device, sample gpu.Sample, holder string) {
		out.Devices = append(out.Devices, page.GPU{Device: d, Sample: sample, Holder: holder})
	})
	return out
}

func (v Metrics) GPUs() (out []metrics.GPU) {
	v.eachGPU(func(d gpu.Device, sample gpu.Sample, holder string) {
		out = append(out, metrics.GPU{Device: d, Sample: sample, Held: holder != ""})
	})
	return out
}
