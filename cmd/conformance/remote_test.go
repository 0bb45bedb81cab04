package main_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// localReport is the report of run --local. Several tests compare their reports with it.
var localReport struct {
	once sync.Once
	report.Report
}

func runLocal(t *testing.T) *report.Report {
	t.Helper()
	localReport.once.Do(func() {
		selected := "*"
		if acctest.InMakeTest() {
			selected = acctest.SampledAreas
		}
		cmd := command(t, "run", "--local", "--json=report.json", "--select="+selected)
		output := runExpecting(t, cmd, 0)
		must.Hold(t, strings.Contains(output, "conformant") && !strings.Contains(output, "\x1b"), "output", output)
		readReport(t, cmd.Dir, &localReport.Report)
	})
	return &localReport.Report
}

func readReport(t *testing.T, dir string, r *report.Report) {
	t.Helper()
	must.Succeed(t, json.Unmarshal(must.ReadFile(t, filepath.Join(dir, "report.json")), r))
}

// A remote run of the jobrunner has the verdicts of run --local. Although everything is allowed, it leaves out
// cases that are only for test deployments (they would overload a shared deployment), cases that wait for days,
// and, in real time, cases that wait for longer than this test.
func TestRemoteRunsLikeLocal(t *testing.T) {
	acctest.LeaveToCI(t, "selftest.TestSupplementaryCasesMaySkip judges a remote deployment, too")
	maxWait, selected := "--max-wait=17s", "*"
	if testing.Short() {
		maxWait, selected = "--max-wait=4s", acctest.SampledAreas
	}
	for name, c := range map[string]struct {
		jobrunner local.Config
		flags     []string
		skips     []string // accepted skips: report.SkipBudget, or "advanced" for cases that advance the clock
		minJudged int      // judged clauses, if all are selected
	}{
		"in real time":           {local.Config{RealClock: true}, []string{maxWait, "--parallel=64"}, []string{report.SkipBudget, "advanced"}, 150},
		"with an advanced clock": {local.Config{RealClock: true, Args: []string{"--clock=admin"}}, []string{"--advance"}, nil, 230},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]report.Verdict{}
			for _, x := range runLocal(t).Results {
				want[x.Clause] = x.Verdict
			}
			c.jobrunner.Binary = filepath.Join(filepath.Dir(binary), "jobrunner")
			d := must.Do(local.Start(t.Context(), c.jobrunner))(t)
			defer d.Stop()
			run := func(selected string, codes ...int) (output string, got report.Report) {
				cmd := command(t, slices.Concat([]string{"run", "--base-url=" + d.Target.BaseURL, "--allow=create,queue,load,spend", "--max-requests=0", "--max-seconds=1e7", "--json=report.json", "--select=" + selected}, c.flags)...)
				cmd.Env = append(cmd.Env, "GPUCLOUD_API_KEY="+d.Target.Key, "GPUCLOUD_OTHER_API_KEY="+d.Target.OtherKey, "GPUCLOUD_USER_API_KEY="+d.Target.UserKey)
				output = runExpecting(t, cmd, codes...)
				readReport(t, cmd.Dir, &got)
				return output, got
			}
			output, got := run(selected, 0, 3) // 3 if this machine was too busy for some
			judgeAgain(&got, want, run)
			judged := 0
			for _, x := range got.Results {
				switch {
				case x.Verdict == want[x.Clause]:
				case x.Verdict == report.Skip && (x.Code == report.SkipBudget && slices.Contains(c.skips, report.SkipBudget) ||
					x.Code == report.SkipFeature && (strings.Contains(x.Reason, "needs a local target") || slices.Contains(c.skips, "advanced") && strings.Contains(x.Reason, "clock that can be advanced"))):
					continue
				default:
					t.Errorf("the verdict of run --local is %s, of this run %s", want[x.Clause], report.Text(x))
				}
				if x.Verdict != report.Skip {
					judged++
				}
			}
			minJudged := c.minJudged * len(got.Results) / len(clauses.All())
			must.Hold(t, judged >= minJudged && len(got.Leaked) == 0, judged, "clauses were judged, and these objects were left:", got.Leaked, output)
		})
	}
}

// judgeAgain repeats inconclusive clauses: time passes while a remote run waits for a processor.
func judgeAgain(got *report.Report, want map[string]report.Verdict, run func(selected string, codes ...int) (string, report.Report)) {
	var ids []string
	for _, x := range got.Results {
		if x.Verdict == report.Inconclusive && want[x.Clause] != report.Inconclusive {
			ids = append(ids, x.Clause)
		}
	}
	if ids == nil {
		return
	}
	_, repeated := run(strings.Join(ids, ","), 0, 1, 3)
	for _, y := range repeated.Results {
		for i, x := range got.Results {
			if x.Clause == y.Clause {
				got.Results[i] = y
			}
		}
	}
}

// If the clock can't be advanced, the run says so and doesn't wait.
func TestClockThatCannotBeAdvanced(t *testing.T) {
	url := serve(t, nil)
	must.Contain(t, runExpecting(t, command(t, "run", "--base-url="+url, "--select=SUB-27", "--allow=create,queue", "--advance"), 3), "clock can't be advanced", "--clock=admin")
}
