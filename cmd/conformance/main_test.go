package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// binary is the program under test; the jobrunner is beside it.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "as" {
		os.Exit(roles(os.Args[2:]))
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

// built builds the programs, once, and in a test: see gobuild.
var built = sync.OnceValue(func() error { return gobuild.Programs(context.Background(), filepath.Dir(binary), ".", "../jobrunner") })

const key = "the-key-of-the-suite"

// command is the program in a folder of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = t.TempDir()
	temp := t.TempDir()
	t.Cleanup(func() {
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%v left temporary files: %v, %v", args, left, err)
		}
	})
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp, "GPUCLOUD_API_KEY=" + key}
	return cmd
}

// runExpecting runs the program and expects its exit code; it returns what it says.
func runExpecting(t *testing.T, cmd *exec.Cmd, codes ...int) string {
	t.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); !slices.Contains(codes, got) {
		t.Errorf("%v ends with %d, not %d:\n%s", cmd.Args[1:], got, codes, &said)
	}
	if strings.Contains(said.String(), key) {
		t.Errorf("%v shows the key:\n%s", cmd.Args[1:], &said)
	}
	return said.String()
}

// serves is a deployment in this process, behind whatever wrap makes of it.
func serves(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	j, err := jobrunner.New(context.Background(), jobrunner.Config{APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	handler := j.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

// The jobrunner beside the program, with everything that is slow, and its
// report.
func TestLocal(t *testing.T) {
	r, least := runLocal(t), 295
	if sampled() {
		least = 150
	}
	if r.Schema != "gpucloud-conformance/1" || len(r.Results) < least || r.Counts[report.Pass] < 100 {
		t.Errorf("%s with %d results, %v", r.Schema, len(r.Results), r.Counts)
	}
}

// What the user got wrong ends the program with 2 and a word of what to do.
func TestUsage(t *testing.T) {
	url := serves(t, nil)
	for want, args := range map[string][]string{
		"unknown flag --prot": {"run", "--prot=1"},
		"conformance list":    {"run", "--base-url=" + url, "--select=JOB-999"},
		"chooses no clause":   {"run", "--base-url=" + url, "--select=JOB,!JOB"},
		"invalid --base-url: expected an http or https URL":  {"run", "--base-url=localhost:8420"},
		"invalid --queue-url: expected an http or https URL": {"run", "--base-url=" + url, "--queue-url=nonsense"},
		"the clause X-01 doesn't exist":                      {"run", "--base-url=" + url, "--known-failing=" + file(t, "X-01 2999-01-01 why")},
		"no clause matches":                                  {"explain", "X-01"},
		"--allow":                                            {"run", "--allow=everything"},
		"expected one of `conformance run --defer`":          {"resume", file(t, "{}")},
		"cannot unmarshal":                                   {"run", "--base-url=" + url, "--endpoint-body=" + file(t, "[]")},
		"starting /nothing-is-here/at-all":                   {"run", "--local", "--jobrunner=/nothing-is-here/at-all"},
	} {
		if want == "starting /nothing-is-here/at-all" {
			want = "nothing-is-here"
		}
		if said := runExpecting(t, command(t, args...), 2); !strings.Contains(said, want) {
			t.Errorf("%v says\n%s\nand not %q", args, said, want)
		}
	}
	cmd := command(t, "run", "--base-url="+url)
	cmd.Env = append(cmd.Env, "GPUCLOUD_API_KEY=")
	if said := runExpecting(t, cmd, 2); !strings.Contains(said, "set GPUCLOUD_API_KEY") {
		t.Errorf("without a key: %s", said)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What can be asked without a deployment.
func TestRegistry(t *testing.T) {
	for want, args := range map[string][]string{
		"A queued job becomes CANCELLED when it is cancelled.":    {"list", "--select=JOB"},
		"detects a job that waits is":                             {"explain", "job-17"},
		"untestable":                                              {"explain", "JOB-47"},
		"conformance dev":                                         {"version"},
		"1 cases at http://127.0.0.1:1: up to":                    {"run", "--dry-run", "--base-url=http://127.0.0.1:1", "--select=VER-36"},
		"1 skipped, safety: it would create and delete objects":   {"run", "--dry-run", "--base-url=http://127.0.0.1:1", "--select=V-05"},
		"1 cases at http://127.0.0.1:1: up to 22 requests, 0 job": {"run", "--dry-run", "--base-url=http://127.0.0.1:1", "--select=V-05", "--allow=create"},
	} {
		if said := runExpecting(t, command(t, args...), 0); !strings.Contains(said, want) {
			t.Errorf("%v says\n%s\nand not %q", args, said, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	start := time.Now()
	said := runExpecting(t, command(t, "run", "--base-url=http://127.0.0.1:1"), 3)
	if !strings.Contains(said, "unreachable: GET http://127.0.0.1:1/") || time.Since(start) > 3*time.Minute {
		t.Errorf("after %s: %s", time.Since(start), said)
	}
}

// A deployment that breaks a clause, and one that takes nothing down.
func TestFailsAndLeaks(t *testing.T) {
	broken := serves(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/v2/catalog/cpus") {
				http.NotFound(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	said := runExpecting(t, command(t, "run", "--base-url="+broken, "--select=VER-38,VER-36"), 1)
	for _, want := range []string{"FAIL VER-38 MUST (3/3)", "Versioning, 10", "curl -sS -i -H \"Authorization: Bearer $GPUCLOUD_API_KEY\"", "conformance explain VER-38", "not conformant"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}

	var holds atomic.Bool
	holds.Store(true)
	keeps := serves(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if holds.Load() && r.Method == http.MethodDelete {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	run := command(t, "run", "--base-url="+keeps, "--select=V-05", "--allow=create")
	if said := runExpecting(t, run, 4); !strings.Contains(said, "LEFT networkvolumes") {
		t.Errorf("said %s", said)
	}
	ledger := "--ledger=" + filepath.Join(run.Dir, "conformance-ledger.jsonl")
	runExpecting(t, command(t, "sweep", ledger), 4)
	holds.Store(false)
	if said := runExpecting(t, command(t, "sweep", ledger), 0); !strings.Contains(said, "1 of 1 objects deleted") {
		t.Errorf("said %s", said)
	}
	if said := runExpecting(t, command(t, "sweep", ledger), 0); !strings.Contains(said, "0 of 0") {
		t.Errorf("said %s", said)
	}
}

// An interrupted run takes down what it made; what a killed one made, sweep
// does.
func TestInterruptedAndKilled(t *testing.T) {
	for name, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			status := make(chan struct{}, 100)
			url := serves(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					if strings.HasSuffix(r.URL.Path, "/run") {
						status <- struct{}{}
					}
				})
			})
			cmd := command(t, "run", "--base-url="+url, "--select=SUB-23", "--allow=create,queue")
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-status // the case has its endpoint and its job
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the exit code is checked below
			if signal == os.Interrupt && cmd.ProcessState.ExitCode() != 130 {
				t.Errorf("ended with %d: %s", cmd.ProcessState.ExitCode(), &said)
			}
			want := "0 of 0 objects"
			if signal == os.Kill {
				want = "1 of 1 objects"
			}
			if said := runExpecting(t, command(t, "sweep", "--ledger="+filepath.Join(cmd.Dir, "conformance-ledger.jsonl")), 0); !strings.Contains(said, want) {
				t.Errorf("the sweep says %s", said)
			}
			if n := endpoints(t, url); n != 0 {
				t.Errorf("%d endpoints are left", n)
			}
		})
	}
}

func endpoints(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v2/serverless", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Endpoints []any }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return len(list.Endpoints)
}

// A case that waits for long is put off into a file that has no key in it.
func TestDefer(t *testing.T) {
	url := serves(t, nil)
	cmd := command(t, "run", "--base-url="+url, "--select=LIM-12", "--allow=create,queue", "--defer=later.json")
	if said := runExpecting(t, cmd, 3); !strings.Contains(said, "1 cases go on later: conformance resume later.json") || !strings.Contains(said, "nothing was judged; 1 go on later") {
		t.Errorf("said %s", said)
	}
	text, err := os.ReadFile(filepath.Join(cmd.Dir, "later.json"))
	if err != nil || strings.Contains(string(text), key) {
		t.Errorf("the file is %s, %v", text, err)
	}
	if n := endpoints(t, url); n != 1 {
		t.Errorf("%d endpoints are there for later", n)
	}
	// Too early: it is put off again.
	again := command(t, "resume", "later.json")
	again.Dir = cmd.Dir
	if said := runExpecting(t, again, 3); !strings.Contains(said, "1 cases go on later") {
		t.Errorf("said %s", said)
	}
}

// Machines read the clauses.
func TestListJSON(t *testing.T) {
	var c struct{ ID, Level, Statement, Source, Link string }
	if text := runExpecting(t, command(t, "list", "--json", "--select=JOB-17"), 0); json.Unmarshal([]byte(text), &c) != nil || c.ID != "JOB-17" || c.Level == "" || c.Statement == "" || c.Source == "" || c.Link == "" {
		t.Error(text)
	}
}
