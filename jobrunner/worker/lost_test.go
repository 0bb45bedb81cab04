package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// silent starts processes that do nothing.
type silent struct {
	started   chan string
	processes chan *mute // nil if the test doesn't need them
}

func (s silent) Program(string) (run.Program, error) {
	return run.Program{Start: func(_ context.Context, spec run.Spec) (run.Process, error) {
		s.started <- spec.ID
		p := &mute{}
		p.Context, p.end = context.WithCancel(context.Background())
		if s.processes != nil {
			s.processes <- p
		}
		return p, nil
	}}, nil
}

// mute is a process that does nothing until it is stopped, which ends its context.
type mute struct {
	context.Context
	end context.CancelFunc
}

func (p *mute) Exit() run.Exit     { return run.Exit{Text: "killed"} }
func (p *mute) Stop(time.Duration) { p.end() }
func (p *mute) Address() string    { return "" }
func (p *mute) Usage() run.Usage   { return run.Usage{} }

// A worker that restarts gets its lost job again, and Stops must not name that job.
func TestStopsOmitsLostJob(t *testing.T) {
	var stopped [][]string
	lost := func(s *stopping, e engine.Event) {
		if e.Retry {
			stopped = append(stopped, s.stops(patience)) // after the loss, before the pool drops the job
		}
	}
	withStopping(t, 0, lost, func(s *stopping) {
		pass(2 * patience)
		must.Succeed(s.t, s.pools.Idle(s.t.Context(), "ep", s.worker))
		if jobs, err := s.pools.Take(s.t.Context(), "ep", s.worker, 1); err != nil || len(jobs) != 1 || jobs[0].ID != s.job {
			s.t.Fatalf("took %v after the loss, %v", jobs, err)
		}
		stopped = append(stopped, s.stops(patience))
		must.Hold(s.t, len(stopped) == 2 && len(stopped[0])+len(stopped[1]) == 0, "Stops returned", stopped)
	})
}

const patience = time.Second
