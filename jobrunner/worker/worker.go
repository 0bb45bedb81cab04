package worker

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// worker is one from its start to its end; who takes its place is another one.
type worker struct {
	id       string
	key      string // of a process, at the worker protocol
	number   int64  // in the order of the starts
	settings Endpoint
	pool     *home
	log      *run.Log

	taking    context.Context    // ends when it is to take no more jobs, and to leave when it holds none
	endTaking context.CancelFunc // of taking; drain calls it
	life      context.Context    // ends when nothing of it runs any more
	end       context.CancelFunc
	takers    sync.WaitGroup // calls that may bring a job
	retry     chan struct{}  // a hint that devices may be free now
	killed    chan struct{}  // closed when it must end at once
	gone      chan struct{}  // closed when nothing of it is left
	kill      func()         // closes killed
	watching  sync.WaitGroup // over its jobs

	mu           sync.Mutex // of all below; while it is held nobody takes a pool's
	state        State
	reason       string
	since        time.Time // when it last became idle
	started      time.Time
	jobs         map[string]*held // by job
	changed      chan struct{}    // closed when jobs changes
	hadJob       bool             // a job
	crashed      bool             // at its start
	yields       bool             // it was killed for its devices, and its jobs did nothing wrong
	death        string           // what became of its process, for people; "" for the end of its own accord
	devices      []gpu.Device
	placement    Placement
	process      run.Process
	address      string // where it serves HTTP behind a load balancer, once it is ready
	followsClock bool
	speaks       bool            // the worker protocol
	folder       string          // that its process works in; "": its own
	sdk          string          // its release, as pings say
	advice       [advices]string // for its author
	pace         pace
}

// held is a job that a worker holds.
type held struct {
	ref          engine.Ref
	takenAt      time.Time
	missingSince time.Time // when the worker first said that it does not have it
	lost         bool      // the worker said that it has lost it: it is not told to stop what it may be given again
	revoked      bool      // it is not the worker's any more
	toldAt       time.Time // when the worker was told so; zero: it does not know
	posts        int       // about it that are under way: it may be over, and is not to stop
	results      int       // of the posts, those that are being recorded
	endLogged    bool      // its end is in the log
	release      context.CancelFunc
}

func newWorker(ctx context.Context, p *home, number int64) *worker {
	w := &worker{
		id: uuid.NewString()[:13], key: rand.Text(), number: number, settings: p.settings(), pool: p,
		retry: make(chan struct{}, 1), killed: make(chan struct{}), gone: make(chan struct{}),
		state: Initializing, since: p.clock.Now(), jobs: map[string]*held{}, changed: make(chan struct{}),
	}
	w.kill = sync.OnceFunc(func() { close(w.killed) })
	w.log = run.NewLog(run.LogConfig{Clock: p.clock, ID: w.id, Tee: p.config.LogTo})
	w.log.Hide(w.key)
	w.taking, w.endTaking = context.WithCancel(ctx)
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	return w
}

// live is the worker's life, and returns why it could not work; "" is a good end.
// ctx ends it at once, and leaves its jobs to the next start of the deployment.
func (w *worker) live(ctx context.Context) (failure string) {
	failure = w.run(ctx)
	w.noteGone()
	w.drain()
	w.end()
	w.log.Finish()
	return failure
}

// run returns why the worker could not work; "" is a good end.
func (w *worker) run(ctx context.Context) (failure string) {
	program, err := w.pool.config.Programs.Program(w.settings.Image)
	if err != nil {
		return err.Error()
	}
	w.mu.Lock()
	w.followsClock, w.speaks, w.folder = program.FollowsClock, program.Start != nil && !w.settings.Balanced, program.Folder
	w.mu.Unlock()
	defer w.releaseDevices()
	if !w.acquireDevices(ctx, !program.Bare) {
		return ""
	}
	spec, err := w.spec(ctx, program)
	for engine.Temporary(err) && w.pool.clock.Sleep(w.taking, retake) == nil {
		spec, err = w.spec(ctx, program)
	}
	switch {
	case w.taking.Err() != nil:
		return ""
	case err != nil:
		return err.Error()
	}
	if program.Check != nil {
		if err := program.Check(*spec); err != nil {
			return err.Error()
		}
	}
	if program.Handle != nil {
		w.feed(ctx, program.Handle, spec)
		return ""
	}
	return w.serve(ctx, program.Start, spec)
}

// takesJobs tells whether the worker may take more jobs.
func (w *worker) takesJobs() bool { return w.taking.Err() == nil }

// drain has the worker take no more jobs, and leave when it has none.
func (w *worker) drain() {
	w.mu.Lock() // a call that may bring a job is counted before or refused
	defer w.mu.Unlock()
	w.endTaking()
}

func (w *worker) stale() bool { return w.settings.Version != w.pool.settings().Version }

// hold gives the worker jobs.
func (w *worker) hold(jobs []engine.Taken, each func(h *held)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, job := range jobs {
		each(w.add(job.Ref))
	}
	if len(jobs) > 0 {
		w.apply(took)
		w.jobsChanged()
	}
}

// add gives the worker one job. The worker is locked.
func (w *worker) add(ref engine.Ref) *held {
	h := &held{ref: ref, takenAt: w.pool.clock.Now(), release: func() {}}
	w.jobs[ref.ID] = h
	w.hadJob = true
	return h
}

// drop takes a job from the worker.
func (w *worker) drop(h *held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(h)
}

// remove is drop. The worker is locked.
func (w *worker) remove(h *held) {
	if w.jobs[h.ref.ID] != h {
		return
	}
	h.release()
	delete(w.jobs, h.ref.ID)
	w.jobsChanged()
	if len(w.jobs) == 0 {
		w.pace.emptied = w.pool.clock.Now()
		w.apply(emptied)
	}
}

// jobsChanged wakes who waits for it. The worker is locked.
func (w *worker) jobsChanged() {
	close(w.changed)
	w.changed = make(chan struct{})
	w.pool.jobsChanged()
}
