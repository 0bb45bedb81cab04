package selftest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/gotest"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// judge runs the suite, and fails the test if it can't start.
func judge(t *testing.T, o conformance.Options) *report.Report {
	t.Helper()
	return must.Do(conformance.Judge(t.Context(), o))(t)
}

func verdicts(r *report.Report) map[string]report.Verdict {
	byClause := map[string]report.Verdict{}
	for _, x := range r.Results {
		byClause[x.Clause] = x.Verdict
	}
	return byClause
}

// gotest.Run judges a deployment from a Go test.
func TestRunFromGo(t *testing.T) {
	r := gotest.Run(t, startDeployment(t, nil), func(o *conformance.Options) { o.Select = []string{"JOB-17", "LIM-11"} })
	must.Equal(t, r.Counts[report.Pass], 2, r.Counts)
}

// If the endpoint doesn't exist, a note says so, and the cases that need it are skipped. Others run.
func TestUnknownEndpointIsNoted(t *testing.T) {
	target := startDeployment(t, nil)
	target.Endpoint, target.Local = "nonsense", false
	r := judge(t, conformance.Options{Target: target, Select: []string{"VER-38", "JOB-01"}})
	must.Equal(t, verdicts(r)["JOB-01"], report.Skip, "JOB-01")
	must.Hold(t, len(r.Notes) == 2 && strings.Contains(r.Notes[0], "/v2/nonsense/health returned 404") && strings.Contains(r.Notes[1], "no endpoint has the id nonsense") &&
		r.Exit == conformance.ExitConformant, r.Notes, "with exit code", r.Exit)
}

