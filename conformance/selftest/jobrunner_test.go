package selftest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// runsVariable is the environment variable with the number of runs to compare. make soak sets it to 100.
const runsVariable = "CONFORMANCE_RUNS"

// The jobrunner keeps every MUST and SHOULD of the operations that it serves, in any order
// and with any number of concurrent cases. Both programs are separate processes.
func TestJobrunnerConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares several runs, and TestLocal of cmd/conformance is such a run")
	}
	runs := must.Do(strconv.Atoi(cmp.Or(os.Getenv(runsVariable), "3")))(t)
	dir := t.TempDir()
	must.Succeed(t, gobuild.Programs(t.Context(), dir, "../../cmd/jobrunner", "../../cmd/conformance"))
	var first map[string]report.Verdict
	for i := range runs {
		parallel := []int{8, 1, 16}[i%3]
		run := exec.CommandContext(t.Context(), filepath.Join(dir, "conformance"),
			"run", "--local", "--json=-", "--seed="+strconv.Itoa(i+1), "--parallel="+strconv.Itoa(parallel))
		text, err := run.Output()
		var r report.Report
		decodeErr := json.Unmarshal(text, &r)
		must.Hold(t, err == nil && decodeErr == nil, "run", i+1, "with", parallel, "cases at a time fails:", err, decodeErr)
		expectConformant(t, &r, 100)
		if first == nil {
			first = verdicts(&r)
		}
		for clause, v := range verdicts(&r) {
			if v == report.Skip || first[clause] == report.Skip { // the jobrunner may answer too fast for a case
				continue
			}
			must.Equal(t, v, first[clause], clause, "in run", i+1, "with", parallel, "cases at a time; wanted as in run 1")
		}
	}
}

// A clause has the same verdict alone as with all others: no case depends on how far other cases advance the clock.
func TestEachClauseAlone(t *testing.T) {
	judged := map[string]bool{}
	for _, c := range conformance.Cases() {
		for _, clause := range c.AllClauses() {
			judged[clause] = true
		}
	}
	step := 1
	switch {
	case acctest.InMakeTest():
		step = 64
	case testing.Short():
		step = 16
	}
	for clauses := range slices.Chunk(slices.Sorted(maps.Keys(judged)), step) {
		clause := clauses[0]
		t.Run(clause, func(t *testing.T) {
			t.Parallel()
			r := judge(t, conformance.Options{Target: startDeployment(t, nil), Select: []string{clause}})
			// A run whose only clause is skipped is inconclusive.
			expectNoFailure(t, r)
			must.Hold(t, (r.Exit == conformance.ExitConformant || r.Exit == conformance.ExitInconclusive) && len(r.Leaked) == 0, "exit code", r.Exit, "leaked", r.Leaked)
		})
	}
}

// The jobrunner also conforms in this process, where the race detector sees both sides.
// Load tests are left out. `make test` judges the clauses of SampledAreas in TestLocal of
// cmd/conformance, and a fifth of the others here.
func TestJobrunnerConformsInProcess(t *testing.T) {
	elsewhere := strings.Split(acctest.SampledAreas, ",")
	var selected []string
	for i, c := range conformance.Cases() {
		area, _, _ := strings.Cut(c.ID, "-")
		sampled := !acctest.InMakeTest() || i%5 == 0 && !slices.Contains(elsewhere, area)
		if c.Allow&suite.Load == 0 && sampled {
			selected = append(selected, c.AllClauses()...)
		}
	}
	expectConformant(t, judge(t, conformance.Options{Target: startDeployment(t, nil), Select: selected}), len(selected)/4)
}

// expectConformant expects minPassed passed clauses, no violated one, and no more requests than the cases declare.
func expectConformant(t *testing.T, r *report.Report, minPassed int) {
	t.Helper()
	maxRequests := map[string]int{}
	for _, c := range conformance.Cases() {
		maxRequests[c.ID], _, _ = c.Cost()
	}
	for _, x := range r.Results {
		must.Hold(t, x.Requests <= maxRequests[x.Case], x.Case, "sends", x.Requests, "requests, and declares up to", maxRequests[x.Case])
	}
	must.Hold(t, r.Exit == 0 && len(r.Leaked) == 0 && r.Counts[report.Pass] >= minPassed, "exit code", r.Exit, "leaked", r.Leaked, r.Counts)
	expectNoFailure(t, r)
}

// expectNoFailure fails the test if a judged clause did not pass.
func expectNoFailure(t *testing.T, r *report.Report) {
	t.Helper()
	for _, x := range r.Results {
		switch x.Verdict {
		case report.Pass, report.Observed, report.Skip:
		default:
			t.Errorf("%s", report.Text(x))
		}
	}
}

// runInBubble runs a test in virtual time, with a jobrunner in memory.
func runInBubble(t *testing.T, test func(t *testing.T, target conformance.Target)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := must.Do(jobrunner.New(context.Background(), jobrunner.Config{APIKey: "the-key-of-the-suite"}))(t)
		client, stop := serveInMemory(j.Handler())
		test(t, conformance.Target{BaseURL: "http://jobrunner", Key: "the-key-of-the-suite", Client: client, Virtual: true})
		stop()
		must.Succeed(t, j.Close())
		time.Sleep(time.Second) // a refused body is discarded for a while; the bubble waits for that goroutine
	})
}

