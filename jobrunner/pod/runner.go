package pod

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// How long is waited before a start that failed is tried again, by the deployment's
// clock: doubled at each further failure of a run.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// retryStore is the pause after an error of the database, in real time.
	retryStore = time.Second
	maxReason  = 2000 // bytes
)

// runner makes what a pod's record says true.
type runner struct {
	pods  *Pods
	id    string
	log   *keptLog
	wake  chan struct{} // a hint that the record changed
	retry chan struct{} // a hint that devices may be free now

	syncing sync.Mutex // what is read last of the store is known last

	mu       sync.Mutex // of all below
	read     *store.Pod // the record as it was last read; nil: there was none
	want     *store.Pod // nil: it is deleted
	run      int64      // that goes on
	endRun   func()     // ends it
	process  Process
	began    time.Time // of the process, in real time
	span     *Span     // that the meter was told of
	devices  []gpu.Device
	left     Process  // that an earlier run of the deployment started
	failures int      // to start, in a row, of this run
	cluster  *cluster // nil for a pod of its own
}

func newRunner(p *Pods, id string) *runner {
	r := &runner{pods: p, id: id, wake: make(chan struct{}, 1), retry: make(chan struct{}, 1), endRun: func() {}, want: &store.Pod{}}
	if err := os.MkdirAll(r.volume(), 0o700); err != nil {
		p.Logger.Error("the folder of a pod can't be made", "pod", id, "error", err)
	}
	r.log = openLog(r.folder(), worker.LogConfig{Clock: p.Clock, ID: id, Also: p.LogTo}, p.Logger)
	return r
}

func (r *runner) folder() string { return filepath.Join(r.pods.Folder, r.id) }
func (r *runner) volume() string { return filepath.Join(r.folder(), "volume") }

// sync reads the record, and ends a run that is not wanted any more.
func (r *runner) sync(ctx context.Context) {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	p, err := r.pods.Store.Pod(ctx, r.id)
	switch {
	case err == nil && r.pods.ours(p):
		r.noteRead(&p)
		r.know(&p)
		r.pods.join(r, p)
	case err == nil: // another deployment has it, in a folder of its own
		r.noteRead(&p)
		p.Status, p.WipeVolume = store.PodExited, false
		r.know(&p)
	case errors.Is(err, store.ErrNotFound):
		r.know(nil)
	default:
		r.pods.Logger.Error("reading a pod failed: what changed counts with its next change", "pod", r.id, "error", err)
	}
}

// noteRead notes a record.
func (r *runner) noteRead(p *store.Pod) {
	read := *p
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = &read
}

// knows tells whether a record is the one that was last read; nil: there is none.
func (r *runner) knows(p *store.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil {
		return r.want == nil
	}
	return r.read != nil && reflect.DeepEqual(*r.read, *p)
}

// know notes what is wanted.
func (r *runner) know(p *store.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = p
	if p == nil || !p.Status.Active() || p.Run != r.run {
		r.endRun()
	}
	notify.Signal(r.wake)
}

func (r *runner) wanted() *store.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want
}

// begin makes a context that ends when another run is wanted, or none.
func (r *runner) begin(ctx context.Context, run int64) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != run {
		r.failures = 0
	}
	r.run, r.endRun = run, cancel
	if r.want == nil || r.want.Run != run || !r.want.Status.Active() {
		cancel()
	}
	return ctx, cancel
}

// serve is the runner's life, which ends with the pod's deletion or the deployment.
func (r *runner) serve(ctx context.Context) {
	defer r.log.end()
	defer r.release()
	for ctx.Err() == nil {
		switch p := r.wanted(); {
		case p == nil:
			r.release()
			r.pods.leave(ctx, r)
			r.log.end()
			r.pods.removeFolder(ctx, r.id)
			return
		case p.Status.Active():
			r.once(ctx, *p)
		default:
			r.release()
			if p.WipeVolume {
				r.wipe(ctx, *p)
			}
			select {
			case <-r.wake:
			case <-ctx.Done():
			}
		}
	}
}

