package selftest_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// inBubble runs a test in virtual time, with a jobrunner in memory.
func inBubble(t *testing.T, test func(t *testing.T, target conformance.Target)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := must.Do(jobrunner.New(context.Background(), jobrunner.Config{APIKey: "the-key-of-the-suite"}))(t)
		client, stop := serveInMemory(j.Handler())
		test(t, conformance.Target{BaseURL: "http://jobrunner", Key: "the-key-of-the-suite", Client: client, Virtual: true, Unserved: conformance.Unserved()})
		stop()
		must.Succeed(t, j.Close())
		time.Sleep(time.Second) // lets goroutines end that a refused body left asleep
	})
}

// If target and suite share a bubble of virtual time, the suite only sleeps and doesn't
// advance the target's clock.
func TestInVirtualTime(t *testing.T) {
	acctest.LeaveToCI(t, "TestJobrunnerConformsInProcess judges the same cases with a stopped clock")
	inBubble(t, func(t *testing.T, target conformance.Target) {
		target.Local = true
		r := judge(t, conformance.Options{Target: target, Select: []string{"JOB", "SUB", "OPS", "LIM-1*", "V", "T", "R"}})
		expectNoFailure(t, r)
		must.Hold(t, r.Counts[report.Pass] >= 100 && time.Duration(r.Duration) >= 7*24*time.Hour, r.Counts, time.Duration(r.Duration))
	})
}

// Cases that wait for half an hour are deferred. A second run, which has only the saved state,
// judges them.
func TestDeferredCases(t *testing.T) {
	for _, wait := range []time.Duration{28 * time.Minute, 10 * time.Hour} {
		inBubble(t, func(t *testing.T, target conformance.Target) {
			ledger := t.TempDir() + "/ledger"
			var state conformance.State
			before := judge(t, conformance.Options{
				Target: target, Select: []string{"LIM-11", "LIM-12", "JOB-17"}, Allow: ^conformance.Allow(0), Defer: &state, Ledger: ledger,
			})
			if got := verdicts(before); got["LIM-11"] != report.Skip || got["LIM-12"] != report.Skip || got["JOB-17"] != report.Pass || before.Exit != 0 {
				t.Fatalf("%v, exit code %d", got, before.Exit)
			}
			due := time.Until(state.Due())
			must.Hold(t, due >= 25*time.Minute && due <= 35*time.Minute, "due in", due)
			text := must.Do(json.Marshal(state))(t)
			time.Sleep(wait)
			var restored conformance.State
			must.Succeed(t, json.Unmarshal(text, &restored))
			after := judge(t, conformance.Options{
				Target: target, Select: restored.Select(), Allow: ^conformance.Allow(0), Defer: &restored, Ledger: ledger,
			})
			conformance.Merge(before, after)
			want := report.Pass
			if wait > time.Hour {
				want = report.Inconclusive // the run resumed after the time of the check
			}
			if got := verdicts(before); got["LIM-11"] != want || got["LIM-12"] != report.Pass || got["JOB-17"] != report.Pass || len(before.Leaked) > 0 {
				t.Errorf("after %s: %v, leaked %v", wait, got, before.Leaked)
				for _, x := range before.Results {
					t.Log(report.Text(x))
				}
			}
			must.Equal(t, restored.Journals, nil, "a case is still deferred")
		})
	}
}
