package client

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// faults are clients with one fault, its scenario, and the only clause that must detect it.
var faults = []struct{ fault, scenario, clause string }{
	{"sends a bare key", "works", "CLI-01"},
	{"sends no key for jobs", "works", "CLI-01"},
	{"gives up at 429", "rate-limit", "CLI-02"},
	{"gives up at 429", "retry-after", "CLI-02"},
	{"does not wait", "rate-limit", "CLI-02"},
	{"ignores Retry-After", "retry-after", "CLI-02"},
	{"rejects its webhook", "works", "CLI-03"},
	{"requests a shrink", "shrink", "CLI-04"},
	{"replaces a volume with a smaller one", "shrink", "CLI-04"},
	{"creates a smaller volume and deletes the old one", "shrink", "CLI-04"},
	{"doesn't mention the taken name", "name-taken", "CLI-05"},
	{"doesn't warn of the retirement", "retired", "CLI-06"},
	{"repeats creations", "create-error", "CLI-07"},
	{"repeats creations", "create-lost", "CLI-07"},
	{"lists and repeats although the object exists", "create-lost", "CLI-07"},
	{"repeats 400", "bad-request", "CLI-08"},
	{"repeats 401", "echo", "CLI-08"},
	{"repeats 403", "forbidden", "CLI-08"},
	{"repeats refused reads", "forbidden", "CLI-08"},
	{"polls an expired job", "job-expired", "CLI-09"},
	{"treats an expired job as completed", "job-expired", "CLI-09"},
	{"polls a cancelled job", "job-cancelled", "CLI-10"},
	{"treats a cancelled job as completed", "job-cancelled", "CLI-10"},
	{"prints the key", "works", "CLI-11"},
	{"prints the key encoded", "works", "CLI-11"},
	{"prints the server's error", "echo", "CLI-11"},
	{"sends the key in the address", "works", "CLI-11"},
	{"sends the key in another header", "works", "CLI-11"},
	{"sends the key in the body", "works", "CLI-11"},
}

// jobrunner builds the jobrunner once and returns its path.
var jobrunner = sync.OnceValues(func() (string, error) {
	return filepath.Join(binaries, "jobrunner"), gobuild.Programs(context.Background(), binaries, "../../cmd/jobrunner")
})

func judgeClient(t *testing.T, o Options) *report.Report {
	t.Helper()
	o.Jobrunner = must.Do(jobrunner())(t)
	return must.Do(Judge(t.Context(), o))(t)
}

// judgeWithoutLeak judges a client in the selected scenarios, and fails if the report has the key.
func judgeWithoutLeak(t *testing.T, command []string, selected ...string) *report.Report {
	t.Helper()
	r := judgeClient(t, Options{Command: command, Select: selected})
	text := must.Do(json.Marshal(r))(t)
	must.Hold(t, !regexp.MustCompile(`\b[A-Z2-7]{26}\b`).Match(text), "the report shows the key", string(text))
	return r
}

// clausesWith returns the clauses with one of the verdicts.
func clausesWith(r *report.Report, verdicts ...report.Verdict) (ids []string) {
	for _, x := range r.Results {
		if slices.Contains(verdicts, x.Verdict) {
			ids = append(ids, x.Clause)
		}
	}
	return ids
}

func terminalText(r *report.Report) string {
	var b strings.Builder
	report.Terminal(&b, r, false)
	return b.String()
}

// Each fault is detected by its clause, and by no other.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.fault+" in "+f.scenario, func(t *testing.T) {
			t.Parallel()
			r := judgeWithoutLeak(t, clientCommand(t, "sample", f.fault), f.scenario)
			must.Equal(t, clausesWith(r, report.Fail, report.Warn, report.Inconclusive), []string{f.clause},
				"detected by", f.clause, terminalText(r))
			c, _ := clauses.Find(f.clause)
			want := 0
			if c.Level == suite.Must {
				want = 1
			}
			must.Equal(t, r.Exit, want, "exit")
			for _, x := range r.Results {
				if x.Clause == f.clause && (x.Failure == nil || x.Failure.Actual == "" || len(x.Failure.Accepted) == 0 || x.Case != f.scenario || len(x.Trace) == 0) {
					t.Errorf("%+v lacks the actual behaviour, what was accepted, the scenario or the trace", x)
				}
			}
		})
	}
}