// A version of the management API that isn't served isn't judged, and a note says so.
func TestVersionThatIsNotServed(t *testing.T) {
	for missing, served := range map[string]string{"v1": "VER-38", "v2": "VER-01"} {
		judgeWith := func(stub string) *report.Report {
			target := startDeployment(t, intercept(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/"+missing+"/") }, stubHandlers[stub]))
			target.Local, target.FindVersions = false, true
			return judge(t, conformance.Options{Target: target, Select: []string{"VER-01", "VER-38"}})
		}
		r := judgeWith("404")
		must.Hold(t, verdicts(r)[served] == report.Pass && r.Counts[report.Skip] == 1 && strings.Contains(strings.Join(r.Notes, ""), "set --api-version "+missing), "without", missing, "the verdicts are", r.Counts, "and the notes", r.Notes)
		r = judgeWith("200 HTML")
		must.Hold(t, r.Counts[report.Skip] == 0 && strings.Contains(strings.Join(r.Notes, ""), "if the deployment doesn't have it, set --api-version"), "with web pages instead of", missing, "the verdicts are", r.Counts, "and the notes", r.Notes)
	}
	health := http.NewServeMux() // the notes about both versions have a fixed order
	health.HandleFunc("/v2/e/health", fixedAnswer(200, "application/json", `{"jobs":{}}`))
	r := judge(t, conformance.Options{Target: conformance.Target{BaseURL: startServer(t, health), Endpoint: "e", Key: "k", FindVersions: true}, Select: []string{"VER-01"}})
	must.Contain(t, strings.Join(r.Notes, "\n"), "set --api-version v1\nversion 2 of the management API isn't judged")
}

// A run against a target that can't be judged ends soon, with the reason in one line.
func TestTargetIsDown(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hanging.Close()
	moved := httptest.NewServer(http.RedirectHandler("https://elsewhere.example/", http.StatusFound))
	defer moved.Close()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer locked.Close()
	untrusted := httptest.NewTLSServer(nil)
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer untrusted.Close()
	for url, want := range map[string]string{
		untrusted.URL: "set SSL_CERT_FILE", strings.Replace(untrusted.URL, "127.0.0.1", "localhost", 1): "not localhost$",
		closed.URL: "connection refused", hanging.URL: "no answer within", "http://name.invalid": "unreachable",
		moved.URL: "redirects to https://elsewhere.example/", locked.URL: "refuses the key of GPUCLOUD_API_KEY: 401",
	} {
		start := time.Now()
		r := judge(t, conformance.Options{Target: conformance.Target{BaseURL: url, Key: "the-key"}})
		took := time.Since(start)
		must.Hold(t, took <= time.Minute && strings.Contains(r.Preflight+"$", want) && !strings.Contains(r.Preflight, "\n") && r.Exit == conformance.ExitInconclusive, url, r.Preflight, "with exit code", r.Exit, "after", took)
		for _, x := range r.Results {
			must.Hold(t, x.Verdict != report.Pass && x.Verdict != report.Observed, url, x.Clause, "has the verdict", x.Verdict)
		}
	}
}

func TestReportHasNoSecret(t *testing.T) {
	// Most cases fail, so the report has many answers.
	target := startDeployment(t, intercept(pathHas("/status/"), func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		fmt.Fprintf(w, `{"error":%q}`, r.Header.Get("Authorization"))
	}))
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB", "AUT", "SUB-22"}})
	must.Hold(t, r.Counts[report.Fail] != 0 && r.Exit == conformance.ExitFailed, r.Counts, "exit code", r.Exit)
	text := must.Do(json.Marshal(r))(t)
	var terminal strings.Builder
	report.Terminal(&terminal, r, false)
	for _, secret := range []string{target.Key, target.OtherKey, target.UserKey, "planted-"} {
		must.Hold(t, !strings.Contains(string(text)+terminal.String(), secret), secret, "is in the report")
	}
	must.Hold(t, strings.Contains(terminal.String(), "curl -sS") && strings.Contains(terminal.String(), "$GPUCLOUD_API_KEY"),
		"the report has no command to repeat a failure:", &terminal)
}

// A listed deviation doesn't fail the run, but a listed clause that passes does.
func TestKnownDeviations(t *testing.T) {
	broken := intercept(func(r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/update") && bytes.Contains(body, []byte("11"))
	}, teapot)
	parse := func(lines string) conformance.Known {
		t.Helper()
		return must.Do(conformance.ParseKnown(lines))(t)
	}
	for _, c := range []struct {
		lines string
		wrap  func(http.Handler) http.Handler
		exit  int
		want  report.Verdict
	}{
		{"", broken, 1, report.Fail},
		{"V-05 2999-01-01 it is smaller", broken, 0, report.Known},
		{"V-05 2001-01-01 it is a teapot", broken, 1, report.Fail},
		{"V-05 2999-01-01 it is a teapot", nil, 1, report.Unexpected},
		{"", nil, 0, report.Pass},
	} {
		r := judge(t, conformance.Options{Target: startDeployment(t, c.wrap), Select: []string{"V-05"}, Known: parse(c.lines)})
		got := verdicts(r)["V-05"]
		must.Hold(t, got == c.want && r.Exit == c.exit, "with the list", c.lines, "V-05 is", got, "not", c.want, "and the exit code", r.Exit, "expected", c.exit)
	}
	remote := startDeployment(t, nil)
	remote.Local, remote.Advance = false, nil // AUT-10-every is skipped
	r := judge(t, conformance.Options{Target: remote, Select: []string{"AUT-10"}, Allow: suite.Create, Known: parse("AUT-10 2999-01-01 no JSON")})
	must.Hold(t, verdicts(r)["AUT-10"] == report.Pass && r.Exit == 0, "AUT-10, partly judged, is", verdicts(r)["AUT-10"], "and the exit code", r.Exit)
	for _, lines := range []string{"V-05", "V-05 tomorrow it is a teapot", "V-99 2999-01-01 x", "V-05 2999-01-01 x\nV-05 2999-01-01 y"} {
		must.Hold(t, must.Err(conformance.ParseKnown(lines)) != nil, "the invalid list", lines, "is accepted")
	}
}

// A failure that reruns don't reproduce is inconclusive, with the share of failed runs.
func TestFlakyFailure(t *testing.T) {
	var calls atomic.Int64
	target := startDeployment(t, intercept(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/cancel/") && calls.Add(1) == 1 }, teapot))
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-17"}, Reruns: 2})
	x := r.Results[0]
	must.Hold(t, x.Verdict == report.Inconclusive && x.Repeats == "1/3" && r.Exit == conformance.ExitInconclusive, "expected INCONCLUSIVE 1/3, got", x.Verdict, x.Repeats, "with exit code", r.Exit)
}

// A run that leaves an object has its own exit code and names it, even if both versions answer 404.
func TestHiddenObjectIsReported(t *testing.T) {
	acctest.LeaveToCI(t, "cmd/conformance.TestFailsAndLeaks tests an object that can't be deleted")
	for name, alwaysHidden := range map[string]bool{"while it is used": false, "always": true} {
		var used atomic.Bool
		used.Store(true)
		target := startDeployment(t, intercept(func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/templates/") && (alwaysHidden || used.Load())
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				used.Store(false) // the second attempt can delete the template
			}
			stubHandlers["404"](w, r)
		}))
		target.Local, target.Advance = false, nil
		r := judge(t, conformance.Options{Target: target, Select: []string{"T-01"}, Allow: suite.Create})
		if alwaysHidden != (len(r.Leaked) == 1 && r.Exit == conformance.ExitLeaked && strings.Contains(r.Leaked[0], "/v1/templates/")) || !alwaysHidden && r.Exit != 0 {
			t.Errorf("%s: exit code %d, %v, not deleted %v", name, r.Exit, r.Counts, r.Leaked)
		}
	}
}

// Without --allow a run only reads, with at most 300 requests. Its plan has at most 400, fewer than the default limit of 500.
func TestDefaultRunOnlyReads(t *testing.T) {
	var requests atomic.Int64
	var settingUp atomic.Bool
	target := startDeployment(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			requests.Add(1)
			must.Hold(t, r.Method == http.MethodGet || answer.Code/100 != 2 || settingUp.Load(), r.Method, r.URL.Path, "is answered", answer.Code)
			forward(w, answer)
		})
	})
	settingUp.Store(true)
	target.Endpoint = createEndpoint(t, target)
	settingUp.Store(false)
	requests.Store(0)
	target.Local, target.Advance, target.UserKey, target.OtherKey = false, nil, "", ""
	o := conformance.Options{Target: target}
	plan := must.Do(conformance.Plan(o))(t)
	r := judge(t, o)
	must.Hold(t, r.Exit == 0 && r.Jobs <= 0 && plan.Jobs <= 0, "exit code", r.Exit, r.Counts, r.Jobs, "jobs")
	if n := requests.Load(); n > 300 || plan.Requests > 400 || int(n) > plan.Requests {
		t.Errorf("%d requests, planned up to %d", n, plan.Requests)
		for _, x := range r.Results {
			t.Log(x.Case, x.Requests)
		}
	}
}

