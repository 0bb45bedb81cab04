package pod

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// gracePeriod is how long a pod may take to exit after the first signal.
const gracePeriod = 5 * time.Second

// The pause before a retry of a failed start, by the deployment's clock. It doubles at each failure.
const (
	minRetryPause   = time.Second
	maxRetryPause   = time.Minute
	maxResolvePause = 5 * time.Second // until an executor runs the image: another try costs nothing
)

// runner reconciles what runs with a pod's record.
type runner struct {
	pods  *Pods
	id    string
	log   *fileLog
	wake  chan struct{} // signals that the record changed
	retry chan struct{} // signals that devices may be free

	syncMu sync.Mutex // see Locking in the package's documentation

	mu           sync.Mutex // guards the rest
	lastRead     *store.Pod // the record as last read; nil if it didn't exist
	desired      *store.Pod // lastRead with later reports, or as stopped if another node runs the pod; nil if it is deleted
	generation   int64      // generation that is being reconciled
	interrupt    func()     // cancels the steps of that generation
	process      run.Process
	processStart time.Time // in real time
	span         *Span     // reported to the meter
	devices      []gpu.Device
	loggedReason string   // why the generation waits, as last logged; only serve's goroutine uses it
	failures     int      // consecutive failed starts of the generation
	cluster      *cluster // nil if the pod isn't a member
}

func newRunner(p *Pods, id string) *runner {
	r := &runner{pods: p, id: id, wake: make(chan struct{}, 1), retry: make(chan struct{}, 1), interrupt: func() {}, desired: &store.Pod{}}
	if err := os.MkdirAll(r.volumeFolder(), 0o700); err != nil {
		p.Logger.Error("the folder of a pod can't be created", "pod", id, "error", err)
	}
	r.log = openLog(r.folder(), run.LogConfig{Clock: p.Clock, ID: id, Tee: p.LogTo}, p.Logger)
	return r
}

func (r *runner) folder() string       { return filepath.Join(r.pods.Folder, r.id) }
func (r *runner) volumeFolder() string { return filepath.Join(r.folder(), "volume") }

// actualState is what exists of a pod. Only the goroutine of serve changes it.
type actualState struct {
	generation int64        // generation of the fields below
	hasGPUs    bool         // or a place in the queue for them
	program    *run.Program // nil before it is resolved
	allocated  bool         // the record has the GPUs
	joined     bool         // the record has the address in the cluster
	process    run.Process  // nil if nothing runs
}

// step is an action against one difference between the record and the actual state.
type step int

const (
	idle step = iota // wait for a change of the record
	watch
	stopProcess
	release
	wipe
	resolve
	allocate
	join
	startProcess
	remove // the pod is deleted
	exit   // the deployment ends
)

// nextStep returns the step that brings what exists closer to the record.
func nextStep(desired *store.Pod, a actualState, closing bool) step {
	shouldRun := desired != nil && desired.Status.Active() && !closing
	isCurrent := shouldRun && desired.Run == a.generation
	switch {
	case a.process != nil && isCurrent:
		return watch
	case a.process != nil:
		return stopProcess
	case closing:
		return exit
	case !shouldRun && a.hasGPUs:
		return release
	case desired == nil:
		return remove
	case desired.WipeVolume:
		return wipe
	case !shouldRun:
		return idle
	case !isCurrent || a.program == nil:
		return resolve
	case !a.allocated:
		return allocate
	case !a.joined:
		return join
	}
	return startProcess
}

// serve runs until the pod is deleted or the deployment ends. ctx ends with the deployment.
func (r *runner) serve(ctx context.Context) {
	defer r.log.close()
	defer r.release()
	a := r.initialState()
	for {
		desired := r.getDesired()
		next := nextStep(desired, a, ctx.Err() != nil)
		switch next {
		case exit:
			return
		case remove:
			r.pods.leave(ctx, r)
			r.log.close()
			r.pods.removeFolder(ctx, r.id)
			return
		case stopProcess:
			r.stopProcess(ctx, &a)
		case release:
			r.release()
			a.hasGPUs = false
		case idle:
			r.waitForChange(ctx)
		default:
			r.attempt(ctx, next, *desired, &a)
		}
	}
}

// attempt performs a step, until the record changes. If the step fails, it is retried after a pause.
func (r *runner) attempt(ctx context.Context, next step, p store.Pod, a *actualState) {
	ctx, end := r.begin(ctx, p)
	defer end()
	err := r.perform(ctx, next, p, a)
	switch {
	case err == nil:
		return
	case errors.Is(err, errOutdated):
		r.waitForChange(ctx)
	case ctx.Err() == nil:
		r.backOff(ctx, next, p, a, err)
	}
	a.reset()
}

