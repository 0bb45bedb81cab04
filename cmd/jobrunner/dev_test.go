//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// job runs a job and returns its status.
func job(t *testing.T, url, key, input string) (status, output, fault string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"input": `+input+`}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var j struct {
		Status string
		Output json.RawMessage
		Error  string
	}
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &j)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return j.Status, string(j.Output), j.Error
}

// dev starts jobrunner dev with a file and waits until it is ready.
func dev(t *testing.T, file string, args ...string) (p *process, url string) {
	t.Helper()
	p = &process{t: t, cmd: exec.Command(binary, append([]string{"dev", "--listen=127.0.0.1:0", file}, args...)...)}
	p.cmd.Env = environment(t.TempDir(), "GPUCLOUD_API_KEY=key")
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.greeted = append(p.greeted, lines.Text())
		if at := regexp.MustCompile(`http://\S+/runsync`).FindString(lines.Text()); at != "" {
			url = at
		}
		if strings.HasPrefix(lines.Text(), "Ctrl-C") {
			go io.Copy(io.Discard, out)
			return p, url
		}
	}
	t.Fatalf("jobrunner dev did not start: %s%s", strings.Join(p.greeted, "\n"), &p.stderr)
	return nil, ""
}

func put(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDevOfACommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "upper.sh")
	put(t, file, `tr a-z A-Z`)
	p, url := dev(t, file)
	if status, output, _ := job(t, url, "key", `{"a":"b"}`); status != "COMPLETED" || output != `{"A":"B"}` {
		t.Errorf("%s %s", status, output)
	}
	if text := strings.Join(p.greeted, "\n"); strings.Contains(text, "Bearer key") || !strings.Contains(text, "a process for each job") {
		t.Errorf("greeted:\n%s", text)
	}
	put(t, file, `echo '"changed"'`)
	if status, output, _ := job(t, url, "key", `{}`); status != "COMPLETED" || output != `"changed"` {
		t.Errorf("%s %s", status, output)
	}
	p.interrupt()

	p, url = dev(t, file, "--env=FAULT=no model", "--simulate-gpus=h200x8", "--gpus=2")
	put(t, file, `echo "$CUDA_VISIBLE_DEVICES"; test "${CUDA_VISIBLE_DEVICES#*,}" = "$CUDA_VISIBLE_DEVICES" || { echo "$FAULT" >&2; exit 2; }`)
	if text := strings.Join(p.greeted, "\n"); !strings.Contains(text, "simulated") {
		t.Errorf("greeted:\n%s", text)
	}
	if status, _, fault := job(t, url, "key", `{}`); status != "FAILED" || fault != "no model\n(exit status 2)" {
		t.Errorf("%s %s", status, fault)
	}
}

// A handler on the SDK's stand-in runs, and is replaced when its file changes.
func TestDevOfAWorker(t *testing.T) {
	dir := sdk(t)
	file := filepath.Join(dir, "handler.py")
	const handler = "import os, runpod\nrunpod.serverless.start({'handler': lambda job: [VERSION, os.getpid()]})\n"
	put(t, file, strings.Replace(handler, "VERSION", "1", 1))
	p, url := dev(t, file)
	version := func() (version, pid int) {
		status, output, fault := job(t, url, "key", "{}")
		var both [2]int
		if err := json.Unmarshal([]byte(output), &both); status != "COMPLETED" || err != nil {
			t.Fatalf("%s %s %s", status, output, fault)
		}
		return both[0], both[1]
	}
	if v, _ := version(); v != 1 {
		t.Errorf("version %d", v)
	}
	put(t, file, strings.Replace(handler, "VERSION", "22", 1))
	late, pid := time.Now().Add(time.Minute), 0
	for v := 1; v != 22; v, pid = version() {
		if time.Now().After(late) {
			t.Fatal("the changed file didn't run within a minute")
		}
	}
	p.interrupt()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("the worker %d outlives its jobrunner", pid)
	}
}

func TestDevOfWhatCannotRun(t *testing.T) {
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
		if text := mustFail(t, environment(dir), append([]string{"dev"}, args...)...); !strings.Contains(text, want) {
			t.Errorf("%q:\n%s", args, text)
		}
	}
}

// The next jobrunner removes the processes of a killed one before it starts workers.
func TestWorkersOfAKilledDeployment(t *testing.T) {
	home := t.TempDir()
	data, config := filepath.Join(home, "data"), filepath.Join(home, "jobrunner.yaml")
	children := filepath.Join(home, "children")
	put(t, config, "engine: none\nrules:\n  - image: team/worker\n    process: {run: [sh, -c, 'sleep 1000 & echo $! >>"+children+"; wait']}\n")
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=key"), "--data="+data, "--config="+config)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v2/serverless",
		strings.NewReader(`{"name": "x", "image": "team/worker", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.Body.Close(); response.StatusCode >= http.StatusBadRequest {
		t.Fatal(response.Status)
	}
	// child waits for the n-th started process and returns its id.
	child := func(n int) (pid int) {
		for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // a real process has no virtual time
			text, _ := os.ReadFile(children)
			if lines := bytes.Split(bytes.TrimSpace(text), []byte("\n")); len(lines) >= n && len(text) > 0 {
				pid, _ = strconv.Atoi(string(lines[n-1]))
				return pid
			}
			if time.Now().After(late) {
				t.Fatalf("no worker %d within a minute", n)
			}
		}
	}
	first := child(1)
	p.kill()
	p = serve(t, environment(home, "GPUCLOUD_API_KEY=key"), "--data="+data, "--config="+config)
	second := child(2)
	if runs(first) {
		t.Errorf("%d lives on", first)
	}
	p.interrupt()
	if runs(second) {
		t.Errorf("%d outlives its deployment", second)
	}
	if !strings.Contains(p.stderr.String(), "the workers of a killed run have been ended") {
		t.Errorf("the log doesn't mention it:\n%s", &p.stderr)
	}
}

// runs reports whether a process runs. A zombie doesn't.
func runs(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
