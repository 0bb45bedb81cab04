package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// slowReports is a queue that stores a result at once and returns late.
type slowReports struct {
	worker.Queue
	pause time.Duration
}

func (q slowReports) Report(ctx context.Context, ref engine.Ref, r engine.Report) (engine.Directive, error) {
	got, err := q.Queue.Report(ctx, ref, r)
	time.Sleep(q.pause)
	return got, err
}

// stopFixture is a worker with one job.
type stopFixture struct {
	t      *testing.T
	engine *engine.Engine
	worker worker.Protocol
	job    string
	ended  <-chan struct{} // closed when its process has exited
	exit   func()
}

// runStopTest runs a test whose worker has taken a job. The engine's Report records at once, and returns after
// pause. observe, if it isn't nil, is called with each event of the engine.
func runStopTest(t *testing.T, pause time.Duration, observe func(*stopFixture, engine.Event), test func(s *stopFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		clk, log := new(clock.Clock), slog.New(slog.DiscardHandler)
		s := &stopFixture{t: t}
		config := engine.Config{DB: db, Clock: clk, Logger: log}
		if observe != nil {
			config.Observe = func(event engine.Event) { observe(s, event) }
		}
		e := must.Do(engine.Open(t.Context(), config))(t)
		processes := idlePrograms{started: make(chan string, 2), processes: make(chan *idleProcess, 2)}
		pools := worker.New(worker.Config{Queue: slowReports{e, pause}, Clock: clk, Logger: log, URL: "http://deployment", Programs: processes})
		defer func() {
			pools.Close()
			e.Close()
			must.Equal(t, db.Close(), nil)
		}()
		settings := echo
		settings.Image, settings.Min, settings.Max = "team/worker", 1, 1
		pools.Set(settings)
		process := <-processes.processes
		s.engine, s.worker, s.ended, s.exit = e, pools.Client(<-processes.started), process.Done(), process.end
		s.job = s.submit()
		jobs, err := s.worker.Take(t.Context(), 1)
		must.Require(t, err == nil && len(jobs) == 1, "took", jobs, err)
		test(s)
	})
}

func (s *stopFixture) submit() (id string) {
	s.t.Helper()
	return must.Do(s.engine.Submit(s.t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(`{}`)}))(s.t).ID
}

// stops returns the jobs that the worker should stop. It waits for the first job at most for wait.
func (s *stopFixture) stops(wait time.Duration) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), wait)
	defer cancel()
	return s.worker.WaitForStops(ctx)
}

// WaitForStops doesn't name a job whose result is being recorded, however long that takes.
func TestWaitForStopsOmitsFinishedJob(t *testing.T) {
	for name, report := range map[string]engine.Report{"done": engine.Done([]byte(`1`)), "failed": engine.Fail("no", nil)} {
		t.Run(name, func(t *testing.T) {
			runStopTest(t, 3*time.Second, nil, func(s *stopFixture) {
				stops := make(chan []string)
				go func() { stops <- s.stops(time.Minute) }()
				must.Succeed(s.t, s.worker.Report(s.t.Context(), s.job, report, false))
				must.Equal(s.t, <-stops, nil, "the jobs of WaitForStops after the only job has ended")
			})
		})
	}
}

func TestWorkerLivesWhileAResultIsRecorded(t *testing.T) {
	runStopTest(t, time.Minute, nil, func(s *stopFixture) {
		must.Succeed(s.t, s.worker.Report(s.t.Context(), s.job, engine.Done([]byte(`1`)), false))
		synctest.Wait()
		select {
		case <-s.ended:
			s.t.Error("the worker was killed")
		default:
		}
	})
}

