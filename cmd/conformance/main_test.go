package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// binary is the program under test. The jobrunner is in the same directory.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "as" {
		os.Exit(runAsClient(os.Args[2:]))
	}
	dir, err := os.MkdirTemp("", "conformance-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "conformance")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the programs once. It isn't in TestMain, because go test's cache ignores the files that TestMain opens.
var build = sync.OnceValue(func() error { return gobuild.Programs(context.Background(), filepath.Dir(binary), ".", "../jobrunner") })

const key = "the-key-of-the-suite"

// command returns a command that runs the program in a new directory.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	must.Succeed(t, build())
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = t.TempDir()
	temp := t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(temp)
		must.Hold(t, err == nil && len(left) == 0, args, "left temporary files:", left, err)
	})
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp, "GPUCLOUD_API_KEY=" + key}
	return cmd
}

// runExpecting runs the program, expects one of the exit codes, and returns the output.
func runExpecting(t *testing.T, cmd *exec.Cmd, codes ...int) string {
	t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	var exit *exec.ExitError
	must.Require(t, err == nil || errors.As(err, &exit), err)
	got := cmd.ProcessState.ExitCode()
	must.Hold(t, slices.Contains(codes, got), cmd.Args[1:], "ends with", got, "not", codes, &output)
	must.Hold(t, !strings.Contains(output.String(), key), cmd.Args[1:], "shows the key", &output)
	return output.String()
}

// serve starts a deployment in this process, with its handler wrapped, and returns its address.
func serve(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	j := must.Do(jobrunner.New(context.Background(), jobrunner.Config{APIKey: key}))(t)
	handler := j.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		must.Succeed(t, j.Close())
	})
	return server.URL
}

