package worker_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type fixture struct {
	t       *testing.T
	engine  *engine.Engine
	pools   *worker.Pools
	log     *livelog.Log
	catalog *catalog.Source
}

// bubble runs a test with an engine and pools in memory, in virtual time.
func bubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	bubbleWithFakes(t, nil, test)
}

// bubbleWithFakes is bubble with the programs of fakes in addition to the built-in programs.
func bubbleWithFakes(t *testing.T, programs *fakes, test func(f *fixture)) {
	t.Helper()
	bubbleWithConfig(t, programs, func(*worker.Config) struct{} { return struct{}{} }, func(f *fixture, _ struct{}) { test(f) })
}

// bubbleWithConfig is bubbleWithFakes, but calls configure inside the bubble, and passes its result to the test.
func bubbleWithConfig[T any](t *testing.T, programs *fakes, configure func(c *worker.Config) T, test func(f *fixture, extra T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, log: new(livelog.Log)}
		clk := new(clock.Clock)
		log := slog.New(slog.NewTextHandler(f.log, nil))
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		f.engine = must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: clk, Logger: log}))(t)
		config := worker.Config{Queue: f.engine, Clock: clk, Logger: log, URL: "http://deployment"}
		if programs != nil {
			programs.t, config.Programs = t, programs
		}
		extra := configure(&config)
		f.catalog = config.Catalog
		f.pools = worker.New(config)
		if programs != nil {
			programs.pools = f.pools
		}
		defer func() {
			f.pools.Close()
			f.engine.Close()
			must.Equal(t, db.Close(), nil)
		}()
		test(f, extra)
	})
}

// echo is an endpoint that scales to zero.
var echo = worker.Endpoint{ID: "ep", Container: store.Container{Image: "builtin/echo"}, Max: 3, IdleTimeout: 10 * time.Second, ScalerValue: 4}

func (f *fixture) submit(n engine.NewJob) engine.Job {
	f.t.Helper()
	n.Endpoint = "ep"
	if n.Input == nil {
		n.Input = []byte(`{"a": 1}`)
	}
	job := must.Do(f.engine.Submit(f.t.Context(), n))(f.t)
	f.pools.CheckLoad("ep")
	synctest.Wait()
	return job
}

func (f *fixture) reload(job engine.Job) engine.Job {
	f.t.Helper()
	synctest.Wait()
	return must.Do(f.engine.Get(f.t.Context(), "ep", job.ID))(f.t)
}

func (f *fixture) expectCounts(want worker.Counts) {
	f.t.Helper()
	synctest.Wait()
	must.Equal(f.t, f.pools.Counts("ep"), want, "the counts of workers")
}

// The first job starts a worker at once. An idle worker ends after its time-out.
func TestScalesFromZeroToZero(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.pools.Set(echo)
		f.expectCounts(worker.Counts{})
		job := f.submit(engine.NewJob{Input: []byte(`{"say":  "hi"}`)})
		got := f.reload(job)
		must.Require(f.t, got.State == engine.Completed && string(got.Output) == `{"say":  "hi"}` && got.Delay == 0, "the job is", got)
		f.expectCounts(worker.Counts{Idle: 1})
		time.Sleep(9 * time.Second)
		f.submit(engine.NewJob{}) // restarts the idle time-out
		time.Sleep(9 * time.Second)
		f.expectCounts(worker.Counts{Idle: 1})
		time.Sleep(2 * time.Second)
		f.expectCounts(worker.Counts{})
		must.Equal(f.t, f.reload(f.submit(engine.NewJob{})).State, engine.Completed, "the state of a job after scaling to zero")
	})
}

func TestKeepsTheMinimum(t *testing.T) {
	bubble(t, func(f *fixture) {
		withMinimum := echo
		withMinimum.Min = 2
		f.pools.Set(withMinimum)
		f.expectCounts(worker.Counts{Idle: 2})
		time.Sleep(time.Hour)
		f.expectCounts(worker.Counts{Idle: 2})
		f.pools.Set(echo) // without a minimum the workers end after their idle time-out
		time.Sleep(21 * time.Second)
		f.expectCounts(worker.Counts{})
	})
}

// A job of low priority starts no worker, and runs on a running worker.
func TestLowPriority(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.pools.Set(echo)
		low := f.submit(engine.NewJob{LowPriority: true})
		time.Sleep(time.Minute)
		f.expectCounts(worker.Counts{})
		must.Equal(f.t, f.reload(low).State, engine.InQueue, "the state of the job")
		f.submit(engine.NewJob{})
		must.Equal(f.t, f.reload(low).State, engine.Completed, "the state of the job while a worker runs")
	})
}

// If no executor runs the image, jobs wait, a worker is UNHEALTHY, and the failure is logged once.
func TestUnknownImage(t *testing.T) {
	bubble(t, func(f *fixture) {
		withUnknownImage := echo
		withUnknownImage.Version, withUnknownImage.Image = 1, "registry.example.com/sdxl"
		f.pools.Set(withUnknownImage)
		f.expectCounts(worker.Counts{})
		job := f.submit(engine.NewJob{})
		f.submit(engine.NewJob{})
		time.Sleep(10 * time.Minute)
		f.expectCounts(worker.Counts{Unhealthy: 1})
		must.Equal(f.t, f.reload(job).State, engine.InQueue, "the state of the job")
		must.Equal(f.t, strings.Count(f.log.String(), "registry.example.com/sdxl"), 1, "log lines with the failure:", f.log)
		f.pools.Set(echo)
		f.expectCounts(worker.Counts{Idle: 1})
		must.Equal(f.t, f.reload(job).State, engine.Completed, "the state of the job with a known image")
	})
}

func TestRemove(t *testing.T) {
	bubble(t, func(f *fixture) {
		balanced := echo
		balanced.ID, balanced.Balanced, balanced.Max = "balanced", true, 0
		f.pools.Set(balanced)
		go func() {
			_, _, err := f.pools.Pick(f.t.Context(), "balanced")
			must.ErrorIs(f.t, err, worker.ErrNoWorker, "a request that waits for a worker of a removed endpoint")
		}()
		synctest.Wait()
		f.pools.Remove("balanced")
		f.pools.Set(echo)
		f.submit(engine.NewJob{})
		f.pools.Remove("ep")
		f.pools.Remove("ep")
		f.expectCounts(worker.Counts{})
		job := f.submit(engine.NewJob{})
		time.Sleep(time.Minute)
		must.Equal(f.t, f.reload(job).State, engine.InQueue, "the state of a job without an endpoint")
	})
}
