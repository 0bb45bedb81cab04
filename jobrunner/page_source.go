package jobrunner

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// PageCode is for a link to the page, /#code=…: it lets one browser in, once,
// within an hour.
func (j *Jobrunner) PageCode() string { return j.page.Load().Code() }

// recordEvent passes events of jobs to the metrics, the page, and also somebody else.
func (j *Jobrunner) recordEvent(also func(engine.Event)) func(engine.Event) {
	return func(e engine.Event) {
		j.metrics.Job(e)
		if p := j.page.Load(); p != nil {
			p.Job(e)
		}
		if also != nil {
			also(e)
		}
	}
}

// states counts an endpoint's workers; every state is named.
func (j *Jobrunner) states(endpoint string) map[string]int {
	c := j.pools.Counts(endpoint)
	return map[string]int{"INITIALIZING": c.Initializing, "IDLE": c.Idle, "RUNNING": c.Running, "THROTTLED": c.Throttled, "UNHEALTHY": c.Unhealthy}
}

// pageSource is what the page shows.
type pageSource struct{ *Jobrunner }

func (s pageSource) Endpoints(ctx context.Context) ([]page.Endpoint, error) {
	endpoints, err := s.store.Endpoints(ctx)
	out := make([]page.Endpoint, len(endpoints))
	for i, e := range endpoints {
		out[i] = page.Endpoint{
			ID: e.ID, Name: e.Name, Type: e.Type, Image: e.Image, Min: int(e.WorkersMin), Max: int(e.WorkersMax), Created: e.Created,
			Workers: s.states(e.ID),
		}
	}
	return out, err
}

func (s pageSource) Counts(endpoint string) engine.Counts { return s.engine.Counts(endpoint) }

func (s pageSource) Active(ctx context.Context) (map[string]engine.Counts, error) {
	return s.engine.Active(ctx)
}

func (s pageSource) Latest(ctx context.Context, endpoint string, n int) ([]engine.Job, error) {
	return s.engine.Latest(ctx, endpoint, n)
}

func (s pageSource) Job(ctx context.Context, endpoint, id string) (engine.Job, error) {
	return s.engine.Get(ctx, endpoint, id)
}

func (s pageSource) Workers(endpoint string) (out []page.Worker) {
	for _, w := range s.pools.Workers(endpoint) {
		shown := page.Worker{
			ID: w.ID, State: string(w.State), Reason: w.Reason, Advice: w.Advice, Stale: w.Stale, Version: w.Version, Started: w.StartedAt, CPU: w.Usage.CPU, Memory: w.Usage.Memory,
		}
		for _, d := range w.Devices {
			shown.Devices = append(shown.Devices, d.UUID)
		}
		out = append(out, shown)
	}
	for _, w := range s.pools.Died(endpoint) {
		out = append(out, page.Worker{ID: w.ID, State: page.Died, Reason: w.Reason, Stale: w.Stale, Version: w.Version, Started: w.StartedAt})
	}
	return out
}

// Costs adds up what ran since midnight, in UTC as the buckets of billing.
func (s pageSource) Costs(ctx context.Context) (costs page.Costs, err error) {
	today, err := billing.Last(billing.Day, 1, s.clock.Wall())
	if err != nil {
		return costs, err
	}
	endpoints := map[string]page.EndpointCost{}
	for kind, add := range map[billing.Kind]func(billing.Usage){
		billing.Worker: func(u billing.Usage) {
			e := endpoints[u.Owner]
			endpoints[u.Owner] = page.EndpointCost{Endpoint: u.Owner, Time: e.Time + u.Time, Cost: e.Cost.Plus(u.Cost)}
		},
		billing.Volume:  func(u billing.Usage) { costs.Volumes += u.Cost.Total() },
		billing.Pod:     func(u billing.Usage) { costs.Pods += u.Cost.Total() },
		billing.Cluster: func(u billing.Usage) { costs.Clusters += u.Cost.Total() },
	} {
		if err := s.meter.Usage(ctx, kind, today, add); err != nil {
			return costs, err
		}
	}
	costs.Endpoints = slices.SortedFunc(maps.Values(endpoints), func(a, b page.EndpointCost) int {
		return cmp.Or(-cmp.Compare(a.Cost.Total(), b.Cost.Total()), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return costs, nil
}

func (s pageSource) Log(endpoint, worker string) ([]page.Line, bool) {
	log, ok := s.pools.Log(endpoint, worker)
	if !ok {
		return nil, false
	}
	return pageLines(log), true
}

// metricsSource is what the metrics read at each scrape.
type metricsSource struct{ *Jobrunner }

func (s metricsSource) Endpoints(ctx context.Context) ([]metrics.Endpoint, error) {
	ids, err := s.store.EndpointIDs(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]metrics.Endpoint, len(ids))
	for i, id := range ids {
		load, err := s.engine.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		out[i] = metrics.Endpoint{ID: id, Jobs: s.engine.Counts(id), Oldest: load.Oldest, Workers: s.states(id)}
		for _, w := range s.pools.Workers(id) {
			if w.Usage != (run.Usage{}) { // it is a process
				out[i].Each = append(out[i].Each, metrics.Worker{ID: w.ID, CPU: w.Usage.CPU, Memory: w.Usage.Memory})
			}
		}
	}
	return out, nil
}