func intercept(matches func(*http.Request) bool, answer http.HandlerFunc) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if matches(r) {
				answer(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

// --local judges the jobrunner next to the program.
func TestLocal(t *testing.T) {
	r, minResults := runLocal(t), 295
	if acctest.InMakeTest() {
		minResults = 120
	}
	must.Hold(t, r.Schema == "gpucloud-conformance/1" && len(r.Results) >= minResults && r.Counts[report.Pass] >= 100,
		"the report has the schema", r.Schema, "and", len(r.Results), "results instead of", minResults, "or more, with the verdicts", r.Counts)
}

// An invalid option exits with 2, and the message says what to do.
func TestUsage(t *testing.T) {
	url := serve(t, nil)
	endless := tempFile(t, "")
	must.Succeed(t, os.Truncate(endless, 65<<20))
	for want, args := range map[string][]string{
		"unknown flag --prot": {"run", "--prot=1"},
		"conformance list":    {"run", "--base-url=" + url, "--select=JOB-999"},
		"selects no clause":   {"run", "--base-url=" + url, "--select=JOB,!JOB"},
		"invalid --base-url: expected an http or https URL":      {"run", "--base-url=localhost:8420", "--queue-url=nonsense"},
		"invalid --queue-url: expected an http or https URL":     {"run", "--base-url=" + url, "--queue-url=nonsense"},
		"invalid --base-url: remove /v2 from its end":            {"run", "--base-url=" + url + "/v2/"},
		"nothing to judge: give --base-url":                      {"run", "--dry-run"},
		"the clause X-01 doesn't exist":                          {"run", "--base-url=" + url, "--known-failing=" + tempFile(t, "\ufeffX-01 2999-01-01 why")},
		"no clause matches":                                      {"explain", "X-01"},
		"--allow":                                                {"run", "--allow=everything"},
		"a file that `conformance run --defer` of the same":      {"resume", tempFile(t, "{}")},
		"cannot unmarshal":                                       {"run", "--base-url=" + url, "--endpoint-body=" + tempFile(t, "[]")},
		"isn't a ledger of a run":                                {"sweep", "--ledger=" + tempFile(t, "{\n}")},
		"- isn't a ledger of a run: choose a regular file":       {"sweep", "--ledger=-"},
		"invalid --defer -: expected a file":                     {"run", "--base-url=" + url, "--defer=-"},
		"invalid --parallel: expected at least 1, got 0":         {"run", "--base-url=" + url, "--parallel=0"},
		"invalid --max-requests: expected at least 0, got -2":    {"run", "--dry-run", "--local", "--max-requests=-2"},
		"invalid --reruns: expected at least 0, got -1":          {"run", "--base-url=" + url, "--reruns=-1"},
		"invalid --max-seconds: expected at least 0, got NaN":    {"run", "--base-url=" + url, "--max-seconds=NaN"},
		"invalid --max-wait: expected more than 0s, got 0s":      {"run", "--dry-run", "--base-url=" + url, "--max-wait=0s"},
		"invalid --endpoint-id \"a/b\": expected":                {"run", "--dry-run", "--base-url=" + url, "--endpoint-id=a/b"},
		"invalid --hook-url: expected an http or https URL":      {"run", "--dry-run", "--base-url=" + url, "--hook-url=nonsense", "--hook-listen=127.0.0.1:0"},
		"--hook-url requires --hook-listen":                      {"run", "--dry-run", "--base-url=" + url, "--hook-url=" + url},
		"--local and --base-url can't be used together":          {"run", "--local", "--base-url=" + url},
		"invalid --hook-listen \"8080\": expected HOST:PORT":     {"run", "--dry-run", "--base-url=" + url, "--hook-listen=8080"},
		"invalid --hook-listen \"a:99999\": expected HOST:POR":   {"run", "--dry-run", "--base-url=" + url, "--hook-listen=a:99999"},
		"invalid --base-url: expected an http or https URL, s":   {"run", "--dry-run", "--base-url=http://127.0.0.1:99999"},
		"invalid --timeout: expected more than 0s, got 0s":       {"client", "--timeout=0", "true"},
		"invalid number of parallel scenarios -1":                {"client", "--parallel=-1", "true"},
		"--known-failing: " + endless + " is larger than 64 MiB": {"run", "--base-url=" + url, "--known-failing=" + endless},
		"--sign " + endless + ": " + endless + " is larger than": {"run", "--base-url=" + url, "--json=r.json", "--sign=" + endless},
		endless + " is larger than 64 MiB: choose another file":  {"resume", endless},
		"choose a regular file":                                  {"run", "--base-url=" + url, "--ledger=/dev/null"},
		"nothing-is-here":                                        {"run", "--local", "--jobrunner=/nothing-is-here/at-all"},
		"(is it the jobrunner?): it printed no key":              {"run", "--local", "--jobrunner=/bin/true"},
		"keys: No such file":                                     {"run", "--local", "--jobrunner=/bin/sh"},
	} {
		must.Contain(t, runExpecting(t, command(t, args...), 2), want)
	}
	noKey, sameKey := command(t, "run", "--base-url="+url), command(t, "run", "--base-url="+url)
	noKey.Env, sameKey.Env = append(noKey.Env, "GPUCLOUD_API_KEY="), append(sameKey.Env, "GPUCLOUD_USER_API_KEY="+key)
	must.Contain(t, runExpecting(t, noKey, 2), "set GPUCLOUD_API_KEY")
	must.Contain(t, runExpecting(t, sameKey, 2), "must not be the key of GPUCLOUD_API_KEY")
}

func tempFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// These commands need no deployment.
func TestRegistry(t *testing.T) {
	for want, args := range map[string][]string{
		"A queued job becomes CANCELLED when it is cancelled.":   {"list", "--select=job-1*"},
		"detects /cancel of a queued job":                        {"explain", "job-17"},
		"untestable":                                             {"explain", "JOB-47"},
		"conformance dev":                                        {"version"},
		"1 case at http://127.0.0.1:1: up to":                    {"run", "--dry-run", "--base-url=http://127.0.0.1:1", "--select=VER-36"},
		"1 skipped, safety: it would create and delete objects":  {"run", "--dry-run", "--base-url=http://127.0.0.1:1", "--select=V-05"},
		"1 case at http://127.0.0.1:1: up to 23 requests, 0 job": {"run", "--dry-run", "--base-url=http://127.0.0.1:1", "--select=V-05", "--allow=create"},
	} {
		must.Contain(t, runExpecting(t, command(t, args...), 0), want)
	}
}

// A deployment violates a clause, and another one deletes nothing.
func TestFailsAndLeaks(t *testing.T) {
	t.Parallel()
	broken := serve(t, intercept(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v2/catalog/cpus") }, http.NotFound))
	must.Contain(t, runExpecting(t, command(t, "run", "--base-url="+broken, "--select=VER-38,VER-36"), 1), "FAIL VER-38 MUST (3/3)", "Versioning, 10", "curl -sS -i -H \"Authorization: Bearer $GPUCLOUD_API_KEY\"", "conformance explain VER-38", "not conformant")

	reason := strings.Repeat("n", 193) // the message is cut within the key
	var refusesDeletes atomic.Bool
	refusesDeletes.Store(true)
	undeletable := serve(t, intercept(func(r *http.Request) bool { return refusesDeletes.Load() && r.Method == http.MethodDelete },
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "r-1")
			http.Error(w, "\x1b"+reason+key, http.StatusInternalServerError)
		}))
	run := command(t, "run", "--base-url-v1="+undeletable, "--select=V-05", "--allow=create")
	must.Contain(t, runExpecting(t, run, 4), "NOT DELETED networkvolumes")
	ledger := "--ledger=" + filepath.Join(run.Dir, "conformance-ledger.jsonl")
	must.Contain(t, runExpecting(t, command(t, "sweep", ledger), 4), "not deleted: networkvolumes ", " returned 500, request id r-1: \\x1b"+reason+"$GPUCL\n")
	refusesDeletes.Store(false)
	must.Contain(t, runExpecting(t, command(t, "sweep", ledger, "--base-url="+undeletable), 0), "1 of 1 objects deleted")
	must.Contain(t, runExpecting(t, command(t, "sweep", ledger), 0), "0 of 0")
	must.Contain(t, runExpecting(t, command(t, "sweep", ledger, "--base-url="+undeletable), 0), "0 of 0")
}

// A management request with the answer 429 is sent again after its Retry-After, also by sweep and at a deployment on this machine.
func TestManagementRateLimit(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 10)
	url := serve(t, intercept(func(r *http.Request) bool {
		return r.Method == http.MethodDelete || len(paths) < 2 && r.URL.Path == "/v2/catalog/cpus"
	}, func(w http.ResponseWriter, r *http.Request) {
		if paths <- r.URL.Path; len(paths) <= 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	runExpecting(t, command(t, "run", "--base-url="+url, "--select=VER-38"), 0)
	entry := `{"n":%d,"kind":"template","id":"t%[1]d","deployment":"%s","method":"DELETE","url":"` + url + `/v2/templates/t%[1]d","case":"T-01"}` + "\n"
	ledger := "--ledger=" + tempFile(t, fmt.Sprintf(entry, 1, url)+fmt.Sprintf(entry, 2, url)+fmt.Sprintf(entry, 3, "https://other")+fmt.Sprintf(entry, 4, ""))
	must.Contain(t, runExpecting(t, command(t, "sweep", ledger), 2), "choose one with --base-url. ", " has objects of: , "+url+", https://other")
	must.Contain(t, runExpecting(t, command(t, "sweep", ledger, "--base-url="+url), 0), "2 of 2 objects deleted")
	want := [5]string{"/v2/catalog/cpus", "/v2/catalog/cpus", "/v2/templates/t2", "/v2/templates/t2", "/v2/templates/t1"}
	must.Equal(t, [5]string{<-paths, <-paths, <-paths, <-paths, <-paths}, want, "requests")
}

// enableHangups lets SIGHUP end the programs that the test starts, even under nohup.
func enableHangups(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
}

// An interrupted run deletes its objects. sweep deletes the objects of a killed run.
func TestInterruptedAndKilled(t *testing.T) {
	enableHangups(t)
	for name, stopSignal := range map[string]os.Signal{"interrupted": os.Interrupt, "terminal closed": syscall.SIGHUP, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			submitted := make(chan struct{}, 100)
			url := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					if strings.HasSuffix(r.URL.Path, "/run") {
						submitted <- struct{}{}
					}
				})
			})
			cmd := command(t, "run", "--base-url="+url, "--select=SUB-23", "--allow=create,queue")
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			must.Succeed(t, cmd.Start())
			<-submitted // the case has its endpoint and its job
			must.Succeed(t, cmd.Process.Signal(stopSignal))
			_ = cmd.Wait() // the exit code is checked below
			must.Hold(t, stopSignal == os.Kill || cmd.ProcessState.ExitCode() == 130, "ended with", cmd.ProcessState.ExitCode(), &output)
			want := map[bool]string{false: "0 of 0 objects", true: "1 of 1 objects"}[stopSignal == os.Kill]
			must.Contain(t, runExpecting(t, command(t, "sweep", "--ledger="+filepath.Join(cmd.Dir, "conformance-ledger.jsonl")), 0), want)
			must.Equal(t, countEndpoints(t, url), 0, "endpoints remain")
		})
	}
}

