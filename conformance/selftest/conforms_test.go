package selftest_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
)

// runsVariable says how many runs are compared; make soak has a hundred.
const runsVariable = "CONFORMANCE_RUNS"

// The jobrunner keeps every MUST and SHOULD of what it serves, whatever the
// order, and alone or with others beside: both programs as their users have
// them.
func TestJobrunnerConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares several runs: TestLocal of cmd/conformance is one of them")
	}
	runs := 3
	if text := os.Getenv(runsVariable); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", runsVariable, err)
		}
	}
	dir := t.TempDir()
	if err := gobuild.Programs(t.Context(), dir, "../../cmd/..."); err != nil {
		t.Fatal(err)
	}
	var first map[string]report.Verdict
	for i := range runs {
		parallel := []int{8, 1, 16}[i%3]
		run := exec.CommandContext(t.Context(), filepath.Join(dir, "conformance"),
			"run", "--local", "--json=-", "--seed="+strconv.Itoa(i+1), "--parallel="+strconv.Itoa(parallel))
		text, err := run.Output()
		var r report.Report
		if e := json.Unmarshal(text, &r); err != nil || e != nil {
			t.Errorf("run %d, %d at a time: %v, %v", i+1, parallel, err, e)
		}
		keeps(t, &r)
		if first == nil {
			first = verdicts(&r)
		}
		for clause, v := range verdicts(&r) {
			if v != first[clause] {
				t.Errorf("run %d, %d at a time: %s is %s, and was %s", i+1, parallel, clause, v, first[clause])
			}
		}
	}
}

// A clause that is judged alone is judged as beside all others: no case lives on
// how far others advance the clock.
func TestEachClauseAlone(t *testing.T) {
	judged := map[string]bool{}
	for _, c := range conformance.Cases() {
		for _, clause := range c.AllClauses() {
			judged[clause] = true
		}
	}
	for i, clause := range slices.Sorted(maps.Keys(judged)) {
		if testing.Short() && i%16 != 0 {
			continue
		}
		t.Run(clause, func(t *testing.T) {
			t.Parallel()
			r := judge(t, conformance.Options{Target: deployed(t, nil), Select: []string{clause}})
			// A clause that is skipped ends with 3.
			if nothingFails(t, r); r.Exit != conformance.ExitConformant && r.Exit != conformance.ExitInconclusive || len(r.Leaked) > 0 {
				t.Errorf("exit code %d, left %v", r.Exit, r.Leaked)
			}
		})
	}
}

// The same in this process, where the race detector sees both sides: without the
// cases that load the deployment.
func TestJobrunnerConformsHere(t *testing.T) {
	var light []string
	for _, c := range conformance.Cases() {
		if c.Allow&suite.Load == 0 {
			light = append(light, c.AllClauses()...)
		}
	}
	keeps(t, judge(t, conformance.Options{Target: deployed(t, nil), Select: light}))
}

// keeps fails for what is not kept, and for a case that makes more requests than
// it says.
func keeps(t *testing.T, r *report.Report) {
	t.Helper()
	costs := map[string]int{}
	for _, c := range conformance.Cases() {
		costs[c.ID], _, _ = c.Cost()
	}
	for _, x := range r.Results {
		// The limits of concurrency may be found only after some more tries.
		if x.Requests > costs[x.Case] {
			t.Errorf("%s makes %d requests, and says up to %d", x.Case, x.Requests, costs[x.Case])
		}
	}
	if r.Exit != 0 || len(r.Leaked) > 0 || r.Counts[report.Pass] < 100 {
		t.Errorf("exit code %d, left %v, %v", r.Exit, r.Leaked, r.Counts)
	}
	nothingFails(t, r)
}

func nothingFails(t *testing.T, r *report.Report) {
	t.Helper()
	for _, x := range r.Results {
		switch x.Verdict {
		case report.Pass, report.Observed, report.Skip:
		default:
			t.Errorf("%s", report.Text(x))
		}
	}
}
