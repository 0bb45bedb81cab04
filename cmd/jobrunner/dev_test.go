//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// job runs a job and returns its status.
func job(t *testing.T, url, input string) (status, output, fault string) {
	t.Helper()
	var j struct {
		Status string
		Output json.RawMessage
		Error  string
	}
	_, text, err := send(t.Context(), http.MethodPost, url, "k", `{"input": `+input+`}`)
	if err == nil {
		err = json.Unmarshal([]byte(text), &j)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return j.Status, string(j.Output), j.Error
}

func TestDevRunsCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "upper.sh")
	put(t, file, `tr a-z A-Z`)
	s := startDev(t, file)
	url := s.runURL()
	if status, output, _ := job(t, url, `{"a":"b"}`); status != "COMPLETED" || output != `{"A":"B"}` {
		t.Errorf("%s %s", status, output)
	}
	s.until("a process for each job")
	s.lacks("Bearer k")
	put(t, file, `echo '"changed"'`)
	if status, output, _ := job(t, url, `{}`); status != "COMPLETED" || output != `"changed"` {
		t.Errorf("%s %s", status, output)
	}
	s.interrupt()

	s = startDev(t, file, "--env=FAULT=no model", "--simulate-gpus=h200x8", "--gpus=2")
	put(t, file, `echo "$CUDA_VISIBLE_DEVICES"; test "${CUDA_VISIBLE_DEVICES#*,}" = "$CUDA_VISIBLE_DEVICES" || { echo "$FAULT" >&2; exit 2; }`)
	s.until("simulated")
	if status, _, fault := job(t, s.runURL(), `{}`); status != "FAILED" || fault != "no model\n(exit status 2)" {
		t.Errorf("%s %s", status, fault)
	}
}

func TestDevRejectsInvalidHandlers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "notes.txt"), "")
	for want, args := range map[string][]string{
		"chmod +x":                       {filepath.Join(dir, "notes.txt")},
		"doesn't exist":                  {filepath.Join(dir, "nosuch.py")},
		"expected a file or one of":      {"/bin/true", "--listen=127.0.0.1:0", "--simulate-gpus=nosuch"},
		"expected at most 2, the number": {"/bin/true", "--listen=127.0.0.1:0", "--simulate-gpus=l4x2", "--gpus=3"},
		"expected at least 0":            {"/bin/true", "--listen=127.0.0.1:0", "--gpus=-1"},
		"NAME=VALUE":                     {"/bin/true", "--listen=127.0.0.1:0", "--env=x"},
		"other machines":                 {"/bin/true", "--listen=0.0.0.0:0"},
		"with --listen":                  {"/bin/true", "--listen=127.0.0.1:1"},
	} {
		if want == "with --listen" && os.Getuid() == 0 {
			continue
		}
		text := mustFail(t, environment(dir), append([]string{"dev"}, args...)...)
		must.Hold(t, strings.Contains(text, want), args, text)
	}
}

// The next jobrunner removes the processes of a killed one before it starts workers.
func TestWorkersOfAKilledDeployment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data, config := filepath.Join(home, "data"), filepath.Join(home, "jobrunner.yaml")
	children := filepath.Join(home, "children")
	put(t, config, "engine: none\nrules:\n  - image: team/worker\n    process: {run: [sh, -c, 'sleep 1000 & echo $! >>"+children+"; wait']}\n")
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--data="+data, "--config="+config)
	p.call(http.MethodPost, "/v2/serverless", `{"name": "x", "image": "team/worker", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`, nil)
	// child waits for the n-th started process and returns its id.
	child := func(n int) (pid int) {
		p.until(fmt.Sprint("the process ", n), func() bool {
			text, _ := os.ReadFile(children)
			pids := strings.Fields(string(text))
			if len(pids) >= n {
				pid, _ = strconv.Atoi(pids[n-1])
			}
			return len(pids) >= n
		})
		return pid
	}
	first := child(1)
	p.kill()
	p = serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--data="+data, "--config="+config)
	second := child(2)
	must.Hold(t, !runs(first), first, "lives on")
	p.interrupt()
	must.Hold(t, !runs(second), second, "outlives its deployment")
	must.Hold(t, strings.Contains(p.stderr.String(), "the workers of a killed run have been ended"), "the log doesn't mention it", &p.stderr)
}

// runs reports whether a process runs. A zombie doesn't.
func runs(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
