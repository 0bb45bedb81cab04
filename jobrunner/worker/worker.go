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
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// worker is one worker from its start to its end. Its replacement is another worker.
type worker struct {
	id       string
	key      string // its API key for the worker protocol
	number   int64  // order of the starts of all workers
	settings Endpoint
	pool     *poolCore
	log      *run.Log

	takingCtx context.Context    // ends when the worker must take no more jobs; it then exits once it holds none
	endTaking context.CancelFunc // cancels takingCtx
	life      context.Context    // of its process
	end       context.CancelFunc // ends life when the process has exited
	killed    context.Context    // ends when the process must exit at once
	kill      context.CancelFunc
	takers    sync.WaitGroup // calls of Take in flight
	retry     chan struct{}  // hints that devices may be free
	gone      chan struct{}  // closed after life has ended and the pool has recorded the worker's end
	watchers  sync.WaitGroup // goroutines that watch its jobs and health

	mu           sync.Mutex // guards the fields below; a pool's lock must not be taken while it is held
	state        State
	reason       string
	idleSince    time.Time
	started      time.Time
	jobs         map[string]*heldJob // by job id
	changed      chan struct{}       // closed and replaced when jobs changes
	hadJob       bool
	crashed      bool   // during its start
	preempted    bool   // it ended for a reason other than the jobs that it runs
	death        string // human-readable reason why its process ended or is killed; "" before that
	devices      []gpu.Device
	placement    Placement
	process      run.Process
	address      string // host:port where it serves HTTP behind a load balancer, once it is ready
	followsClock bool
	usesProtocol bool // it uses the worker protocol
	openTakes    int  // calls of Take in flight
	lastTakeEnd  time.Time
	folder       string          // Program.Folder of its process; "" if each process has a folder of its own
	sdk          string          // release of the SDK, from its pings
	advice       [advices]string // for the user, for example about slow takes; by kind
	pace         pace
}

type heldJob struct {
	ref          engine.Ref
	takenAt      time.Time
	missingSince time.Time // when a ping, or a request for jobs, left it out; zero once a ping names it
	lost         bool      // the worker lost it. It may get the job again, so WaitForStops doesn't tell it to stop the job
	revoked      bool      // it was taken from the worker
	stopSentAt   time.Time // when the worker was told to stop it
	posts        int       // open POST requests about it, any of which may end it
	results      int       // its results that are being recorded
	endLogged    bool      // its end was logged
	endWatch     context.CancelFunc
}

func newWorker(ctx context.Context, p *poolCore) *worker {
	w := &worker{
		id: uuid.NewString()[:13], key: rand.Text(), number: p.config.allPools.startedWorkers.Add(1), settings: p.settings(), pool: p,
		retry: make(chan struct{}, 1), gone: make(chan struct{}),
		state: Initializing, idleSince: p.clock.Now(), jobs: map[string]*heldJob{}, changed: make(chan struct{}),
	}
	w.killed, w.kill = context.WithCancel(context.WithoutCancel(ctx))
	w.log = run.NewLog(run.LogConfig{Clock: p.clock, ID: w.id, Tee: p.config.LogTo})
	w.log.Hide(w.key)
	w.takingCtx, w.endTaking = context.WithCancel(ctx)
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	return w
}

// runToEnd runs the worker from start to end, and returns why it couldn't work, or "". Cancelling ctx ends
// the worker at once, and leaves its jobs to the engine.
func (w *worker) runToEnd(ctx context.Context) (failure string) {
	failure = w.run(ctx)
	w.meterEnd()
	w.drain()
	w.end()
	w.log.Finish()
	return failure
}

// run starts what the image needs and serves jobs. It returns why the worker couldn't work, or "".
func (w *worker) run(ctx context.Context) (failure string) {
	program, err := w.pool.config.Programs.Program(w.settings.Image)
	if err != nil {
		return err.Error()
	}
	w.mu.Lock()
	w.followsClock, w.usesProtocol, w.folder = program.FollowsClock, program.Start != nil && !w.settings.Balanced, program.Folder
	w.mu.Unlock()
	if devices := w.pool.config.Devices; devices != nil {
		defer devices.Release(w.id) // or its place in their queue
	}
	if !w.acquireDevices(ctx, !program.NeedsNoResources) {
		return ""
	}
	spec, err := w.spec(ctx, program)
	for sqldb.Temporary(err) && w.pool.clock.Sleep(w.takingCtx, retryDelay) == nil {
		spec, err = w.spec(ctx, program)
	}
	switch {
	case w.takingCtx.Err() != nil:
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

func (w *worker) takesJobs() bool { return w.takingCtx.Err() == nil }

// drain stops the worker from taking jobs. The worker exits once it holds none.
func (w *worker) drain() {
	w.mu.Lock() // a concurrent call of Take is either counted already or rejected
	defer w.mu.Unlock()
	w.endTaking()
}

func (w *worker) stale() bool { return w.settings.Version != w.pool.settings().Version }

// hold adds jobs, and calls onAdd for each with the worker's lock held.
func (w *worker) hold(jobs []engine.Taken, onAdd func(h *heldJob)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, job := range jobs {
		onAdd(w.add(job.Ref))
	}
	if len(jobs) > 0 {
		w.apply(jobTaken)
		w.jobsChanged()
	}
}

// add adds one job. The caller holds the worker's lock.
func (w *worker) add(ref engine.Ref) *heldJob {
	if previous := w.jobs[ref.ID]; previous != nil && previous.lost { // it leaves the map here, so remove can't end its watch
		previous.endWatch()
	}
	h := &heldJob{ref: ref, takenAt: w.pool.clock.Now(), endWatch: func() {}}
	w.jobs[ref.ID] = h
	w.hadJob = true
	return h
}

// drop removes a job that the worker holds; otherwise it does nothing.
func (w *worker) drop(h *heldJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(h)
}

// remove is drop for callers that hold the worker's lock.
func (w *worker) remove(h *heldJob) {
	if w.jobs[h.ref.ID] != h {
		return
	}
	h.endWatch()
	delete(w.jobs, h.ref.ID)
	w.jobsChanged()
	if len(w.jobs) == 0 {
		w.pace.lastJobEnd = w.pool.clock.Now()
		w.apply(lastJobGone)
	}
}

// jobsChanged wakes the goroutines that wait for a change. The caller holds the worker's lock.
func (w *worker) jobsChanged() {
	close(w.changed)
	w.changed = make(chan struct{})
	w.pool.jobsChanged()
}
