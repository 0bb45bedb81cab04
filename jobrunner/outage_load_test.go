//go:build unix

package jobrunner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// acknowledgedJobs has the expected results of the acknowledged jobs.
type acknowledgedJobs struct {
	mu   sync.Mutex
	jobs map[string]result // by path of the status
}

type result struct{ output, stream string }

func (a *acknowledgedJobs) add(path string, r result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.jobs[path] = r
}

// startLoad starts clients that submit jobs to each endpoint by each operation until ctx ends.
func (d *checkedDeployment) startLoad(ctx context.Context, clients *sync.WaitGroup, acknowledged *acknowledgedJobs, endpoints ...string) {
	var number atomic.Int64
	for i, endpoint := range endpoints {
		for mode := range 3 {
			clients.Go(func() {
				for ctx.Err() == nil {
					n := number.Add(1)
					want := result{output: fmt.Sprintf(`{"client":%d,"n":%d}`, i, n)}
					input := map[string]any{"op": "sleep", "ms": rand.IntN(300), "output": json.RawMessage(want.output)}
					operation := "run"
					switch mode {
					case 1:
						operation = "runsync"
					case 2:
						input["op"], input["n"], input["ms"] = "stream", 5, rand.IntN(100)
						want.stream = `[{"output":{"n":0}},{"output":{"n":1}},{"output":{"n":2}},{"output":{"n":3}},{"output":{"n":4}}]`
					}
					body, _ := json.Marshal(map[string]any{"input": input})
					status, text, err := d.call(ctx, http.MethodPost, "/v2/"+endpoint+"/"+operation, string(body))
					var job struct{ ID, Status string }
					if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &job) != nil {
						sleep(ctx, 50*time.Millisecond)
						continue
					}
					path := "/v2/" + endpoint + "/status/" + job.ID
					acknowledged.add(path, want)
					for job.Status != "COMPLETED" && job.Status != "FAILED" && ctx.Err() == nil {
						sleep(ctx, 20*time.Millisecond)
						if status, text, err := d.call(ctx, http.MethodGet, path, ""); err == nil && status == http.StatusOK {
							_ = json.Unmarshal([]byte(text), &job)
						}
					}
					if operation == "runsync" && strings.Contains(text, `"output":`+want.output) { // the result of runsync is kept for only a minute
						acknowledged.mu.Lock()
						delete(acknowledged.jobs, path)
						acknowledged.mu.Unlock()
					}
					for _, path := range []string{"/v2/" + endpoint + "/health", "/v1/endpoints", "/v2/serverless/" + endpoint, "/v2/" + endpoint + "/requests"} {
						_, _, _ = d.call(ctx, http.MethodGet, path, "")
					}
				}
			})
		}
	}
}

// expectEnded expects that each job completes with its output and whole stream, without a retry.
func (d *checkedDeployment) expectEnded(acknowledged *acknowledgedJobs) {
	d.t.Helper()
	for path, want := range acknowledged.jobs {
		var job struct {
			Status  string
			Output  json.RawMessage
			Retries int
		}
		for deadline := time.Now().Add(time.Minute); ; {
			status, text, err := d.call(d.t.Context(), http.MethodGet, path, "")
			must.Succeed(d.t, err)
			if status == http.StatusOK {
				job.Output = nil
				must.Succeed(d.t, json.Unmarshal([]byte(text), &job))
			}
			if status == http.StatusOK && job.Status != "IN_QUEUE" && job.Status != "IN_PROGRESS" || time.Now().After(deadline) {
				must.Hold(d.t, job.Status == "COMPLETED" && string(job.Output) == want.output && job.Retries == 0, path, "is answered", status, text, "want COMPLETED without a retry, with", want.output)
				break
			}
			sleep(d.t.Context(), 20*time.Millisecond)
		}
		if want.stream == "" {
			continue
		}
		_, text, err := d.call(d.t.Context(), http.MethodGet, strings.Replace(path, "/status/", "/stream/", 1), "")
		must.Hold(d.t, err == nil && text == want.stream, path, "streamed", text, err, "want", want.stream)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, violation := range d.violations[:min(len(d.violations), 10)] {
		d.t.Error(violation)
	}
}

// During outages under load, acknowledged jobs end with their output, and no response shows a database error.
func TestOutagesUnderLoad(t *testing.T) {
	acctest.LeaveToCI(t, "engine.TestSharedOutage tests an outage")
	t.Parallel()
	d := startOnPostgres(t)
	endpoints := []string{d.createEndpointOf("builtin/conformance", 4), d.createEndpointOf("sdk/worker", 3)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	acknowledged := &acknowledgedJobs{jobs: map[string]result{}}
	var clients sync.WaitGroup
	d.startLoad(ctx, &clients, acknowledged, endpoints...)
	pause := func() { sleep(ctx, time.Duration(200+rand.IntN(400))*time.Millisecond) }
	var faults []func()
	rounds := 10
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		faults = append(faults,
			func() { d.server.End(syscall.SIGINT); pause(); d.server.Start() },
			func() { d.server.End(syscall.SIGKILL); pause(); d.server.Start() },
			func() { d.server.Terminate() },
			func() { d.server.Terminate() })
	}
	faults = append(faults, func() { release := d.server.TakeConnections(); pause(); release() })
	rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for _, fault := range faults {
		pause()
		fault()
	}
	pause()
	stop()
	clients.Wait()
	must.Hold(t, len(acknowledged.jobs) >= len(faults), "only", len(acknowledged.jobs), "jobs were acknowledged")
	d.expectEnded(acknowledged)
	t.Logf("%d faults, %d jobs acknowledged", len(faults), len(acknowledged.jobs))
}