// once runs a pod until it ends, another run is wanted, or a new try is due.
func (r *runner) once(ctx context.Context, p store.Pod) {
	run, end := r.begin(ctx, p.Run)
	defer end()
	if process := r.takeLeft(); process != nil {
		program, _ := r.pods.Programs.Program(p.Image) // without one, what runs goes on all the same
		r.watch(ctx, run, p, process, program)
		return
	}
	if p.WipeVolume && !r.wipe(run, p) {
		return
	}
	program, err := r.pods.Programs.Program(p.Image)
	if err != nil {
		r.waitFor(run, p, err)
		return
	}
	if p, err = r.acquire(run, p); err != nil {
		return // it is not wanted any more
	}
	if p, err = r.joinNetwork(run, p, program); err != nil {
		if run.Err() == nil {
			r.waitFor(run, p, err)
		}
		return
	}
	spec, err := r.spec(run, p, program)
	if err != nil {
		r.waitFor(run, p, err)
		return
	}
	process, err := program.Start(run, spec)
	if err != nil {
		if run.Err() == nil {
			r.waitFor(run, p, err)
		}
		return
	}
	set := func(p *store.Pod) {
		p.StartedAt, p.Reason = r.pods.Clock.Wall().UTC().Truncate(time.Millisecond), ""
		p.OpenPorts = spec.Ports
		if p.Cluster == nil && spec.Network != "" {
			p.NetworkIP = process.Address()
		}
		for i := range p.OpenPorts {
			if program.OwnAddress {
				p.OpenPorts[i].IP = process.Address()
			}
		}
		if program.OwnAddress && p.Cluster != nil {
			p.Cluster.IP = process.Address()
		}
	}
	p, ok := r.report(run, p.Run, up, set)
	if !ok {
		process.Stop(Grace)
		return
	}
	r.log.Note("the pod runs")
	r.watch(ctx, run, p, process, program)
}

// watch waits for the end of a process that runs, or ends it when it is not wanted any
// more. ctx is the deployment's, run that of this run of the pod.
func (r *runner) watch(ctx, run context.Context, p store.Pod, process Process, program Program) {
	r.hold(p, process)
	defer r.drop()
	switch {
	case isPrimary(p, program):
		r.clusterOf().announce(process.Address())
	case program.OwnAddress && p.Cluster != nil && r.primaryMoved(run, p, process):
		r.log.Note("the cluster's primary has another address now: the pod starts anew")
		r.report(run, p.Run, restored, func(*store.Pod) {})
		process.Stop(Grace)
		return
	}
	select {
	case <-process.Done():
		r.ended(run, p, process)
		return
	case <-run.Done():
	}
	if ctx.Err() != nil {
		r.log.Note("the jobrunner stops, and with it the pod")
	}
	process.Stop(Grace)
	r.log.Note("the pod's container ended: " + process.Exit())
}

// ended notes how a process ended by itself. Its GPUs are free before anybody learns of
// it.
func (r *runner) ended(run context.Context, p store.Pod, process Process) {
	process.Kill() // with all that it leaves behind
	exit := process.Exit()
	r.log.Note("the pod ended with " + exit)
	r.release()
	e, what := exited, "Exited: "
	if !process.Succeeded() {
		e, what = failed, "Failed: "
		r.pods.Logger.WarnContext(run, "a pod failed", "pod", r.id, "exit", exit)
	}
	r.report(run, p.Run, e, func(p *store.Pod) { r.note(p, what+exit, "it ended with "+exit) })
}

// note says in the record what happened, and why.
func (r *runner) note(p *store.Pod, what, reason string) {
	change(p, logline.Shorten(what, maxReason), r.pods.Clock.Wall())
	p.Reason = logline.Shorten(reason, maxReason)
}

// hold notes what runs.
func (r *runner) hold(p store.Pod, process Process) {
	price := 0.0
	if r.pods.Price != nil {
		price = r.pods.Price(p)
	}
	span := Span{Pod: p, From: p.StartedAt, HourlyPrice: price}
	r.mu.Lock()
	r.process, r.began, r.span, r.failures = process, time.Now(), &span, 0
	r.mu.Unlock()
	r.pods.Meter.Started(span)
}

// drop notes that nothing runs any more.
func (r *runner) drop() {
	r.mu.Lock()
	span := *r.span
	r.process, r.span = nil, nil
	r.mu.Unlock()
	span.To = r.pods.Clock.Wall()
	r.pods.Meter.Stopped(span)
}

