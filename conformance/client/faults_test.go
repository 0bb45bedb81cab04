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
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
)

// faults are clients with one fault each: the scenario in which it shows, and
// the clause that must notice it, alone.
var faults = []struct{ fault, scenario, clause string }{
	{"sends a bare key", "works", "CLI-01"},
	{"sends no key for jobs", "works", "CLI-01"},
	{"gives up at 429", "rate-limit", "CLI-02"},
	{"gives up at 429", "retry-after", "CLI-02"},
	{"does not wait", "rate-limit", "CLI-02"},
	{"ignores Retry-After", "retry-after", "CLI-02"},
	{"receives badly", "works", "CLI-03"},
	{"asks for a shrink", "shrink", "CLI-04"},
	{"replaces by a smaller volume", "shrink", "CLI-04"},
	{"tells no taken name", "name-taken", "CLI-05"},
	{"tells no retirement", "retired", "CLI-06"},
	{"repeats creations", "create-error", "CLI-07"},
	{"repeats creations", "create-lost", "CLI-07"},
	{"looks and repeats what is there", "create-lost", "CLI-07"},
	{"repeats 400", "bad-request", "CLI-08"},
	{"repeats 401", "echo", "CLI-08"},
	{"repeats 403", "forbidden", "CLI-08"},
	{"repeats refused reads", "forbidden", "CLI-08"},
	{"polls what is gone", "job-expired", "CLI-09"},
	{"takes what is gone for done", "job-expired", "CLI-09"},
	{"polls what is cancelled", "job-cancelled", "CLI-10"},
	{"takes cancelled for done", "job-cancelled", "CLI-10"},
	{"prints the key", "works", "CLI-11"},
	{"prints the key encoded", "works", "CLI-11"},
	{"repeats what the server says", "echo", "CLI-11"},
	{"sends the key in the address", "works", "CLI-11"},
}

// jobrunner is the jobrunner's binary, which is built once.
var jobrunner = sync.OnceValues(func() (string, error) {
	return filepath.Join(binaries, "jobrunner"), gobuild.Programs(context.Background(), binaries, "../../cmd/jobrunner")
})

func judgeClient(t *testing.T, o Options) *report.Report {
	t.Helper()
	var err error
	if o.Jobrunner, err = jobrunner(); err != nil {
		t.Fatal(err)
	}
	r, err := Judge(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// judged runs the suite on a client in the chosen scenarios.
func judged(t *testing.T, command []string, selected ...string) *report.Report {
	t.Helper()
	r := judgeClient(t, Options{Command: command, Select: selected})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`\b[A-Z2-7]{26}\b`).Match(text) {
		t.Errorf("the report shows the key: %s", text)
	}
	return r
}

// having are the clauses of a verdict.
func having(r *report.Report, verdicts ...report.Verdict) (ids []string) {
	for _, x := range r.Results {
		if slices.Contains(verdicts, x.Verdict) {
			ids = append(ids, x.Clause)
		}
	}
	return ids
}

func printed(r *report.Report) string {
	var b strings.Builder
	report.Terminal(&b, r, false)
	return b.String()
}

// Each fault is noticed, by the clause that it offends and by no other.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.fault+" in "+f.scenario, func(t *testing.T) {
			t.Parallel()
			r := judged(t, as(t, "sample", f.fault), f.scenario)
			if got := having(r, report.Fail, report.Warn, report.Inconclusive); !slices.Equal(got, []string{f.clause}) {
				t.Errorf("noticed by %v, not by %s:\n%s", got, f.clause, printed(r))
			}
			c, _ := clauses.Find(f.clause)
			want := 0
			if c.Level == suite.Must {
				want = 1
			}
			if r.Exit != want {
				t.Errorf("exit %d, want %d", r.Exit, want)
			}
			for _, x := range r.Results {
				if x.Clause == f.clause && (x.Failure == nil || x.Failure.Actual == "" || len(x.Failure.Accepted) == 0 || x.Case != f.scenario || len(x.Trace) == 0) {
					t.Errorf("%+v lacks the actual request, the steps or what was accepted", x)
				}
			}
		})
	}
}

// A client without a fault keeps every clause, and one that settles what became
// of a creation may repeat it, as may one that deletes what the creation made.
func TestNoFault(t *testing.T) {
	for _, fault := range []string{"none", "looks and repeats what is missing", "deletes what was made and repeats"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := judged(t, as(t, "sample", fault))
			for tries := 1; len(having(r, report.Inconclusive)) > 0 && tries < 4; tries++ {
				r = judged(t, as(t, "sample", fault)) // a busy machine made its first wait long
			}
			if got := having(r, report.Pass); len(got) != len(r.Results) || r.Exit != 0 {
				t.Errorf("exit %d, and only %v are passed:\n%s", r.Exit, got, printed(r))
			}
		})
	}
}