// A client without faults passes every clause, also if it repeats a creation of a missing or deleted object.
func TestNoFault(t *testing.T) {
	for _, fault := range []string{"none", "lists and repeats if the object is missing", "deletes the object and repeats"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := judgeWithoutLeak(t, clientCommand(t, "sample", fault))
			for tries := 1; len(clausesWith(r, report.Inconclusive)) > 0 && tries < 4; tries++ {
				r = judgeWithoutLeak(t, clientCommand(t, "sample", fault)) // on a busy machine its first wait may be too long
			}
			got := clausesWith(r, report.Pass)
			must.Hold(t, len(got) == len(r.Results) && r.Exit == 0, "exit", r.Exit, "and only", got, "pass:", terminalText(r))
		})
	}
}

// The provider's own client passes the clauses about jobs.
func TestJobsOfOurClient(t *testing.T) {
	t.Parallel()
	r := judgeWithoutLeak(t, clientCommand(t, "jobs"))
	want := []string{"CLI-01", "CLI-02", "CLI-07", "CLI-08", "CLI-09", "CLI-10", "CLI-11"}
	got := clausesWith(r, report.Pass)
	must.Hold(t, slices.Equal(got, want) && r.Exit == 0, "exit", r.Exit, got, "pass, not", want, terminalText(r))
}

// Each clause about clients has a scenario and a faulty client that violates it.
func TestEveryClauseIsJudged(t *testing.T) {
	t.Parallel()
	judging, violated := map[string]bool{}, map[string]bool{}
	for _, s := range Scenarios {
		for _, c := range s.Clauses() {
			judging[c] = true
			_, ok := clauses.Find(c)
			must.Hold(t, ok, "scenario", s.ID, "judges", c, "which doesn't exist")
		}
	}
	for _, f := range faults {
		violated[f.clause] = true
	}
	for _, c := range clauses.All() {
		must.Hold(t, c.Area() != Area || judging[c.ID] && violated[c.ID], c.ID, "has no scenario, or no client violates it")
	}
}

// A clause about a situation that did not occur is skipped, with the reason.
func TestUnusedClausesAreSkipped(t *testing.T) {
	t.Parallel()
	r := judgeWithoutLeak(t, clientCommand(t, "reader", "{base_url}/{api_version}/templates"), "works", "create-lost", "shrink", "name-taken", "job-expired", "job-cancelled")
	for _, x := range r.Results {
		switch x.Clause {
		case "CLI-01", "CLI-11":
			must.Equal(t, x.Verdict, report.Pass, x.Clause, x.Reason)
		default:
			must.Hold(t, x.Verdict == report.Skip && x.Reason != "" && x.Code == report.SkipFeature, x.Clause, "isn't skipped with a reason, but", x.Verdict, x.Code, x.Reason)
		}
	}
	must.Equal(t, r.Exit, 0, "exit")
}

// A shrink that fails for another reason is inconclusive.
func TestUnrelatedFailureIsInconclusive(t *testing.T) {
	t.Parallel()
	r := judgeWithoutLeak(t, clientCommand(t, "sample", "fails for another reason"), "shrink")
	got := clausesWith(r, report.Inconclusive)
	must.Hold(t, slices.Equal(got, []string{"CLI-04"}) && r.Exit == 3, "exit", r.Exit, terminalText(r))
}

// If requests lack the key, the clauses that need it are blocked.
func TestBlockedByTheKey(t *testing.T) {
	t.Parallel()
	r := judgeWithoutLeak(t, clientCommand(t, "sample", "sends no key for jobs"), "CLI-03", "CLI-01")
	must.Equal(t, clausesWith(r, report.Blocked), []string{"CLI-03"}, "blocked", terminalText(r))
}

// --strict judges a SHOULD as a MUST.
func TestStrict(t *testing.T) {
	t.Parallel()
	r := judgeClient(t, Options{Command: clientCommand(t, "sample", "repeats 403"), Select: []string{"forbidden"}, Strict: true})
	must.Hold(t, r.Exit == 1 && slices.Equal(clausesWith(r, report.Fail), []string{"CLI-08"}), "expected exit code 1 and a FAIL of CLI-08, got", r.Exit, terminalText(r))
}