func (r *runner) perform(ctx context.Context, next step, p store.Pod, a *actualState) (err error) {
	switch next {
	case watch:
		r.watch(ctx, p, a)
	case wipe:
		return r.wipe(ctx, p)
	case resolve:
		a.generation = p.Run
		a.reset()
		a.program, err = r.resolve(p)
	case allocate:
		a.hasGPUs = true
		err = r.acquire(ctx, p)
		a.allocated = err == nil
	case join:
		err = r.joinNetwork(ctx, p, *a.program)
		a.joined = err == nil
	case startProcess:
		err = r.start(ctx, p, a)
	}
	return err
}

// reset starts over: only the GPUs and the generation stay.
func (a *actualState) reset() { *a = actualState{generation: a.generation, hasGPUs: a.hasGPUs} }

// initialState returns the state of an adopted process. Without a process, it says that the pod has GPUs, so that
// serve releases any that are left.
func (r *runner) initialState() actualState {
	r.mu.Lock()
	process, span := r.process, r.span
	r.mu.Unlock()
	if process == nil {
		return actualState{hasGPUs: true}
	}
	program, _ := r.resolve(span.Pod) // after an error the process continues, too
	return actualState{generation: span.Pod.Run, hasGPUs: true, program: program, allocated: true, joined: true, process: process}
}

func (r *runner) resolve(p store.Pod) (*run.Program, error) {
	program, err := r.pods.Programs.Program(p.Image)
	return &program, err
}

func (r *runner) waitForChange(ctx context.Context) {
	select {
	case <-r.wake:
	case <-ctx.Done():
	}
}

// begin returns a context that ends when the record's generation changes or the pod is stopped or deleted.
func (r *runner) begin(ctx context.Context, p store.Pod) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation != p.Run {
		r.failures, r.loggedReason = 0, ""
	}
	r.generation, r.interrupt = p.Run, cancel
	if r.desired == nil || r.desired.Run != p.Run || r.desired.Status.Active() != p.Status.Active() {
		cancel()
	}
	return ctx, cancel
}

func (r *runner) start(ctx context.Context, p store.Pod, a *actualState) error {
	spec, err := r.spec(ctx, p, *a.program)
	if err != nil {
		return err
	}
	process, err := a.program.Start(ctx, spec)
	if err != nil {
		return err
	}
	p, err = r.report(ctx, p.Run, containerStarted, func(p *store.Pod) {
		p.StartedAt, p.Reason = r.pods.Clock.Wall().UTC().Truncate(time.Millisecond), ""
		if strings.HasPrefix(p.Changed, waitPrefix) {
			recordChange(p, "Started after a wait", r.pods.Clock.Wall())
		}
		p.OpenPorts = spec.Pod.Ports
		if p.Cluster == nil && spec.Pod.Network != "" {
			p.NetworkIP = process.Address()
		}
		for i := range p.OpenPorts {
			if a.program.OwnAddress {
				p.OpenPorts[i].IP = process.Address()
			}
		}
		if a.program.OwnAddress && p.Cluster != nil {
			p.Cluster.IP = process.Address()
		}
	})
	if err != nil {
		process.Stop(gracePeriod)
		return err
	}
	r.log.Note("the pod runs")
	r.setRunning(p, process)
	a.process = process
	return nil
}

// watch waits until the process exits or ctx ends, as described at begin. If the primary of its
// cluster moves, it stops the process, which then starts again.
func (r *runner) watch(ctx context.Context, p store.Pod, a *actualState) {
	if inCluster := a.program.OwnAddress && p.Cluster != nil; inCluster && *p.Cluster.Rank == 0 { // the primary
		r.clusterOf().announce(a.process.Address())
	} else if inCluster {
		if moved := r.awaitPrimaryMove(ctx, p, a.process); moved {
			r.log.Note("the cluster's primary has another address now: the pod restarts")
			_, _ = r.report(ctx, p.Run, restartQueued, func(*store.Pod) {}) // if it fails, the record has changed, and serve reconciles that next
			a.process.Stop(gracePeriod)
			r.clearRunning()
			a.reset()
			return
		}
	}
	select {
	case <-a.process.Done():
		r.reportEnd(ctx, p, a)
	case <-ctx.Done():
	}
}

