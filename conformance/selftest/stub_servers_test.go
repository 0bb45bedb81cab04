package selftest_test

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// stubHandlers answer every request in the same way.
var stubHandlers = map[string]http.HandlerFunc{
	"200 {}":   fixedAnswer(200, "application/json", "{}"),
	"200 []":   fixedAnswer(200, "application/json", "[]"),
	"202":      fixedAnswer(202, "application/json", "{}"),
	"204":      fixedAnswer(204, "", ""),
	"401":      fixedAnswer(401, "application/json", `{"error":"who are you?"}`),
	"404":      fixedAnswer(404, "application/json", `{"error":"there is nothing here"}`),
	"500":      fixedAnswer(500, "application/json", `{"error":"broken"}`),
	"200 HTML": fixedAnswer(200, "text/html; charset=utf-8", "<!doctype html><title>Welcome</title><p>It works!"),
	"echo": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	},
	"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"hangs up": func(w http.ResponseWriter, _ *http.Request) {
		if connection, _, err := w.(http.Hijacker).Hijack(); err == nil {
			connection.Close()
		}
	},
	// Codes that many cases accept.
	"400": fixedAnswer(400, "application/json", `{"error":"no","message":"no","title":"no","detail":"no","status":400}`),
	"429": fixedAnswer(429, "application/json", `{"error":"too many"}`),
}

var teapot = fixedAnswer(http.StatusTeapot, "", "")

func fixedAnswer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A run against a stub ends soon, with one line about the request with the wrong answer. No MUST passes.
func TestStubServers(t *testing.T) {
	for name, handler := range stubHandlers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := startServer(t, handler)
			for i, target := range []conformance.Target{
				{BaseURL: url, Key: "the-key", Local: true},
				{BaseURL: url, Key: "the-key"},
				{QueueURL: url, Key: "the-key", Endpoint: "our-endpoint"},
			} {
				if name == "hangs" && i > 0 {
					break // each run waits for a request to time out
				}
				began := time.Now()
				r := judge(t, conformance.Options{Target: target})
				took := time.Since(began)
				must.Hold(t, took <= 5*time.Minute, "the run takes", took)
				var output strings.Builder
				report.Terminal(&output, r, false)
				first, rest, _ := strings.Cut(output.String(), "\n")
				request := "GET " + url + "/"
				must.Hold(t, r.Exit == conformance.ExitInconclusive && strings.Contains(first, request) && rest == "", "exit code", r.Exit, "output", &output)
				must.Equal(t, passedMusts(r), nil, "clauses that pass")
			}
		})
	}
}

// passedMusts returns the MUSTs that passed.
func passedMusts(r *report.Report) (musts []string) {
	for _, x := range r.Results {
		if x.Verdict == report.Pass && x.Level == string(suite.Must) {
			musts = append(musts, x.Clause)
		}
	}
	return musts
}

// preflightServer answers the preflight and passes the rest on. With creates, it pretends to create and delete objects.
func preflightServer(rest http.Handler, creates bool) http.Handler {
	var created atomic.Int64
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	mux.Handle("/", rest)
	mux.HandleFunc("GET /v2/{endpoint}/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{
			"jobs":    map[string]any{"completed": 0, "failed": 0, "inProgress": 0, "inQueue": 0, "retried": 0},
			"workers": map[string]any{"idle": 0, "running": 0},
		})
	})
	mux.HandleFunc("/conf-nothing-is-here", stubHandlers["200 HTML"])
	if !creates {
		return mux
	}
	lists := map[string]string{"templates": "templates", "serverless": "endpoints", "network-volumes": "networkVolumes", "registries": "registries"}
	for path, key := range lists {
		mux.HandleFunc("GET /v2/"+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]any{key: []any{}}) })
	}
	mux.HandleFunc("GET /v1/containerregistryauth", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, []any{}) })
	mux.HandleFunc("GET /v2/catalog/datacenters", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"dataCenters": []any{map[string]any{"id": "HERE-1"}}})
	})
	create := func(w http.ResponseWriter, r *http.Request) {
		body := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&body)
		body["id"] = fmt.Sprintf("thing-%d", created.Add(1))
		answer(w, 201, body)
	}
	for _, path := range []string{
		"/v1/templates", "/v1/endpoints", "/v1/networkvolumes", "/v1/containerregistryauth",
		"/v2/templates", "/v2/serverless", "/v2/network-volumes", "/v2/registries",
	} {
		mux.HandleFunc("POST "+path, create)
	}
	mux.HandleFunc("DELETE /v1/{kind}/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("DELETE /v2/{kind}/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	return mux
}

// preflightClauses are the clauses that a preflightServer keeps.
var preflightClauses = []string{"JOB-01", "OPS-23", "VER-03", "VER-36", "VER-38", "VER-40"}

// creationClauses are the clauses that a preflightServer with creates keeps. Its answers have an id and the
// members that were sent, its lists have the right paths, and it has no other paths.
var creationClauses = []string{
	"T-01", "T-07", "T-17", "T-21", "V-02", "R-03", "P-01", "VER-01", "VER-02", "VER-06", "VER-07", "VER-08", "VER-09", "VER-26",
	"VER-31", "VER-32", "VER-33", "VER-34", "VER-35",
}

