package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// localReport is that of run --local, which several tests compare with.
var localReport struct {
	once sync.Once
	report.Report
}

// sampled tells whether this is `make test`, which judges the clauses of sample. .ci/run
// judges all of them in its short run.
func sampled() bool { return testing.Short() && os.Getenv("CI") == "" }

func runLocal(t *testing.T) *report.Report {
	t.Helper()
	localReport.once.Do(func() {
		selected := "*"
		if sampled() {
			selected = sample
		}
		cmd := command(t, "run", "--local", "--json=report.json", "--select="+selected)
		said := runExpecting(t, cmd, 0)
		if !strings.Contains(said, "conformant") || strings.Contains(said, "\x1b") {
			t.Errorf("said %s", said)
		}
		readReport(t, cmd.Dir, &localReport.Report)
	})
	return &localReport.Report
}

func readReport(t *testing.T, dir string, r *report.Report) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
}

// sample are the clauses that are judged remotely with -short: of each API, with
// webhooks, waits, and what is for targets for tests alone.
const sample = "JOB,OPS,WEB,AUT,V,R,VER"

// A run against the address of a jobrunner, with all allowed, says of each clause
// what run --local says, but for what it has to leave out: cases that are for
// targets for tests alone (they would load or cost a deployment that others use),
// those that wait for longer than anybody would, and, on the wall's clock, those
// that wait for longer than this test.
func TestRemoteRunsLikeLocal(t *testing.T) {
	longest, selected := "--max-wait=17s", "*"
	if testing.Short() {
		longest, selected = "--max-wait=4s", sample
	}
	for name, c := range map[string]struct {
		jobrunner local.Config
		flags     []string
		leaves    []string // codes and reasons of what is left out
		least     int      // clauses that are judged of all
	}{
		"on the wall's clock": {local.Config{RealClock: true}, []string{longest, "--parallel=64"}, []string{report.SkipBudget, "advanced"}, 150},
		"with a clock that is advanced": {
			local.Config{RealClock: true, Args: []string{"--clock=admin"}}, []string{"--advance"}, nil, 230,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]report.Verdict{}
			for _, x := range runLocal(t).Results {
				want[x.Clause] = x.Verdict
			}
			c.jobrunner.Binary = filepath.Join(filepath.Dir(binary), "jobrunner")
			d, err := local.Start(t.Context(), c.jobrunner)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Stop()
			run := func(selected string, codes ...int) (said string, got report.Report) {
				cmd := command(t, slices.Concat([]string{"run", "--base-url=" + d.Target.BaseURL, "--allow=create,queue,load,spend", "--max-requests=0", "--max-seconds=1e7", "--json=report.json", "--select=" + selected}, c.flags)...)
				cmd.Env = append(cmd.Env, "GPUCLOUD_API_KEY="+d.Target.Key, "GPUCLOUD_OTHER_API_KEY="+d.Target.OtherKey, "GPUCLOUD_USER_API_KEY="+d.Target.UserKey)
				said = runExpecting(t, cmd, codes...)
				readReport(t, cmd.Dir, &got)
				return said, got
			}
			said, got := run(selected, 0, 3) // 3: this machine was too busy for some
			judgeAgain(&got, want, run)
			judged := 0
			for _, x := range got.Results {
				switch {
				case x.Verdict == want[x.Clause]:
				case x.Verdict == report.Skip && (x.Code == report.SkipBudget && slices.Contains(c.leaves, report.SkipBudget) ||
					x.Code == report.SkipFeature && (strings.Contains(x.Reason, "needs a local target") || slices.Contains(c.leaves, "advanced") && strings.Contains(x.Reason, "clock that can be advanced"))):
					continue
				default:
					t.Errorf("run --local says %s, this run %s", want[x.Clause], report.Text(x))
				}
				if x.Verdict != report.Skip {
					judged++
				}
			}
			if least := c.least * len(got.Results) / len(clauses.All()); judged < least || len(got.Leaked) > 0 {
				t.Errorf("%d clauses are judged, left %v:\n%s", judged, got.Leaked, said)
			}
		})
	}
}

// judgeAgain judges clauses once more that this machine was too busy for: time passes
// in a remote run while it waits for a processor, and the suite says so.
func judgeAgain(got *report.Report, want map[string]report.Verdict, run func(selected string, codes ...int) (string, report.Report)) {
	var clauses []string
	for _, x := range got.Results {
		if x.Verdict == report.Inconclusive && want[x.Clause] != report.Inconclusive {
			clauses = append(clauses, x.Clause)
		}
	}
	if clauses == nil {
		return
	}
	_, second := run(strings.Join(clauses, ","), 0, 1, 3)
	for _, y := range second.Results {
		for i, x := range got.Results {
			if x.Clause == y.Clause {
				got.Results[i] = y
			}
		}
	}
}

// A clock that can't be advanced is told of, and waited on by nobody.
func TestClockThatCannotBeAdvanced(t *testing.T) {
	url := serves(t, nil)
	said := runExpecting(t, command(t, "run", "--base-url="+url, "--select=SUB-27", "--allow=create,queue", "--advance"), 3)
	if !strings.Contains(said, "clock can't be advanced") || !strings.Contains(said, "--clock=admin") {
		t.Errorf("said %s", said)
	}
}