// createEndpoint creates an endpoint of the suite's handler with one worker, and returns its id.
func createEndpoint(t *testing.T, target conformance.Target) string {
	t.Helper()
	request := wire.NewRequest(http.MethodPost, target.BaseURL+"/v2/serverless", target.Key, `{"name":"e","image":"builtin/conformance","workers":{"max":1}}`)
	x := wire.Do(context.Background(), cmp.Or(target.Client, http.DefaultClient), request, time.Now)
	var body struct{ ID string }
	err := json.Unmarshal(x.Body, &body)
	must.Require(t, err == nil && body.ID != "", "can't create an endpoint:", x.Status, x.Err, err)
	return body.ID
}

// A clause isn't violated because of the dialect, the served versions or the form of the key.
func TestConformingTargets(t *testing.T) {
	const key = "1234567890123456" // has no letters
	digits := startDeployment(t, intercept(func(r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+key {
			r.Header.Set("Authorization", "Bearer the-key-of-the-suite")
		}
		return false
	}, nil))
	digits.Key = key
	live, onlyV1 := startDeployment(t, nil), startDeployment(t, nil)
	live.Live, live.QueueURL, onlyV1.NoV2 = true, live.BaseURL+"/live", true
	for clause, c := range map[string]struct {
		target conformance.Target
		want   report.Verdict
	}{"AUT-08": {digits, report.Pass}, "JOB-46": {live, report.Pass}, "BIL-07": {onlyV1, report.Skip}} {
		r := judge(t, conformance.Options{Target: c.target, Select: []string{clause}})
		must.Equal(t, verdicts(r)[clause], c.want, report.Text(r.Results[0]))
	}
}

// A clause is judged if at least one of its cases can run. Otherwise it is skipped.
func TestSupplementaryCasesMaySkip(t *testing.T) {
	target := startDeployment(t, nil)
	target.Local, target.Advance, target.ClockStopped = false, nil, false
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-17", "SUB-27", "RAT-06", "RAT-08"}, Allow: ^conformance.Permission(0), Ledger: t.TempDir() + "/ledger"})
	got := verdicts(r)
	must.Hold(t, got["JOB-17"] == report.Pass && got["SUB-27"] == report.Skip && got["RAT-06"] == report.Pass && got["RAT-08"] == report.Pass, "expected a skip of SUB-27 and three passes, got", got)
}
