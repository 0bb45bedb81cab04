// Package enginetest has the tests that an engine must pass on every database.
package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// Harness runs a test on an engine with an empty database.
type Harness func(t *testing.T, test func(t *testing.T, env *Env))

// Env is the engine under test and its environment.
type Env struct {
	*engine.Engine
	// Advance advances the time and waits until everything due has happened.
	Advance func(time.Duration)
	// Settle waits until everything that is due now has happened.
	Settle func()
	// Restart restarts the engine on the same database.
	Restart func()
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *Env)
	}{
		{"success", testSuccess},
		{"order of the queue", testOrder},
		{"bytes are kept as they are", testBytes},
		{"cancel", testCancel},
		{"reports that come too late", testFence},
		{"ttl", testTTL},
		{"two days of seven in the queue", testSevenDays},
		{"ttl set later", testSetTTL},
		{"execution time-out", testTimeout},
		{"retention", testRetention},
		{"lost workers", testLost},
		{"leases", testLease},
		{"restart", testRestart},
		{"counts", testCounts},
		{"load", testLoad},
		{"waiting takers", testWaitingTakers},
		{"watching", testWatch},
		{"retry", testRetry},
		{"purge", testPurge},
		{"purge against takers", testPurgeAgainstTakers},
		{"stream", testStream},
		{"large stream", testLargeStream},
		{"newest jobs", testRecent},
		{"newest jobs of all", testLatest},
		{"newest jobs of both kinds", testNewestOfBothKinds},
		{"webhook calls", testCalls},
		{"queues of webhook calls", testCallQueues},
		{"deleted endpoint", testDrop},
		{"many at once", testMany},
		{"batches", testBatches},
		{"batches that end early", testBatchDrains},
		{"limits of batches", testBatchLimits},
	} {
		t.Run(c.name, func(t *testing.T) { h(t, c.test) })
	}
	t.Run("model", func(t *testing.T) { testModel(t, h) })
	t.Run("model of batches", func(t *testing.T) { testBatchModel(t, h) })
}

// tester has short helpers for the tests.
type tester struct {
	testing.TB
	*Env
	ctx context.Context
}

func with(t *testing.T, env *Env) tester { return tester{t, env, t.Context()} }

func (t tester) submit(n engine.NewJob) string {
	t.Helper()
	if n.Endpoint == "" {
		n.Endpoint = "ep"
	}
	if n.Input == nil {
		n.Input = []byte(`{}`)
	}
	job, err := t.Submit(t.ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// take takes a job, and fails the test if the queue is empty.
func (t tester) take(k engine.Take) engine.Taken {
	t.Helper()
	if k.Endpoint == "" {
		k.Endpoint = "ep"
	}
	if k.Worker == "" {
		k.Worker = "w"
	}
	k.Max = 1
	jobs, err := t.Take(t.ctx, k)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 1 {
		t.Fatalf("took %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

func (t tester) takeNone() {
	t.Helper()
	jobs, err := t.Take(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
	if err != nil || len(jobs) != 0 {
		t.Fatalf("took %v, %v from a queue that should be empty", jobs, err)
	}
}

func (t tester) report(ref engine.Ref, r engine.Report, want engine.Directive) {
	t.Helper()
	if got, err := t.Report(t.ctx, ref, r); err != nil || got != want {
		t.Errorf("the report returned %v, %v; want %v", got, err, want)
	}
}

func (t tester) get(id string) engine.Job {
	t.Helper()
	job, err := t.Get(t.ctx, "ep", id)
	if err != nil {
		t.Fatalf("job %s: %v", id, err)
	}
	return job
}

// is checks a job's state and returns the job; "" means that the job doesn't exist.
func (t tester) is(id string, want engine.State) engine.Job {
	t.Helper()
	job, err := t.Get(t.ctx, "ep", id)
	if want == "" {
		if !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("job %s is %s, %v; want none", id, job.State, err)
		}
		return engine.Job{}
	}
	if err != nil || job.State != want {
		t.Errorf("job %s is %q, %v; want %s", id, job.State, err, want)
	}
	return job
}

func (t tester) counts(want engine.Counts) {
	t.Helper()
	got := t.Counts("ep")
	if got.InQueue != want.InQueue || got.InProgress != want.InProgress || got.Completed != want.Completed || got.Failed != want.Failed || got.Retried != want.Retried {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
}