// reportEnd reports a process that exited by itself. Its GPUs are released before the report.
func (r *runner) reportEnd(ctx context.Context, p store.Pod, a *actualState) {
	a.process.Stop(0) // stops children that are left
	end := a.process.Exit()
	r.log.Note("the pod ended: " + end.Text)
	r.release()
	e, prefix := containerExited, "Exited: "
	switch {
	case end.Restart:
		e, prefix = restartQueued, "Restarted: "
	case !end.OK:
		e, prefix = containerFailed, "Failed: "
		r.pods.Logger.WarnContext(ctx, "a pod failed", "pod", r.id, "exit", end.Text)
	}
	_, _ = r.report(ctx, p.Run, e, func(p *store.Pod) { r.note(p, prefix+end.Text, "it ended: "+end.Text) })
	r.clearRunning()
	a.reset() // keeps hasGPUs: meanwhile another member of the cluster may have allocated GPUs for this one
}

// stopProcess stops a process that the record doesn't want. ctx ends with the deployment.
func (r *runner) stopProcess(ctx context.Context, a *actualState) {
	if ctx.Err() != nil {
		r.log.Note("the jobrunner stops, and with it the pod")
	}
	a.process.Stop(gracePeriod)
	r.log.Note("the pod's container ended: " + a.process.Exit().Text)
	r.clearRunning()
	a.reset()
}

// setRunning makes the running process visible to requests, and reports it to the meter.
func (r *runner) setRunning(p store.Pod, process run.Process) {
	span := Span{Pod: p, From: p.StartedAt}
	r.mu.Lock()
	r.process, r.processStart, r.span, r.failures = process, time.Now().Add(-r.pods.Clock.Wall().Sub(p.StartedAt)), &span, 0
	r.mu.Unlock()
	r.pods.Meter.Started(span)
}

func (r *runner) clearRunning() {
	r.mu.Lock()
	span := *r.span
	r.process, r.span = nil, nil
	r.mu.Unlock()
	r.pods.Meter.Stopped(span)
}

// acquire waits for the pod's GPUs and records them. It keeps GPUs that the pod already has, unless one is faulty:
// then only a cluster's member keeps them.
func (r *runner) acquire(ctx context.Context, p store.Pod) error {
	isFaulty := func(d gpu.DeviceState) bool { return d.Owner == r.id && d.Fault != "" }
	if p.Cluster == nil && slices.ContainsFunc(r.pods.Devices.States(), isFaulty) {
		r.release()
	}
	devices := r.heldDevices()
	for p.GPU != nil && devices == nil {
		var err error
		devices, err = r.allocate(p)
		if err == nil {
			break
		}
		if !errors.Is(err, errMembersUnknown) && !errors.Is(err, errInactive) {
			r.reportWait(ctx, p, slog.LevelInfo, "a pod waits", err.Error())
		}
		select {
		case <-r.retry:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	r.devices = devices
	r.mu.Unlock()
	_, err := r.report(ctx, p.Run, computeAssigned, func(p *store.Pod) {
		p.Reason, p.FolderID, p.Devices = "", r.pods.FolderID, nil
		if len(devices) > 0 {
			p.GPUTypeID, p.CUDAVersion = devices[0].TypeID, r.pods.Driver().CUDA
			for _, d := range devices {
				p.Devices = append(p.Devices, d.UUID)
			}
		}
	})
	return err
}

// release releases the GPUs, or the place in the queue for them.
func (r *runner) release() {
	r.stopWaiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods.Devices.Release(r.id)
	r.devices = nil
}

// backOff waits before a failed start is retried. The pod keeps its GPUs meanwhile only if it is a cluster's member.
func (r *runner) backOff(ctx context.Context, failed step, p store.Pod, a *actualState, err error) {
	if p.Cluster == nil {
		r.release()
		a.hasGPUs = false
	}
	if sqldb.Temporary(err) { // the database's error, not the pod's
		_ = clock.RealSleep(ctx, storeRetryPause)
		return
	}
	if p.Status.Active() {
		r.reportWait(ctx, p, slog.LevelWarn, "a pod can't start", err.Error())
	} else {
		r.pods.Logger.WarnContext(ctx, "the volume of a stopped pod can't be wiped: trying again", "pod", r.id, "error", err)
	}
	r.mu.Lock()
	pause := min(minRetryPause<<min(r.failures, 10), maxRetryPause)
	r.failures++
	r.mu.Unlock()
	if failed == resolve {
		pause = min(pause, maxResolvePause)
	}
	_ = r.pods.Clock.Sleep(ctx, pause)
}

func (r *runner) wipe(ctx context.Context, p store.Pod) error {
	err := r.pods.removeVolume(ctx, r.id)
	if err == nil {
		err = os.RemoveAll(r.volumeFolder())
	}
	if err == nil {
		err = os.MkdirAll(r.volumeFolder(), 0o700)
	}
	if err != nil {
		return err
	}
	r.log.Note("the pod's volume was wiped")
	_, err = r.update(ctx, p.Run, func(p *store.Pod) bool {
		p.WipeVolume = false
		return true
	})
	return err
}
