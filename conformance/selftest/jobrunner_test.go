package selftest_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// runsVariable is the environment variable with the number of runs to compare. make soak
// sets it to 100.
const runsVariable = "CONFORMANCE_RUNS"

// The jobrunner keeps every MUST and SHOULD of the operations that it serves, in any order
// and with any number of concurrent cases. Both programs are separate processes.
func TestJobrunnerConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares several runs, and TestLocal of cmd/conformance is such a run")
	}
	runs := 3
	if text := os.Getenv(runsVariable); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", runsVariable, err)
		}
	}
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
		must.Hold(t, err == nil && decodeErr == nil, "run", i+1, parallel, "at a time", err, decodeErr)
		expectConformant(t, &r, 100)
		if first == nil {
			first = verdicts(&r)
		}
		for clause, v := range verdicts(&r) {
			must.Equal(t, v, first[clause], "run", i+1, parallel, "at a time", clause, "and was")
		}
	}
}

// A clause has the same verdict alone and together with all others, so no case depends on
// others that advance the clock.
func TestEachClauseAlone(t *testing.T) {
	judged := map[string]bool{}
	for _, c := range conformance.Cases() {
		for _, clause := range c.AllClauses() {
			judged[clause] = true
		}
	}
	step := 1
	switch {
	case acctest.IsSample():
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
			if expectNoFailure(t, r); r.Exit != conformance.ExitConformant && r.Exit != conformance.ExitInconclusive || len(r.Leaked) > 0 {
				t.Errorf("exit code %d, leaked %v", r.Exit, r.Leaked)
			}
		})
	}
}

// The jobrunner also conforms in this process, where the race detector sees both sides.
// Cases that load the deployment are left out. `make test` judges a fifth of the clauses that
// TestLocal of cmd/conformance doesn't judge there.
func TestJobrunnerConformsInProcess(t *testing.T) {
	elsewhere := strings.Split(acctest.SampledAreas, ",")
	var selected []string
	for i, c := range conformance.Cases() {
		area, _, _ := strings.Cut(c.ID, "-")
		sampled := !acctest.IsSample() || i%5 == 0 && !slices.Contains(elsewhere, area)
		if c.Allow&suite.Load == 0 && sampled {
			selected = append(selected, c.AllClauses()...)
		}
	}
	expectConformant(t, judge(t, conformance.Options{Target: startDeployment(t, nil), Select: selected}), len(selected)/4)
}

// expectConformant fails the test if a clause isn't kept, if a case sends more requests
// than it declares, and if fewer clauses than minPassed pass.
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
