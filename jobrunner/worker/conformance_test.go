package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// conformanceEndpoint has one worker of builtin/conformance.
var conformanceEndpoint = worker.Endpoint{ID: "ep", Container: store.Container{Image: "builtin/conformance"}, Max: 1, IdleTimeout: time.Hour, ScalerValue: 4}

func (f *fixture) submitInput(format string, args ...any) engine.Job {
	f.t.Helper()
	return f.submit(engine.NewJob{Input: fmt.Appendf(nil, format, args...), Timeout: time.Hour})
}

func (f *fixture) drainChunks(job engine.Job) (all []string) {
	f.t.Helper()
	_, chunks, _, err := f.engine.Drain(f.t.Context(), "ep", job.ID, engine.MaxDrain)
	must.Succeed(f.t, err)
	for _, c := range chunks {
		all = append(all, string(c))
	}
	return all
}

func TestConformanceHandler(t *testing.T) {
	for input, want := range map[string]engine.Job{
		`{"op": "echo",  "x": [1]}`:                                       {State: engine.Completed, Output: []byte(`{"op": "echo",  "x": [1]}`)},
		`{"op": "sleep", "ms": 1500, "output": "up"}`:                     {State: engine.Completed, Output: []byte(`"up"`), Execution: 1500 * time.Millisecond},
		`{"op": "fail"}`:                                                  {State: engine.Failed, Error: "failed as ordered"},
		`{"op": "fail", "message": "no luck", "output": 1}`:               {State: engine.Failed, Error: "no luck", Output: []byte(`1`)},
		`{"op": "fail", "bytes": 3}`:                                      {State: engine.Failed, Error: "xxx"},
		`{"op": "fail", "times": 0}`:                                      {State: engine.Completed, Output: []byte(`{"op": "fail", "times": 0}`)},
		`{"op": "bytes", "n": 3}`:                                         {State: engine.Completed, Output: []byte(`"xxx"`)},
		`{"op": "crash"}`:                                                 {State: engine.Failed, Error: "job timed out after 1 retries: its worker died", Retries: 1},
		`{"op": "crash", "times": 1}`:                                     {State: engine.Completed, Output: []byte(`{"op": "crash", "times": 1}`), Retries: 1},
		`{"op": "stream", "message": "broke"}`:                            {State: engine.Failed, Error: "broke"},
		`{"openai_route": "/x", "openai_input": {"op": "bytes", "n": 1}}`: {State: engine.Completed, Output: []byte(`"x"`)},
		`{"op": "echo", "openai_input": 1}`:                               {State: engine.Failed, Error: "invalid input of builtin/conformance: expected a JSON object"},
		`{"op": "sleep", "ms": "1"}`:                                      {State: engine.Failed, Error: "invalid input of builtin/conformance: ms: json: cannot unmarshal string into Go value of type int64"},
		`{}`:                                                              {State: engine.Failed, Error: `no such op: ""`},
		`{"op": "dance"}`:                                                 {State: engine.Failed, Error: `no such op: "dance"`},
		`{"op": "sleep", "ms": -1}`:                                       {State: engine.Failed, Error: "n, bytes, ms or every is out of bounds"},
		`{"op": "bytes", "n": 67108865}`:                                  {State: engine.Failed, Error: "n, bytes, ms or every is out of bounds"},
		`{"op": "stream", "n": 100001}`:                                   {State: engine.Failed, Error: "n, bytes, ms or every is out of bounds"},
	} {
		bubble(t, func(f *fixture) {
			f.pools.Set(conformanceEndpoint)
			job := f.submitInput("%s", input)
			time.Sleep(time.Minute)
			full := f.reload(job)
			got := engine.Job{State: full.State, Execution: full.Execution, Retries: full.Retries, Output: full.Output, Error: full.Error}
			must.Equal(f.t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want), input, got, want)
		})
	}
}

