package worker_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// silent starts processes that do nothing.
type silent struct {
	started   chan string
	processes chan *mute // nil if the test doesn't need them
}

func (s silent) Program(string) (run.Program, error) {
	return run.Program{Start: func(_ context.Context, spec run.Spec) (run.Process, error) {
		s.started <- spec.ID
		p := &mute{done: make(chan struct{})}
		p.end = sync.OnceFunc(func() { close(p.done) })
		if s.processes != nil {
			s.processes <- p
		}
		return p, nil
	}}, nil
}

type mute struct {
	done chan struct{}
	end  func()
}

func (p *mute) Done() <-chan struct{} { return p.done }
func (p *mute) Exit() run.Exit        { return run.Exit{Text: "killed"} }
func (p *mute) Stop(time.Duration)    { p.end() }
func (p *mute) Address() string       { return "" }
func (p *mute) Usage() run.Usage      { return run.Usage{} }

// A worker that restarts gets its lost job again, and Stops must not name that job.
func TestStopsOmitsLostJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqldb.Open(t.Context(), sqldb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var stops func() []string
		var stopped [][]string
		lost := func(e engine.Event) {
			if e.Retry {
				stopped = append(stopped, stops()) // after the loss, before the pool drops the job
			}
		}
		processes := silent{started: make(chan string, 2)}
		time, log := new(clock.Clock), slog.New(slog.DiscardHandler)
		e, err := engine.Open(t.Context(), engine.Config{DB: db, Clock: time, Logger: log, Observe: lost})
		if err != nil {
			t.Fatal(err)
		}
		pools := worker.New(worker.Config{Queue: e, Clock: time, Logger: log, URL: "http://deployment", Programs: processes})
		defer func() {
			pools.Close()
			e.Close()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		settings := echo
		settings.Image, settings.Min, settings.Max = "handlers/silent", 1, 1
		pools.Set(settings)
		id := <-processes.started
		stops = func() []string {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ids, err := pools.Stops(ctx, "ep", id)
			if err != nil {
				t.Error(err)
			}
			return ids
		}
		job, err := e.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		take := func() (ids []string) {
			jobs, err := pools.Take(t.Context(), "ep", id, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			return ids
		}
		if got := take(); !slices.Equal(got, []string{job.ID}) {
			t.Fatalf("took %v", got)
		}
		pass(2 * patience)
		if err := pools.Idle(t.Context(), "ep", id); err != nil {
			t.Fatal(err)
		}
		if got := take(); !slices.Equal(got, []string{job.ID}) {
			t.Fatalf("took %v after the loss", got)
		}
		stopped = append(stopped, stops())
		if len(stopped) != 2 || len(stopped[0])+len(stopped[1]) > 0 {
			t.Errorf("Stops returned %v", stopped)
		}
	})
}

const patience = time.Second