// WaitForStops names a cancelled job after the worker's POSTs about it. A worker whose POST never ends is killed.
func TestWaitForStopsOmitsPostedJob(t *testing.T) {
	runStopTest(t, 0, nil, func(s *stopFixture) {
		done := s.worker.BeginPost(s.job)
		must.Do(s.engine.Cancel(s.t.Context(), "ep", s.job))(s.t)
		must.Equal(s.t, s.stops(2*time.Second), nil, "the jobs of WaitForStops during a post")
		stops := make(chan []string)
		go func() { stops <- s.stops(2 * time.Second) }()
		synctest.Wait()
		done()
		must.Equal(s.t, <-stops, []string{s.job}, "the jobs of WaitForStops after the post")
	})
	runStopTest(t, 0, nil, func(s *stopFixture) {
		defer s.worker.BeginPost(s.job)()
		must.Do(s.engine.Cancel(s.t.Context(), "ep", s.job))(s.t)
		time.Sleep(7 * time.Second) // until the pool notices, plus the grace
		select {
		case <-s.ended:
		default:
			s.t.Error("a worker that posts without end keeps its slot")
		}
	})
}

// A job isn't lost while the worker posts its result, even if the worker no longer names the job or has exited.
func TestPostedJobIsNotLost(t *testing.T) {
	runStopTest(t, 0, nil, func(s *stopFixture) {
		done := s.worker.BeginPost(s.job)
		for range 10 { // seconds: longer than the grace
			time.Sleep(time.Second)
			must.Succeed(s.t, s.worker.Ping(s.t.Context(), nil))
			must.Succeed(s.t, s.worker.ReportIdle(s.t.Context()))
		}
		s.exit()
		time.Sleep(time.Second)
		must.Succeed(s.t, s.worker.Report(s.t.Context(), s.job, engine.Done([]byte(`1`)), false))
		done()
		must.Equal(s.t, must.Do(s.engine.Get(s.t.Context(), "ep", s.job))(s.t).State, engine.Completed, "the job's state")
	})
}

// idlePrograms starts workers whose process does nothing: the test acts in their place.
type idlePrograms struct {
	started   chan string       // ids of the workers
	processes chan *idleProcess // nil if the test doesn't need them
	folder    string            // shared by the processes, or ""
}

func (s idlePrograms) Program(string) (run.Program, error) {
	return run.Program{Folder: s.folder, Start: func(_ context.Context, spec run.Spec) (run.Process, error) {
		s.started <- spec.ID
		p := &idleProcess{}
		p.Context, p.end = context.WithCancel(context.Background())
		if s.processes != nil {
			s.processes <- p
		}
		return p, nil
	}}, nil
}

// idleProcess is a process that does nothing until it is stopped, which ends its context.
type idleProcess struct {
	context.Context
	end context.CancelFunc
}

func (p *idleProcess) Exit() run.Exit     { return run.Exit{Text: "killed"} }
func (p *idleProcess) Stop(time.Duration) { p.end() }
func (p *idleProcess) Address() string    { return "" }
func (p *idleProcess) Usage() run.Usage   { return run.Usage{} }

// A worker that restarts gets its lost job again, and WaitForStops must not name that job.
func TestWaitForStopsOmitsLostJob(t *testing.T) {
	var stopped [][]string
	onEvent := func(s *stopFixture, e engine.Event) {
		if e.Retry {
			stopped = append(stopped, s.stops(waitTimeout)) // after the loss, before the pool drops the job
		}
	}
	runStopTest(t, 0, onEvent, func(s *stopFixture) {
		time.Sleep(2 * waitTimeout)
		must.Succeed(s.t, s.worker.ReportIdle(s.t.Context()))
		jobs, err := s.worker.Take(s.t.Context(), 1)
		must.Require(s.t, err == nil && len(jobs) == 1 && jobs[0].ID == s.job, "took", jobs, "after the loss,", err)
		stopped = append(stopped, s.stops(waitTimeout))
		must.Hold(s.t, len(stopped) == 2 && len(stopped[0])+len(stopped[1]) == 0, "WaitForStops returned", stopped)
	})
}

const waitTimeout = time.Second