func TestConformanceStream(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.pools.Set(conformanceEndpoint)
		job := f.submitInput(`{"op": "stream", "n": 3, "ms": 1000, "output": "all"}`)
		for i := range 3 {
			must.Equal(f.t, f.drainChunks(job), nil, "the chunks before the next is due")
			time.Sleep(time.Second)
			synctest.Wait()
			got := f.drainChunks(job)
			must.Hold(f.t, len(got) == 1 && got[0] == fmt.Sprintf(`{"output":{"n":%d}}`, i), "chunk", i, got)
		}
		got := f.reload(job)
		must.Hold(f.t, got.State == engine.Completed && string(got.Output) == `"all"`, "the job is", got)
		job = f.submitInput(`{"op": "stream", "n": 2, "bytes": 2}`)
		if got := f.drainChunks(job); strings.Join(got, ",") != `{"output":"xx"},{"output":"xx"}` {
			f.t.Errorf("chunks %s", got)
		}
		job = f.submitInput(`{"op": "stream", "n": 3, "outputs": [{"a":  1e2}, null]}`)
		if got := f.drainChunks(job); strings.Join(got, ",") != `{"output":{"a":  1e2}},{"output":null},{"output":{"n":2}}` {
			f.t.Errorf("chunks %s", got)
		}
	})
}

// A worker is free as soon as its job is taken from it.
func TestStopsRunningJob(t *testing.T) {
	for name, c := range map[string]struct {
		revoke func(f *fixture, job engine.Job)
		state  engine.State
	}{
		"cancelled": {func(f *fixture, job engine.Job) {
			must.Equal(f.t, must.Err(f.engine.Cancel(f.t.Context(), "ep", job.ID)), nil)
		}, engine.Cancelled},
		"ttl": {func(f *fixture, job engine.Job) {
			must.Equal(f.t, f.engine.SetTTL(f.t.Context(), "ep", job.ID, 10*time.Second), nil)
			time.Sleep(5 * time.Second)
		}, ""},
		"timed out": {func(*fixture, engine.Job) { time.Sleep(time.Hour - 5*time.Second) }, engine.TimedOut},
	} {
		for _, op := range []string{`"sleep", "ms": 7000000`, `"stream", "n": 100000, "ms": 2000`} {
			bubble(t, func(f *fixture) {
				f.pools.Set(conformanceEndpoint)
				job := f.submitInput(`{"op": %s}`, op)
				next := f.submitInput(`{"op": "echo"}`)
				time.Sleep(5 * time.Second)
				f.expectCounts(worker.Counts{Running: 1})
				before := time.Now()
				c.revoke(f, job)
				f.expectCounts(worker.Counts{Idle: 1})
				got := f.reload(next)
				must.Hold(f.t, got.State == engine.Completed && got.Delay == time.Since(before)+5*time.Second, name, "the next job is", got)
				if c.state == "" {
					must.Hold(f.t, must.Err(f.engine.Get(f.t.Context(), "ep", job.ID)) != nil, name, "the job still exists")
				} else if got := f.reload(job); got.State != c.state || got.Error != "" {
					f.t.Errorf("%s: the job is %+v", name, got)
				}
			})
		}
	}
}

// The worker dies with its job, and another worker replaces it.
func TestCrash(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.pools.Set(conformanceEndpoint)
		job := f.submitInput(`{"op": "crash"}`)
		first := f.reload(job).Worker
		got := f.reload(f.submitInput(`{"op": "echo"}`))
		must.Hold(f.t, got.State == engine.Completed && got.Worker != first, "the job after the crash is", got, "and the worker that died", first)
		if got := f.engine.Counts("ep"); got.Failed != 1 || got.Retried != 1 {
			f.t.Errorf("counts are %+v", got)
		}
		f.expectCounts(worker.Counts{Idle: 1})
	})
}

// A job doesn't fail when the pools close: it runs again later.
func TestCloseStopsRunningJob(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.pools.Set(conformanceEndpoint)
		job := f.submitInput(`{"op": "sleep", "ms": 3600000}`)
		before := time.Now()
		f.pools.Close()
		must.Equal(f.t, time.Since(before), 0, "the time that Close took")
		got := f.reload(job)
		must.Hold(f.t, got.State == engine.InProgress, "the job is", got)
	})
}
