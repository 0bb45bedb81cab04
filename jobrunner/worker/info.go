package worker

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Info is a worker as it stands.
type Info struct {
	ID        string
	State     State
	Reason    string // why it is THROTTLED or UNHEALTHY, for people
	Advice    string // for its author; "" mostly
	Version   int64  // of the endpoint that it was started for
	Stale     bool   // there is a newer version
	Image     string
	StartedAt time.Time // zero before its start
	Devices   []gpu.Device
	Placement Placement // once it has one
	Usage     run.Usage
	Jobs      int // that it holds
}

// Workers are an endpoint's, also those of its batches, the oldest first. Those whose end is under way are
// not among them.
func (p *Pools) Workers(endpoint string) []Info {
	type shown struct {
		Info
		number int64
		runs   run.Process
	}
	var all []shown
	for _, one := range p.ofEndpoint(endpoint) {
		one.mu.Lock()
		for w := range one.each() {
			if info, process := w.info(); info.State != ending {
				all = append(all, shown{info, w.number, process})
			}
		}
		one.mu.Unlock()
	}
	slices.SortStableFunc(all, func(a, b shown) int { return cmp.Compare(a.number, b.number) })
	infos := make([]Info, len(all))
	for i, w := range all {
		infos[i] = w.Info
		if w.runs != nil {
			infos[i].Usage = w.runs.Usage() // may take a while
		}
	}
	return infos
}

// Failure is why no worker of an endpoint can work, for people, in one line; ""
// while one works, or may yet.
func (p *Pools) Failure(endpoint string) string {
	one := p.pool(endpoint)
	if one == nil {
		return ""
	}
	lines := strings.Split(one.waitsFor(), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	// The first says what happened, the last is the end of a log: the cause.
	return strings.TrimSuffix(lines[0], ". The end of its log:") + ": " + lines[len(lines)-1]
}

// Died are an endpoint's latest workers that worked and ended otherwise than they
// were to, the oldest first, each with its reason.
func (p *Pools) Died(endpoint string) (infos []Info) {
	for _, one := range p.ofEndpoint(endpoint) {
		one.mu.Lock()
		for _, w := range one.past {
			if info, _ := w.info(); info.Reason != "" && info.State != Unhealthy {
				infos = append(infos, info)
			}
		}
		one.mu.Unlock()
	}
	return infos
}

func (w *worker) info() (Info, run.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Info{
		ID: w.id, State: w.state, Reason: w.reason, Version: w.settings.Version, Stale: w.stale(), Image: w.settings.Image,
		StartedAt: w.started, Devices: w.devices, Placement: w.placement, Jobs: len(w.jobs), Advice: strings.Trim(strings.Join(w.advice[:], " "), " "),
	}, w.process
}

// Counts counts an endpoint's workers.
func (p *Pools) Counts(endpoint string) (c Counts) {
	one := p.pool(endpoint)
	if one == nil {
		return c
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	for w := range one.each() {
		c.add(w.now().State)
	}
	return c
}

// Log is what a worker wrote; false: there is no such worker, or it ended too
// long ago.
func (p *Pools) Log(endpoint, worker string) (*run.Log, bool) {
	for _, one := range p.ofEndpoint(endpoint) {
		if log := one.logOf(worker); log != nil {
			return log, true
		}
	}
	return nil, false
}

// logOf is nil if there is no such worker, or none any more.
func (p *pool) logOf(worker string) *run.Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.each() {
		if w.id == worker {
			return w.log
		}
	}
	for _, w := range p.past {
		if w.id == worker {
			return w.log
		}
	}
	return nil
}

// OffClock names an endpoint with a worker that runs a job and does not follow
// the deployment's clock; "": there is none.
func (p *Pools) OffClock() (endpoint string) {
	for _, one := range p.all() {
		if one.find(func(w *worker) bool { return w.now().offClock }) != nil {
			endpoint = one.id
		}
	}
	return endpoint
}

// Mounts reports whether a worker that isn't gone has a network volume.
func (p *Pools) Mounts(volume string) bool {
	for _, pool := range p.all() {
		pool.mu.Lock()
		for w := range pool.workers {
			if len(w.settings.Volumes) > 0 && w.settings.Volumes[0] == volume {
				pool.mu.Unlock()
				return true
			}
		}
		pool.mu.Unlock()
	}
	return false
}