// acquire gets the pod its GPUs, for which it waits. Those that it has it keeps. The
// error is that it is not wanted any more.
func (r *runner) acquire(run context.Context, p store.Pod) (store.Pod, error) {
	r.mu.Lock()
	devices := r.devices
	r.mu.Unlock()
	for p.GPU != nil && devices == nil {
		var err error
		devices, err = r.ask(p)
		if err == nil {
			break
		}
		if !errors.Is(err, errMembersUnknown) && !errors.Is(err, errNotWanted) {
			r.waits(run, p, slog.LevelInfo, "a pod waits", err.Error())
		}
		select {
		case <-r.retry:
		case <-run.Done():
			return p, run.Err()
		}
	}
	r.mu.Lock()
	r.devices = devices
	r.mu.Unlock()
	p, ok := r.report(run, p.Run, placed, func(p *store.Pod) {
		p.Reason, p.Machine, p.Devices = "", r.pods.Machine, nil
		if len(devices) > 0 {
			p.GPUTypeID, p.CUDAVersion = devices[0].TypeID, r.pods.Driver().CUDA
			for _, d := range devices {
				p.Devices = append(p.Devices, d.UUID)
			}
		}
	})
	if !ok {
		return p, context.Canceled
	}
	return p, nil
}

// release gives the GPUs back, and the place in line.
func (r *runner) release() {
	r.stopAsking()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods.Devices.Release(r.id)
	r.devices = nil
}

// waits notes why the pod waits, and tells it once, with a line of the jobrunner's log.
func (r *runner) waits(run context.Context, p store.Pod, level slog.Level, line, why string) {
	why = logline.Shorten(why, maxReason)
	if current := r.wanted(); current != nil && current.Status == store.PodProvisioning && current.Reason == why {
		return
	}
	if _, ok := r.report(run, p.Run, waits, func(p *store.Pod) { r.note(p, "Waits: "+why, why) }); ok {
		r.log.Note("the pod waits: " + why)
		r.pods.Logger.Log(run, level, line, "pod", r.id, "reason", why)
	}
}

// waitFor lets a while pass after a start that failed, without GPUs.
func (r *runner) waitFor(run context.Context, p store.Pod, err error) {
	if p.Cluster == nil { // a cluster stays placed
		r.release()
	}
	if engine.Temporary(err) { // the database's, which says nothing of the pod
		_ = sleep(run, retryStore) // its error is that nobody waits any more
		return
	}
	r.waits(run, p, slog.LevelWarn, "a pod can't start", err.Error())
	r.mu.Lock()
	pause := min(firstRetry<<min(r.failures, 10), lastRetry)
	r.failures++
	r.mu.Unlock()
	_ = r.pods.Clock.Sleep(run, pause) // its error is that nobody waits any more
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errOver says that a run is not wanted any more.
var errOver = errors.New("another run of the pod is wanted")

// report makes what was found of a run count; false: the run is over. While the
// database does not answer it tries again.
func (r *runner) report(ctx context.Context, run int64, e event, set func(p *store.Pod)) (store.Pod, bool) {
	for logged := false; ; {
		r.syncing.Lock()
		p, err := r.pods.Store.ReportPod(context.WithoutCancel(ctx), r.id, func(p *store.Pod) error {
			if p.Run != run || !on(p, e) {
				return errOver
			}
			set(p)
			return nil
		})
		if err == nil {
			r.mu.Lock()
			r.want = &p
			r.mu.Unlock()
		}
		r.syncing.Unlock()
		switch {
		case err == nil:
			return p, true
		case errors.Is(err, errOver), errors.Is(err, store.ErrNotFound):
			return p, false
		case !engine.Temporary(err) && !logged:
			r.pods.Logger.ErrorContext(ctx, "the state of a pod can't be stored yet", "pod", r.id, "error", err)
			logged = true
		}
		if sleep(ctx, retryStore) != nil {
			return p, false
		}
	}
}

// wipe empties the volume, and notes that it did.
func (r *runner) wipe(ctx context.Context, p store.Pod) bool {
	err := r.pods.removeVolume(ctx, r.id)
	if err == nil {
		err = os.RemoveAll(r.volume())
	}
	if err == nil {
		err = os.MkdirAll(r.volume(), 0o700)
	}
	if err != nil {
		r.waitFor(ctx, p, err)
		return false
	}
	r.log.Note("the pod's volume was wiped")
	for {
		r.syncing.Lock()
		now, err := r.pods.Store.ReportPod(context.WithoutCancel(ctx), r.id, func(now *store.Pod) error {
			if now.Run != p.Run {
				return errOver
			}
			now.WipeVolume = false
			return nil
		})
		if err == nil {
			r.mu.Lock()
			r.want = &now
			r.mu.Unlock()
		}
		r.syncing.Unlock()
		if err == nil || errors.Is(err, errOver) || errors.Is(err, store.ErrNotFound) {
			return err == nil
		}
		if sleep(ctx, retryStore) != nil {
			return false
		}
	}
}