// The client of the provider does so with jobs, too.
func TestJobsOfOurClient(t *testing.T) {
	t.Parallel()
	r := judged(t, as(t, "jobs"))
	want := []string{"CLI-01", "CLI-02", "CLI-07", "CLI-08", "CLI-09", "CLI-10", "CLI-11"}
	if got := having(r, report.Pass); !slices.Equal(got, want) || r.Exit != 0 {
		t.Errorf("exit %d, and %v are passed, not %v:\n%s", r.Exit, got, want, printed(r))
	}
}

// Each clause about clients has a scenario, and a client that offends it.
func TestEveryClauseIsJudged(t *testing.T) {
	t.Parallel()
	judging, offended := map[string]bool{}, map[string]bool{}
	for _, s := range Scenarios() {
		for _, c := range s.Clauses {
			judging[c] = true
			if _, ok := clauses.Find(c); !ok {
				t.Errorf("scenario %s judges %s, and there is no such clause", s.ID, c)
			}
		}
	}
	for _, f := range faults {
		offended[f.clause] = true
	}
	for _, c := range clauses.All() {
		if c.Area() == Area && (!judging[c.ID] || !offended[c.ID]) {
			t.Errorf("%s has no scenario, or no client offends it", c.ID)
		}
	}
}

// What a client gives no occasion for is skipped, with the reason.
func TestUnusedIsSkipped(t *testing.T) {
	t.Parallel()
	r := judged(t, as(t, "reader", "{base_url}/{api_version}/templates"), "works", "create-lost", "shrink", "name-taken", "job-expired", "job-cancelled")
	for _, x := range r.Results {
		switch x.Clause {
		case "CLI-01", "CLI-11":
			if x.Verdict != report.Pass {
				t.Errorf("%s: %s %s", x.Clause, x.Verdict, x.Reason)
			}
		default:
			if x.Verdict != report.Skip || x.Reason == "" || x.Code != report.SkipFeature {
				t.Errorf("%s: %s %q", x.Clause, x.Verdict, x.Reason)
			}
		}
	}
	if r.Exit != 0 {
		t.Errorf("exit %d", r.Exit)
	}
}

// A shrink that fails for another reason proves nothing.
func TestShrinkThatProvesNothing(t *testing.T) {
	t.Parallel()
	r := judged(t, as(t, "sample", "fails for another reason"), "shrink")
	if got := having(r, report.Inconclusive); !slices.Equal(got, []string{"CLI-04"}) || r.Exit != 3 {
		t.Errorf("exit %d:\n%s", r.Exit, printed(r))
	}
}

// A client that never comes is told so.
func TestNoRequest(t *testing.T) {
	t.Parallel()
	r := judged(t, []string{"sh", "-c", "echo I am no client; exit 7"})
	if r.Exit != 3 || !strings.Contains(r.Preflight, "GPUCLOUD_BASE_URL") || !strings.Contains(r.Preflight, "exit code 7; its last output:\nI am no client") {
		t.Errorf("exit %d: %s", r.Exit, r.Preflight)
	}
	if got := having(r, report.Pass); got != nil {
		t.Errorf("%v are passed", got)
	}
}

// Where the key does not come, nothing that needs it can be judged.
func TestBlockedByTheKey(t *testing.T) {
	t.Parallel()
	r := judged(t, as(t, "sample", "sends no key for jobs"), "CLI-03", "CLI-01")
	if got := having(r, report.Blocked); !slices.Equal(got, []string{"CLI-03"}) {
		t.Errorf("blocked: %v\n%s", got, printed(r))
	}
}

// --strict judges a SHOULD as a MUST.
func TestStrict(t *testing.T) {
	t.Parallel()
	r := judgeClient(t, Options{Command: as(t, "sample", "repeats 403"), Select: []string{"forbidden"}, Strict: true})
	if r.Exit != 1 || !slices.Equal(having(r, report.Fail), []string{"CLI-08"}) {
		t.Errorf("%+v", r)
	}
}

// A client that hangs is judged by what it did until then.
func TestTimeout(t *testing.T) {
	t.Parallel()
	r := judgeClient(t, Options{Command: []string{"sleep", "60"}, Select: []string{"shrink"}, Timeout: 50 * time.Millisecond})
	if r.Exit != 3 || !strings.Contains(r.Preflight, "did not end in time") {
		t.Errorf("%+v", r)
	}
}
