package selftest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// Three jobrunners on one PostgreSQL conform like one, whichever of them answers a request.
// The test runs a sample of the cases: about limits, which the nodes share, and about
// queues, whose jobs several nodes see. CONFORMANCE_NODES=1 runs all cases (make nodes).
func TestThreeNodesConform(t *testing.T) {
	sample := []string{"OPS-17", "OPS-20", "OPS-24"}
	if !testing.Short() {
		sample = append(sample, "RAT-12", "RAT-14", "SUB-26", "JOB-17", "JOB-19", "JOB-22", "JOB-23", "JOB-27", "LIM-11", "OPS-18", "OPS-19", "OPS-25", "OPS-26")
	}
	selected := sample
	if os.Getenv("CONFORMANCE_NODES") != "" {
		selected = nil // all
	}
	r := judge(t, conformance.Options{Target: startNodes(t, 3), Select: selected})
	must.Hold(t, r.Exit == 0 && len(r.Leaked) == 0 && r.Counts[report.Pass] >= len(sample), "exit code", r.Exit, "leaked", r.Leaked, r.Counts)
	expectNoFailure(t, r)
	t.Logf("%v", r.Counts)
}

// skew is how far the clock of each node is ahead of the previous node's, as much as
// between real machines.
const skew = 40 * time.Millisecond

// startNodes starts n jobrunners on one database, behind a proxy that distributes requests
// in turn. The suite advances the clocks of all.
func startNodes(t *testing.T, n int) conformance.Target {
	t.Helper()
	target, dir := newTarget(t)
	config := jobrunner.Config{Engine: pgtest.Start(t), APIKey: target.Key, KeyDir: dir, AdminClock: true}
	var handlers []http.Handler
	for range n {
		var handler atomic.Pointer[http.Handler]
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
		config := config
		config.URL, config.DataDir = server.URL, t.TempDir()
		j := must.Do(jobrunner.New(context.Background(), config))(t)
		handler.Store(new(j.Handler()))
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
			must.Succeed(t, j.Close())
		})
		handlers = append(handlers, j.Handler())
	}
	var turn atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[turn.Add(1)%int64(n)].ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	target.BaseURL = server.URL
	callClocks := func(ctx context.Context, body string) (time.Time, error) {
		var times []time.Time
		for _, h := range handlers {
			now, err := postClock(ctx, h, target.Key, body)
			if err != nil {
				return now, err
			}
			times = append(times, now)
		}
		return slices.MinFunc(times, time.Time.Compare), nil
	}
	target.Advance = func(ctx context.Context, d time.Duration) (time.Time, error) {
		return callClocks(ctx, fmt.Sprintf(`{"advance":%d}`, max((d+time.Millisecond-1).Milliseconds(), 1)))
	}
	must.Do(callClocks(t.Context(), `{"stop":true}`))(t)
	for i, h := range handlers[1:] {
		must.Do(postClock(t.Context(), h, target.Key, fmt.Sprintf(`{"advance":%d}`, (i+1)*int(skew.Milliseconds()))))(t)
	}
	target.ClockStopped = true
	return target
}
