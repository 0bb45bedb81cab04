package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Info is a snapshot of a worker. Its JSON is for the deployment's page (package page).
type Info struct {
	ID        string       `json:"id"`
	State     State        `json:"state"`
	Reason    string       `json:"reason"`  // human-readable; why it doesn't work
	Advice    string       `json:"advice"`  // for the author of its program; usually ""
	Version   int64        `json:"version"` // version of the endpoint at its start
	Stale     bool         `json:"stale"`   // the endpoint has a newer version
	Image     string       `json:"-"`
	StartedAt time.Time    `json:"startedAt,omitzero"` // zero before its start
	Devices   []gpu.Device `json:"devices,omitempty"`
	Placement Placement    `json:"-"` // zero before it is placed
	Usage     run.Usage    `json:"usage"`
	Jobs      int          `json:"-"` // number of jobs that it holds
}

// Workers returns an endpoint's workers, also for batches, oldest first. It omits workers that are shutting down.
func (p *Pools) Workers(endpoint string) []Info {
	type entry struct {
		Info
		number  int64
		process run.Process
	}
	var all []entry
	for _, pool := range p.poolsOf(endpoint) {
		pool.mu.Lock()
		for _, w := range pool.all() {
			if info, process := w.info(); info.State != ending {
				all = append(all, entry{info, w.number, process})
			}
		}
		pool.mu.Unlock()
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.number, b.number) })
	infos := make([]Info, len(all))
	for i, w := range all {
		infos[i] = w.Info
		if w.process != nil {
			infos[i].Usage = w.process.Usage() // may take a while
		}
	}
	return infos
}

// Failure returns a line about why no worker of an endpoint works, or "" if a worker works or no reason is known.
func (p *Pools) Failure(endpoint string) string {
	pool := p.pool(endpoint)
	if pool == nil {
		return ""
	}
	lines := strings.Split(pool.blockReason(), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	// The first line says what happened; the last one, from the worker's log, says why.
	return strings.TrimSuffix(lines[0], ". The end of its log:") + ": " + strings.TrimLeft(lines[len(lines)-1], " |")
}

// DeadWorkers returns an endpoint's latest workers that died after working, oldest first, with reasons.
func (p *Pools) DeadWorkers(endpoint string) (infos []Info) {
	for _, pool := range p.poolsOf(endpoint) {
		pool.mu.Lock()
		for _, w := range pool.archived {
			if info, _ := w.info(); w.died() {
				infos = append(infos, info)
			}
		}
		pool.mu.Unlock()
	}
	return infos
}

// died reports whether the worker worked, and then its process exited unexpectedly.
func (w *worker) died() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.death != "" && w.reason != "" && w.state != Unhealthy
}

func (w *worker) info() (Info, run.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Info{
		ID: w.id, State: w.state, Reason: w.reason, Version: w.settings.Version, Stale: w.stale(), Image: w.settings.Image,
		StartedAt: w.started, Devices: w.devices, Placement: w.placement, Jobs: len(w.jobs), Advice: strings.Trim(strings.Join(w.advice[:], " "), " "),
	}, w.process
}

// Counts counts an endpoint's workers, except those for batches.
func (p *Pools) Counts(endpoint string) (c Counts) {
	pool := p.pool(endpoint)
	if pool == nil {
		return c
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	for _, w := range pool.all() {
		c.Add(w.view().State)
	}
	return c
}

// Log returns a worker's log, or false if the worker doesn't exist or ended too long ago.
func (p *Pools) Log(endpoint, worker string) (*run.Log, bool) {
	for _, pool := range p.poolsOf(endpoint) {
		if log := pool.logOf(worker); log != nil {
			return log, true
		}
	}
	return nil, false
}

// logOf returns a worker's log, or nil if the worker is unknown.
func (p *pool) logOf(worker string) *run.Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range append(p.all(), p.archived...) {
		if w.id == worker {
			return w.log
		}
	}
	return nil
}

// EndpointIgnoringClock returns an endpoint with a worker that runs a job and ignores the deployment's clock, or "".
func (p *Pools) EndpointIgnoringClock() (endpoint string) {
	if w := p.anyWorker(func(w *worker) bool { return w.view().offClock }); w != nil {
		return engine.EndpointOf(w.pool.id)
	}
	return ""
}

func (p *Pools) MountsVolume(volume string) bool {
	return p.anyWorker(func(w *worker) bool { return len(w.settings.Volumes) > 0 && w.settings.Volumes[0] == volume }) != nil
}

// outcomeStopped is the outcome of a job that its worker stopped, or that ended when its worker was killed.
const outcomeStopped = "STOPPED"

// logJobEnd logs that a job left the worker, with current figures of the worker and its GPUs. It must be
// called while the worker still has its GPUs, and without the worker's lock, because a driver may be slow.
// Jobs without a GPU are logged at debug level, because there are many and their figures say little.
// A load balancer's requests aren't logged.
func (w *worker) logJobEnd(ctx context.Context, h *heldJob, outcome string) {
	w.mu.Lock()
	devices, process, endLogged := w.devices, w.process, h.endLogged
	h.endLogged = true
	w.mu.Unlock()
	level := slog.LevelDebug
	if len(devices) > 0 {
		level = slog.LevelInfo
	}
	if endLogged || w.settings.Balanced || !w.pool.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("endpoint", w.pool.id), slog.String("worker", w.id), slog.String("job", h.ref.ID), slog.String("outcome", outcome),
		slog.Duration("ran", w.pool.clock.Now().Sub(h.takenAt)),
	}
	if process != nil {
		if usage := process.Usage(); usage != (run.Usage{}) {
			attrs = append(attrs, slog.Duration("cpu", usage.CPU), slog.Int64("memory_bytes", usage.Memory))
		}
	}
	for i, d := range devices {
		attrs = append(attrs, slog.GroupAttrs(fmt.Sprint("gpu", i), w.figures(d)...))
	}
	w.pool.logger.LogAttrs(ctx, level, "a job left its worker", attrs...)
}

// figures returns measurements of a device, under the names and in the units of the metrics.
func (w *worker) figures(d gpu.Device) []slog.Attr {
	attrs := []slog.Attr{slog.String("uuid", d.UUID)}
	if w.pool.config.Sample == nil {
		return attrs
	}
	s, err := w.pool.config.Sample(d.UUID)
	if err != nil { // the device is lost, which the inventory reports
		return append(attrs, slog.String("fault", err.Error()))
	}
	add := func(isKnown bool, name string, value any) {
		if isKnown {
			attrs = append(attrs, slog.Any(name, value))
		}
	}
	add(s.Utilization >= 0, "utilization_ratio", float64(s.Utilization)/100)
	add(s.MemoryUsed >= 0, "memory_used_bytes", s.MemoryUsed)
	add(s.Power >= 0, "power_watts", float64(s.Power)/1000)
	add(s.Temperature >= 0, "temperature_celsius", s.Temperature)
	return attrs
}