// A stub that passes the preflight keeps only the clauses that its answers satisfy.
func TestStubServersAfterPreflight(t *testing.T) {
	acctest.LeaveToCI(t, "TestStubServers runs the same stubs, which fail the preflight")
	must.Hold(t, len(preflightClauses) <= 6, "the list of expected passes is too long")
	names := []string{"200 {}", "200 []", "echo", "401", "400", "404", "429", "500"}
	if testing.Short() {
		names = []string{"200 {}", "echo", "429"}
	}
	for _, name := range names {
		for _, creates := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, creates objects %v", name, creates), func(t *testing.T) {
				t.Parallel()
				allowed := preflightClauses
				if creates {
					allowed = slices.Concat(preflightClauses, creationClauses)
				}
				synctest.Test(t, func(t *testing.T) {
					client, stop := serveInMemory(preflightServer(stubHandlers[name], creates))
					defer stop()
					target := conformance.Target{
						BaseURL: "http://stub", Key: "the-key", OtherKey: "the-other-key", UserKey: "the-user's-key",
						Client: client, Virtual: true, Local: creates,
					}
					if !creates {
						target.Endpoint = "our-endpoint"
					}
					r := judge(t, conformance.Options{Target: target, Allow: ^conformance.Permission(0)})
					verdict := report.Fail
					if !creates && (name == "401" || name == "429") { // other users of the key or of its limit may be the reason
						verdict = report.Inconclusive
					}
					must.Hold(t, r.Preflight == "" && r.Counts[verdict] >= 40 && r.Exit == conformance.ExitFailed, "preflight", r.Preflight, r.Counts, "exit code", r.Exit)
					for _, clause := range passedMusts(r) {
						must.Hold(t, slices.Contains(allowed, clause), clause, "passes")
					}
				})
			})
		}
	}
}

// The clock isn't advanced while a request is in flight, however long its connection takes to open.
func TestAdvanceWaitsForSlowConnections(t *testing.T) {
	target := startDeployment(t, nil)
	target.Client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(30 * time.Millisecond) // real time: this test is not in a bubble
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	r := judge(t, conformance.Options{Target: target, Select: []string{"OPS-02", "OPS-06", "JOB-13"}})
	for _, x := range r.Results {
		must.Hold(t, x.Verdict == report.Pass, report.Text(x))
	}
}

// A response after more than half a second is judged like any other, whether the clock runs or not.
func TestSlowResponsesWhileClockAdvances(t *testing.T) {
	for name, stopped := range map[string]bool{"stopped clock": true, "running clock": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var responses atomic.Int64
			start := startDeployment
			if !stopped {
				start = func(t *testing.T, wrap func(http.Handler) http.Handler) conformance.Target {
					target, _ := startRunningDeployment(t, wrap)
					return target
				}
			}
			target := start(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					answer := httptest.NewRecorder()
					h.ServeHTTP(answer, r)
					if responses.Add(1)%25 == 0 {
						time.Sleep(700 * time.Millisecond) // real time: this test is not in a bubble
					}
					forward(w, answer)
				})
			})
			o := conformance.Options{Target: target, Select: []string{"OPS-0*", "WEB-0*", "LIM-1*", "SUB-2*"}}
			if testing.Short() {
				o.Select = []string{"OPS-02", "OPS-06", "LIM-14", "WEB-06"}
			}
			expectNoFailure(t, judge(t, o))
		})
	}
}

// mockPackage is the npm package of an independent mock server.
const mockPackage = "@stoplight/prism-cli@5.12.0"

//go:embed testdata/mock.tsv
var predictions string

// An independent mock server, which keeps some clauses of testdata/mock.yaml, gets the verdicts of testdata/mock.tsv.
func TestIndependentMock(t *testing.T) {
	if testing.Short() {
		t.Skip("npm downloads the server: see make test-all")
	}
	want := map[string]string{}
	for line := range strings.Lines(predictions) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		must.Require(t, len(fields) == 3 && fields[2] != "",
			"invalid line of testdata/mock.tsv: expected a clause, a verdict and a reason, got", line)
		want[fields[0]] = fields[1]
	}
	target := conformance.Target{BaseURL: startMock(t, "testdata/mock.yaml"), Key: "the-key", Endpoint: "our-endpoint"}
	r := judge(t, conformance.Options{Target: target})
	must.Hold(t, r.Exit == conformance.ExitFailed && r.Requests <= 260 && len(r.Leaked) == 0, "exit code", r.Exit, r.Requests, "requests, leaked", r.Leaked)
	for _, x := range r.Results {
		if x.Verdict == report.Skip || x.Level == string(suite.Unspec) {
			continue
		}
		must.Hold(t, want[x.Clause] == string(x.Verdict), "expected the verdict", want[x.Clause], "got", report.Text(x))
		delete(want, x.Clause)
	}
	for clause := range want {
		t.Errorf("%s is not judged", clause)
	}
}

// startMock serves the examples of an OpenAPI document and returns the URL.
func startMock(t *testing.T, document string) string {
	t.Helper()
	skipOrFail := t.Skipf
	if os.Getenv("CI") != "" {
		skipOrFail = t.Fatalf
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		skipOrFail("npm, which comes with Node.js, is not installed")
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), npm, "install", "--prefix="+dir, "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", mockPackage)
	if text, err := install.CombinedOutput(); err != nil {
		skipOrFail("npm install %s: %v\n%s", mockPackage, err, text)
	}
	program := filepath.Join(dir, "node_modules", "@stoplight", "prism-cli", "dist", "index.js")
	cmd := exec.CommandContext(t.Context(), "node", program, "mock", "--host=127.0.0.1", "--port=0", "--multiprocess=false", document)
	stdout := must.Do(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // it ends with the test's context
	var output strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		output.WriteString(lines.Text() + "\n")
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return strings.TrimSpace(url)
		}
	}
	t.Fatalf("the mock does not start:\n%s", &output)
	return ""
}
