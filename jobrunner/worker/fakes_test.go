package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// fakes simulates workers that are processes and call the methods that serve the worker protocol.
type fakes struct {
	t     *testing.T
	pools *worker.Pools

	mu         sync.Mutex
	maxWorkers int           // the test fails if more workers run
	broken     bool          // new workers exit at once
	boot       time.Duration // time from a worker's start to its first request for a job
	exitDelay  time.Duration // time that a worker takes to exit
	slots      int           // concurrent jobs of a worker; 0 means 1
	all        []*fake
	runs       map[string]int // starts of each job
	spared     map[string]int // its runs on workers that were killed while they ignored that they should stop a job
}

// fake is one simulated worker.
type fake struct {
	client    worker.Protocol
	fakes     *fakes
	spec      run.Spec
	life      context.Context
	end       context.CancelCauseFunc
	done      chan struct{}
	startedAt time.Time

	// guarded by fakes.mu
	jobs   map[string]context.CancelFunc // held jobs; nil if the worker was told to stop the job
	alive  bool
	killed bool // also while it is being killed
}

type fakeInput struct {
	Seconds float64 `json:"seconds"`
	Crash   bool    `json:"crash"` // the worker then crashes
	Deaf    bool    `json:"deaf"`  // the job ignores that it is stopped
}

var errKilled = errors.New("killed")

func newFakes(maxWorkers int) *fakes {
	return &fakes{maxWorkers: maxWorkers, runs: map[string]int{}, spared: map[string]int{}}
}

// Program runs every image as a simulated worker.
func (f *fakes) Program(string) (run.Program, error) { return run.Program{Start: f.start}, nil }

func (f *fakes) start(_ context.Context, spec run.Spec) (run.Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 1 + len(f.living())
	must.Hold(f.t, n <= f.maxWorkers, n, "workers run, more than the maximum of", f.maxWorkers)
	env := spec.Env
	must.Hold(f.t, env["RUNPOD_SKIP_AUTO_SYSTEM_CHECKS"] == "true" && (env["RUNPOD_SKIP_GPU_CHECK"] == "true") == (len(spec.Devices) == 0), "a worker on", len(spec.Devices), "GPUs would check its machine", env)
	w := &fake{fakes: f, spec: spec, done: make(chan struct{}), jobs: map[string]context.CancelFunc{}, alive: true, startedAt: time.Now()}
	w.life, w.end = context.WithCancelCause(context.Background())
	f.all = append(f.all, w)
	go w.run(f.broken, f.boot, f.exitDelay, max(1, f.slots))
	return w, nil
}

func (w *fake) run(broken bool, boot, exitDelay time.Duration, slots int) {
	var running sync.WaitGroup
	defer func() {
		running.Wait()
		time.Sleep(exitDelay)
		w.fakes.mu.Lock()
		w.alive = false
		w.fakes.mu.Unlock()
		close(w.done)
	}()
	w.client = w.fakes.pools.Client(w.spec.ID)
	running.Go(w.stopJobs)
	running.Go(w.sendPings)
	fmt.Fprintf(w.spec.Log, "starts in %s\n", w.spec.Env["COLOR"])
	if broken {
		if w.sleep(10*time.Millisecond) != nil {
			return
		}
		fmt.Fprintf(w.spec.Log, "no module named %s", w.spec.Env["COLOR"])
		w.end(errors.New("exit status 3"))
		return
	}
	if w.sleep(boot) != nil {
		return
	}
	occupied := make(chan struct{}, slots)
	for w.life.Err() == nil {
		select {
		case occupied <- struct{}{}:
		case <-w.life.Done():
			return
		}
		<-occupied
		if len(w.jobIDs()) == 0 {
			_ = w.client.ReportIdle(w.life) // it may have ended
		}
		jobs, err := w.client.Take(w.life, slots-len(occupied))
		if err != nil && w.life.Err() == nil {
			w.fakes.t.Errorf("a worker can't take jobs: %s", err)
			return
		}
		for _, job := range jobs {
			occupied <- struct{}{}
			jobCtx, stop := context.WithCancel(w.life)
			w.fakes.mu.Lock()
			w.jobs[job.ID] = stop
			w.fakes.runs[job.ID]++
			w.fakes.mu.Unlock()
			running.Go(func() {
				w.work(jobCtx, job)
				<-occupied
			})
		}
	}
}

func (w *fake) sleep(d time.Duration) error { return clock.RealSleep(w.life, d) }

func (w *fake) work(ctx context.Context, job engine.Taken) {
	var input fakeInput
	must.Equal(w.fakes.t, json.Unmarshal(job.Input, &input), nil, "a job's input is", string(job.Input))
	if input.Deaf {
		ctx = w.life
	}
	if clock.RealSleep(ctx, time.Duration(input.Seconds*float64(time.Second))) == nil {
		if input.Crash {
			w.end(errors.New("signal: segmentation fault"))
			return
		}
		output := fmt.Appendf(nil, `%q`, w.spec.ID+" in "+w.spec.Env["COLOR"])
		err := w.client.Report(w.life, job.ID, engine.Done(output), false)
		must.Hold(w.fakes.t, err == nil || w.life.Err() != nil, "a result is refused:", err)
	}
	w.fakes.mu.Lock()
	defer w.fakes.mu.Unlock()
	delete(w.jobs, job.ID)
}

func (w *fake) stopJobs() {
	for w.life.Err() == nil {
		ids := w.client.WaitForStops(w.life)
		w.fakes.mu.Lock()
		for _, id := range ids {
			if stop := w.jobs[id]; stop != nil {
				stop()
				w.jobs[id] = nil
			}
		}
		w.fakes.mu.Unlock()
		if len(ids) == 0 && w.sleep(time.Second) != nil {
			return
		}
	}
}

func (w *fake) sendPings() {
	for w.sleep(2*time.Second) == nil {
		_ = w.client.Ping(w.life, w.jobIDs()) // it may have ended
	}
}

func (w *fake) jobIDs() []string {
	w.fakes.mu.Lock()
	defer w.fakes.mu.Unlock()
	return slices.Collect(maps.Keys(w.jobs))
}

func (w *fake) Done() <-chan struct{} { return w.done }
func (w *fake) Address() string       { return "" }

var errEngineRestart = errors.New("a restart of Docker")

func (w *fake) Exit() run.Exit {
	cause := context.Cause(w.life)
	return run.Exit{Text: cause.Error(), Restart: errors.Is(cause, errEngineRestart)}
}

func (w *fake) Stop(time.Duration) {
	w.fakes.update(func() {
		w.killed = true
		if slices.ContainsFunc(slices.Collect(maps.Values(w.jobs)), func(stop context.CancelFunc) bool { return stop == nil }) {
			for id := range w.jobs {
				w.fakes.spared[id]++
			}
		}
	})
	w.end(errKilled)
	<-w.done
}

func (w *fake) Usage() run.Usage { return run.Usage{} }

// alive returns the workers that live, the oldest first.
func (f *fakes) alive() []*fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.living()
}

func (f *fakes) living() []*fake {
	return slices.DeleteFunc(slices.Clone(f.all), func(w *fake) bool { return !w.alive })
}

func (f *fakes) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// started returns how many workers were started so far.
func (f *fakes) started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}