// The jobrunner of a killed run --local stops.
func TestKilledLocal(t *testing.T) {
	dir := t.TempDir()
	running, script := filepath.Join(dir, "running"), filepath.Join(dir, "jobrunner.sh")
	makeFIFO(t, running)
	// The jobrunner holds the pipe open while it runs.
	must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = keys ] || exec 9>'"+running+"'\nexec '"+filepath.Join(filepath.Dir(binary), "jobrunner")+"' \"$@\"\n"), 0o700))
	cmd := command(t, "run", "--local", "--jobrunner="+script)
	stderr := must.Do(cmd.StderrPipe())(t)
	must.Succeed(t, cmd.Start())
	pipe := must.Do(os.Open(running))(t)
	defer pipe.Close()
	must.Succeed(t, must.Err(stderr.Read(make([]byte, 1)))) // the plan: the jobrunner listens
	must.Succeed(t, cmd.Process.Kill())
	_ = cmd.Wait() // the kill is its error
	must.Succeed(t, pipe.SetReadDeadline(time.Now().Add(time.Minute)))
	must.Succeed(t, must.Err(io.ReadAll(pipe)), "the jobrunner is still running")
	must.Succeed(t, os.RemoveAll(envValue(cmd, "TMPDIR"))) // the killed run couldn't remove its files
	must.Succeed(t, os.Mkdir(envValue(cmd, "TMPDIR"), 0o700))
}