// A worker that lost a job and gets it again at once isn't killed because of the first run. A single ping
// that doesn't name the job doesn't take it away.
func TestLostJobReturnsToItsWorker(t *testing.T) {
	runStopTest(t, time.Second, nil, func(s *stopFixture) {
		go func() { // the worker's next free slot requests a job
			jobs, err := s.worker.Take(s.t.Context(), 1)
			must.Hold(s.t, err == nil && len(jobs) == 1 && jobs[0].ID == s.job, "took", jobs, err)
		}()
		for range 2 {
			must.Equal(s.t, s.worker.Ping(s.t.Context(), nil), nil)
			time.Sleep(6 * time.Second)
		}
		for _, jobs := range [][]string{nil, {s.job}, {s.job}, {s.job}, nil} {
			must.Equal(s.t, s.worker.Ping(s.t.Context(), jobs), nil)
			time.Sleep(2 * time.Second)
		}
		must.Equal(s.t, s.worker.Report(s.t.Context(), s.job, engine.Done(nil), false), nil)
		job := must.Do(s.engine.Get(s.t.Context(), "ep", s.job))(s.t)
		must.Hold(s.t, job.State == engine.Completed && job.Retries == 1, "the job is", job)
	})
}

// A worker that loses a job and requests no other is killed, so that jobs don't wait for it.
func TestWorkerHangsAfterALoss(t *testing.T) {
	for name, hangs := range map[string]bool{"hangs": true, "requests jobs": false} {
		t.Run(name, func(t *testing.T) {
			runStopTest(t, 0, nil, func(s *stopFixture) {
				for range 2 {
					must.Succeed(s.t, s.worker.Ping(s.t.Context(), nil))
					time.Sleep(5 * time.Second)
				}
				if !hangs {
					must.Do(s.engine.Cancel(s.t.Context(), "ep", s.job))(s.t)
					go func() { _, _ = s.worker.Take(s.t.Context(), 1) }()
				}
				time.Sleep(31 * time.Second)
				select {
				case <-s.ended:
					must.Hold(s.t, hangs, "a worker that requests jobs was killed")
				default:
					must.Hold(s.t, !hangs, "a worker that requests no job keeps its slot")
				}
			})
		})
	}
}

// A worker gets a retried job only after it has stopped the run that timed out. Other jobs don't wait, and if the
// worker is killed because of that run, they count no retry.
func TestRetriedJobWaitsForItsEarlierRun(t *testing.T) {
	for name, stops := range map[string]bool{"stops": true, "is killed": false} {
		t.Run(name, func(t *testing.T) {
			runStopTest(t, 0, nil, func(s *stopFixture) {
				time.Sleep(engine.DefaultTimeout)
				must.Do(s.engine.Retry(s.t.Context(), "ep", s.job))(s.t)
				ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
				defer cancel()
				start, other := time.Now(), s.submit()
				jobs, err := s.worker.Take(ctx, 2)
				must.Hold(s.t, err == nil && len(jobs) == 1 && jobs[0].ID == other && time.Since(start) == 0, "the other job waited", time.Since(start), jobs, err)
				if stops {
					go func() {
						must.Equal(s.t, s.stops(time.Second), []string{s.job}, "the jobs to stop")
						time.Sleep(time.Second)
						must.Equal(s.t, s.worker.Ping(s.t.Context(), nil), nil)
					}()
				}
				jobs, err = s.worker.Take(ctx, 1)
				must.Hold(s.t, err == nil && (len(jobs) == 1) == stops, "took", jobs, err)
				time.Sleep(10 * time.Second)
				want := map[bool]engine.State{true: engine.InProgress, false: engine.InQueue}[stops]
				for _, id := range []string{s.job, other} {
					job := must.Do(s.engine.Get(s.t.Context(), "ep", id))(s.t)
					must.Hold(s.t, job.State == want && job.Retries == 0, "the job is", job.State, job.Retries)
				}
			})
		})
	}
}