// If the suite and the target share virtual time, the suite only sleeps: it advances no clock.
func TestInVirtualTime(t *testing.T) {
	acctest.LeaveToCI(t, "TestJobrunnerConformsInProcess judges the same cases with a stopped clock")
	runInBubble(t, func(t *testing.T, target conformance.Target) {
		target.Local = true
		r := judge(t, conformance.Options{Target: target, Select: []string{"JOB", "SUB", "OPS", "LIM-1*", "V", "T", "R"}})
		expectNoFailure(t, r)
		must.Hold(t, r.Counts[report.Pass] >= 100 && time.Duration(r.Duration) >= 7*24*time.Hour, "expected 100 passes or more and a week or more, got", r.Counts, "in", time.Duration(r.Duration))
	})
}

// Cases that wait for half an hour are deferred. A later run, which has only the saved state,
// judges them. A case that resumes too late for its check, or without its endpoint, is inconclusive. A case whose resume is
// interrupted can resume again.
func TestDeferredCases(t *testing.T) {
	for _, x := range []struct {
		wait, maxWait time.Duration
		otherClauses  []string
		lim11, lim12  report.Verdict // LIM-11 judges that a result is kept, LIM-12 that it is deleted
	}{
		{28 * time.Minute, 0, nil, report.Pass, report.Pass},
		{10 * time.Hour, 0, nil, report.Inconclusive, report.Inconclusive},
		{10 * time.Hour, time.Second, []string{"LIM-18", "LIM-20"}, report.Inconclusive, report.Pass},
	} {
		runInBubble(t, func(t *testing.T, target conformance.Target) {
			var state conformance.DeferredCases
			o := conformance.Options{Target: target, Select: append(x.otherClauses, "LIM-11", "LIM-12", "JOB-02"), Allow: ^conformance.Permission(0), MaxWait: x.maxWait, Defer: &state, Ledger: t.TempDir() + "/ledger"}
			r := judge(t, o)
			got, due := verdicts(r), time.Until(state.Due())
			must.Hold(t, got["LIM-11"] == report.Skip && got["LIM-12"] == report.Skip && due >= 25*time.Minute && due <= 35*time.Minute, "expected LIM-11 and LIM-12 to be due in about 30 minutes, got", got, "due in", due)
			resume := func(ctx context.Context) {
				text := must.Do(json.Marshal(state))(t)
				state = conformance.DeferredCases{}
				must.Succeed(t, json.Unmarshal(text, &state))
				o.Select = state.Select()
				conformance.Merge(r, must.Do(conformance.Judge(ctx, o))(t))
			}
			for time.Sleep(x.wait); len(state.Journals) > 0; time.Sleep(x.wait) {
				if before := len(state.Journals); x.wait < time.Hour { // the cases still wait when they are resumed, so an interrupt keeps them
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					resume(ctx)
					cancel()
					must.Equal(t, len(state.Journals), before, "journals after an interrupt")
				}
				if x.lim12 != report.Pass { // conformance sweep deletes the case's objects in the meantime
					e := env.New(&target, env.NewClock(1))
					e.Ledger = must.Do(env.OpenLedger(o.Ledger))(t)
					e.CleanUp(t.Context(), func(env.Object) bool { return false })
				}
				resume(t.Context())
			}
			got = verdicts(r)
			must.Hold(t, got["LIM-11"] == x.lim11 && got["LIM-12"] == x.lim12 && got["JOB-02"] == report.Pass && len(r.Leaked) == 0 && r.Counts[report.Fail]+r.Counts[report.Warn] == 0, got, "leaked", r.Leaked)
		})
	}
}

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

// skew is how far the clock of each node is ahead of the previous node's, as much as between real machines.
const skew = 40 * time.Millisecond

// startNodes starts n jobrunners on one database, behind a proxy that distributes requests in turn.
func startNodes(t *testing.T, n int) conformance.Target {
	t.Helper()
	target, dir := newTarget(t)
	config := jobrunner.Config{DatabaseURL: pgtest.Start(t), APIKey: target.Key, KeyDir: dir, SecretKeyFile: filepath.Join(dir, "secrets.key"), AdminClock: true}
	var handlers []http.Handler
	for range n {
		var handler atomic.Pointer[http.Handler]
		server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
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
	target.BaseURL = startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[turn.Add(1)%int64(n)].ServeHTTP(w, r)
	}))
	callClocks := func(ctx context.Context, body string) (time.Time, error) {
		var times []time.Time
		for _, h := range handlers {
			now, err := askClock(ctx, h, target.Key, body)
			if err != nil {
				return now, err
			}
			times = append(times, now)
		}
		return slices.MinFunc(times, time.Time.Compare), nil
	}
	target.Advance = advanceWith(callClocks)
	must.Do(callClocks(t.Context(), `{"stop":true}`))(t)
	for i, h := range handlers[1:] {
		must.Do(askClock(t.Context(), h, target.Key, fmt.Sprintf(`{"advance":%d}`, (i+1)*int(skew.Milliseconds()))))(t)
	}
	target.ClockStopped = true
	return target
}