// An interrupted start of --local isn't a usage error.
func TestInterruptedStart(t *testing.T) {
	cmd := command(t, "run", "--local", "--jobrunner=jobrunner.sh")
	write(t, cmd.Dir, map[string]string{"jobrunner.sh": "#!/bin/sh\necho > started\nread line < started\n"})
	makeFIFO(t, filepath.Join(cmd.Dir, "started"))
	must.Succeed(t, cmd.Start())
	must.ReadFile(t, filepath.Join(cmd.Dir, "started"))
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit code is checked below
	must.Equal(t, cmd.ProcessState.ExitCode(), 130, "exit code")
}

func countEndpoints(t *testing.T, url string) int {
	t.Helper()
	req := must.Do(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v2/serverless", nil))(t)
	req.Header.Set("Authorization", "Bearer "+key)
	resp := must.Do(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	var list struct{ Endpoints []any }
	must.Succeed(t, json.NewDecoder(resp.Body).Decode(&list))
	return len(list.Endpoints)
}

// A case that waits for too long is deferred into a file without a key.
func TestDefer(t *testing.T) {
	url := serve(t, nil)
	cmd := command(t, "run", "--base-url="+url, "--select=LIM-12", "--allow=create,queue", "--defer=later.json")
	file := filepath.Join(cmd.Dir, "later.json")
	must.Contain(t, runExpecting(t, cmd, 3), "1 case deferred: conformance resume later.json", "nothing was judged; 1 deferred")
	must.Hold(t, !strings.Contains(string(must.ReadFile(t, file)), key), "the file has the key")
	must.Equal(t, countEndpoints(t, url), 1, "endpoints remain for the deferred case")
	// Neither another run nor a report overwrites the file. A run without deferred cases leaves none.
	must.Contain(t, runExpecting(t, command(t, "run", "--base-url="+url, "--select=VER-38", "--defer="+file), 2), "later.json of --defer exists already")
	for _, used := range []string{"later.json", "conformance-ledger.jsonl"} {
		overwriting := command(t, "resume", "later.json", "--json="+used)
		overwriting.Dir = cmd.Dir
		must.Contain(t, runExpecting(t, overwriting, 2), "would overwrite a file of the run")
	}
	must.Contain(t, runExpecting(t, command(t, "run", "--base-url="+url, "--select=VER-38", "--defer=none.json"), 0), "0 cases deferred")
	// The case is resumed too early, so it is deferred again.
	resumed := command(t, "resume", "later.json")
	resumed.Dir = cmd.Dir
	must.Contain(t, runExpecting(t, resumed, 3), "1 case deferred", " 2 jobs")
	// The results of the last case are kept until all reports are written.
	text := must.ReadFile(t, file)
	must.Succeed(t, os.WriteFile(file, regexp.MustCompile(`"journals":.*("report":)`).ReplaceAll(text, []byte(`"journals":{}},$1`)), 0o600))
	for _, report := range []string{"/dev/full", "last.json"} {
		last := command(t, "resume", "later.json", "--json="+report)
		last.Dir = cmd.Dir
		runExpecting(t, last, map[bool]int{true: 2, false: 3}[report == "/dev/full"])
		_, err := os.Stat(file)
		must.Hold(t, (err == nil) == (report == "/dev/full"), "after the report", report, "the file has", err)
	}
	// If the file can't be stored, the results are still shown.
	dir := filepath.Join(t.TempDir(), "dir")
	must.Succeed(t, os.Mkdir(dir, 0o700))
	url = serve(t, intercept(func(*http.Request) bool { return os.RemoveAll(dir) != nil }, nil))
	cmd = command(t, "run", "--base-url="+url, "--select=LIM-12", "--allow=create,queue", "--defer="+filepath.Join(dir, "later.json"))
	must.Contain(t, runExpecting(t, cmd, 2), "nothing was judged; 1 deferred", "storing the deferred cases")
}

func TestListJSON(t *testing.T) {
	var c struct{ ID, Level, Statement, Source, Link string }
	text := runExpecting(t, command(t, "list", "--json", "--select=JOB-17"), 0)
	must.Hold(t, json.Unmarshal([]byte(text), &c) == nil && c.ID == "JOB-17" && c.Level != "" && c.Statement != "" && c.Source != "" && c.Link != "", "list --json prints", text)
}
