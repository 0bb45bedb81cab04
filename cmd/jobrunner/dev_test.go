//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func runJob(t *testing.T, url, input string) (status, output, jobError string) {
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
	must.Succeed(t, err, text)
	return j.Status, string(j.Output), j.Error
}

func TestDevRunsCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a b", "upper.sh")
	writeFile(t, file, `tr a-z A-Z`)
	writeFile(t, filepath.Join(filepath.Dir(file), "test_input.json"), `{}`)
	gpus := filepath.Join(t.TempDir(), "gpus.yaml")
	writeFile(t, gpus, "gpus: [{type: Tesla T4, memory: 16, count: 2}]") // in no pool
	s := startDev(t, file, "--simulate-gpus="+gpus)
	url := s.runURL()
	s.waitUntil(`start with --input '\S+/a b/test_input.json', which`)
	status, output, _ := runJob(t, url, `{"a":"b"}`)
	must.Hold(t, status == "COMPLETED" && output == `{"A":"B"}`, "the job is", status, "with the output", output)
	s.waitUntil("a process for each job")
	s.expectAbsent("Bearer k")
	writeFile(t, file, `echo "\"$CUDA_VISIBLE_DEVICES\""`)
	status, output, _ = runJob(t, url, `{}`)
	must.Hold(t, status == "COMPLETED" && strings.Contains(output, "GPU-") && !strings.Contains(output, ","), "the job is", status, "with the output", output, "want one GPU, the default")
	s.interrupt()

	s = startDev(t, file, "--env=FAULT=no model", "--env=GPUCLOUD_VOLUME=/tmp", "--simulate-gpus=h200x8", "--gpus=2")
	writeFile(t, file, `echo "$CUDA_VISIBLE_DEVICES"; test "${CUDA_VISIBLE_DEVICES#*,}" = "$CUDA_VISIBLE_DEVICES" || { echo "$FAULT" >&2; exit 2; }`)
	s.waitUntil("simulated")
	status, _, fault := runJob(t, s.runURL(), `{}`)
	must.Hold(t, status == "FAILED" && fault == "no model\n(exit status 2)", "the job is", status, "with the error", fault)
}

func TestDevRejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "notes.txt"), "")
	pipe := filepath.Join(dir, "pipe.py")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Skipf("%s %v", out, err)
	}
	for want, args := range map[string][]string{
		"chmod +x":                       {filepath.Join(dir, "notes.txt")},
		"doesn't exist":                  {filepath.Join(dir, "nosuch.py")},
		"is not a regular file":          {pipe},
		"invalid --simulate-gpus":        {"/bin/true", "--listen=127.0.0.1:0", "--simulate-gpus=nosuch"},
		"expected at most 2, the number": {"/bin/true", "--listen=127.0.0.1:0", "--simulate-gpus=l4x2", "--gpus=3"},
		"expected at least 0":            {"/bin/true", "--listen=127.0.0.1:0", "--gpus=-1"},
		"NAME=VALUE":                     {"/bin/true", "--listen=127.0.0.1:0", "--env=x"},
		"sets this variable for each":    {"/bin/true", "--listen=127.0.0.1:0", "--env=CUDA_VISIBLE_DEVICES=1"},
		`"a\xff": expected UTF-8`:        {"a\xff"},
		"other machines":                 {"/bin/true", "--listen=0.0.0.0:0"},
		"with --listen":                  {"/bin/true", "--listen=127.0.0.1:1"},
	} {
		if want == "with --listen" && os.Getuid() == 0 {
			continue // root can listen on port 1
		}
		text := mustFail(t, environment(dir), append([]string{"dev"}, args...)...)
		must.Hold(t, strings.Contains(text, want), "with the arguments", args, "dev printed", text, "want", want)
	}
}

// The next jobrunner removes the processes of a killed one before it starts workers.
func TestWorkersOfAKilledDeployment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data, config := filepath.Join(home, "data"), filepath.Join(home, "jobrunner.yaml")
	children := filepath.Join(home, "children")
	writeFile(t, config, "engine: none\nrules:\n  - image: team/worker\n    process: {run: [sh, -c, 'sleep 1000 & echo $! >>"+children+"; wait']}\n")
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--data="+data, "--config="+config)
	p.call(http.MethodPost, "/v2/serverless", `{"name": "x", "image": "team/worker", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`, nil)
	// awaitChild waits for the n-th started process and returns its id.
	awaitChild := func(n int) (pid int) {
		p.waitUntil(fmt.Sprint("the process ", n), func() bool {
			text, _ := os.ReadFile(children)
			pids := strings.Fields(string(text))
			if len(pids) >= n {
				pid, _ = strconv.Atoi(pids[n-1])
			}
			return len(pids) >= n
		})
		return pid
	}
	firstPID := awaitChild(1)
	p.kill()
	p = serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--data="+data, "--config="+config)
	secondPID := awaitChild(2)
	must.Hold(t, !isRunning(firstPID), "the process", firstPID, "outlives the kill")
	p.interrupt()
	must.Hold(t, !isRunning(secondPID), "the process", secondPID, "outlives its deployment")
}

// The next ephemeral jobrunner removes the network volumes of a killed one.
func TestVolumesOfAKilledDeployment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := environment(home, "GPUCLOUD_API_KEY=k", "TMPDIR="+home)
	volumesExist := func() bool { return len(must.Do(exec.Command("find", home, "-name", "volumes").Output())(t)) > 0 }
	config := filepath.Join(t.TempDir(), "jobrunner.yaml")
	writeFile(t, config, "engine: none\nrules:\n  - image: team/worker\n    process: {run: [sleep, '1000']}\n")
	p := serve(t, env, "--ephemeral", "--config="+config)
	p.call(http.MethodPost, "/v2/serverless", `{"name": "x", "image": "team/worker", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}, "networkVolumes": ["`+p.createVolume()+`"]}`, nil)
	p.waitUntil("the volume's folder", volumesExist)
	p.kill()
	serve(t, env, "--ephemeral").interrupt()
	must.Hold(t, !volumesExist(), "the volumes are left")
}

// isRunning reports whether a process runs. A zombie doesn't.
func isRunning(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// runURL returns the URL that runs a job on the deployment of jobrunner dev.
func (s *transcript) runURL() string { return s.waitUntil(`http://\S+/runsync`) }

// dev prints once how each job ended, with the error of a failed job. It prints the output only of its own --input job.
func TestDevPrintsResults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "my handler.sh")
	writeFile(t, file, `read input; case "$input" in *fail*) printf "no model %03000d" 0 >&2; exit 2;; esac; echo '"done"'`)
	s := startDev(t, file, `--input={"own": 1}`)
	s.waitUntil(`jobrunner job run 'my handler' --input '{}'\n`) // the endpoint has the file's name
	sentLine := s.waitUntil(`sent \(job [0-9a-z-]{39}\)`)
	s.waitUntil(`JOB   COMPLETED in \S+, after \S+ in the queue ` + regexp.QuoteMeta(strings.TrimPrefix(sentLine, "sent ")) + `\n {15}"done"\n`)
	runJob(t, s.runURL(), `{}`)
	s.waitUntil(`JOB   COMPLETED in \S+, after \S+ in the queue \(job sync-[0-9a-z-]{39}\)\n`)
	runJob(t, s.runURL(), `{"fail": 1}`)
	s.waitUntil(`JOB   FAILED in \S+, after \S+ in the queue \(job sync-[0-9a-z-]{39}\)\n {15}no model 0{491}…0+ \(exit status 2\)\n`)
	all := s.String()
	must.Hold(t, strings.Count(all, "COMPLETED") == 2 && strings.Count(all, `"done"`) == 1, "expected each end once in", all)
	s.interrupt()
}

// dev prints a handler's progress updates, and that it cancels the job when the file changes.
func TestDevPrintsProgress(t *testing.T) {
	t.Parallel()
	dir := sdkFolder(t)
	file := filepath.Join(dir, "handler.py")
	const handler = `import runpod, time
def handler(job):
    runpod.serverless.progress_update(job, "a third\nof it")
    time.sleep(600)
runpod.serverless.start({"handler": handler})
`
	writeFile(t, file, handler)
	s := startDev(t, file, "--input={}")
	s.waitUntil(`JOB   progress: a third of it\n`)
	writeFile(t, file, handler+"# changed\n")
	s.waitUntil(`JOB   cancelled, because the file changed \(job [0-9a-z-]{39}\)\n`)
	s.interrupt()
}

// A handler that can't start is explained once.
func TestDevShowsAnErrorOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(sdkFolder(t), "handler.py")
	writeFile(t, file, "import runpod\nprint('loads', flush=True)\nraise SystemExit('no model here')\n")
	s := startDev(t, file)
	s.waitUntil(`(?s)no model here\n.*the same error again\n.*the same error again\n`)
	all := s.String()
	must.Hold(t, strings.Count(all, "no model here") == 1, "the error is shown again:", all)
	writeFile(t, file, "import runpod\nprint('loads', flush=True)\nraise SystemExit('no disk here')\n")
	s.waitUntil(`(?s)no disk here\n.*the same error again\n`)
	writeFile(t, file, "import runpod\nprint('loads', flush=True)\nrunpod.serverless.start({'handler': lambda job: 1})\n")
	s.waitUntil(`(?s)no disk here\n.*│     loads\n.*--- Starting`)
	s.interrupt()
}

// If a generator's output is empty, dev says that it streamed chunks.
func TestDevPrintsChunkHint(t *testing.T) {
	t.Parallel()
	file := filepath.Join(sdkFolder(t), "handler.py")
	writeFile(t, file, `import runpod
def handler(job):
    yield {"a": 1}
    yield {"a": 2}
runpod.serverless.start({"handler": handler})
`)
	stdout, stderr, status := runDevOnce(t, file)
	must.Hold(t, stdout == "[]\n" && status == 0 && strings.Contains(stderr, "Its handler streamed 2 chunks, which are not in the output (return_aggregate_stream adds them): "), "it ended with", status, "and wrote", stdout, "and to stderr", stderr)
}

// dev --once uses a free port by default. It exits with 4 if something other than the job fails, and with 2 if it is called wrongly.
func TestDevOnceListens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "one.sh")
	writeFile(t, file, "echo 1")
	if l, err := net.Listen("tcp", "127.0.0.1:8420"); err == nil { // otherwise another process uses it
		defer l.Close()
	}
	env := environment(t.TempDir())
	out, stderr, code := execute(t, env, "", "dev", file, "--once")
	must.Hold(t, out == "1\n" && code == 0, "exit status", code, "and output", out, stderr)
	takenListener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer takenListener.Close()
	_, stderr, code = execute(t, env, "", "dev", file, "--once", "--listen="+takenListener.Addr().String())
	must.Hold(t, code == 4 && strings.Contains(stderr, "choose another address with --listen; port 0 is any"), "exit status", code, stderr)
	_, stderr, code = execute(t, env, "", "dev", file, "--once", "--workers=0")
	must.Hold(t, code == 2 && strings.Contains(stderr, "invalid --workers: expected at least 1, got 0"), "no worker:", code, stderr)
}

// A stop prints how many jobs it waits for. A second Ctrl-C ends dev, its worker and the worker's children.
func TestSecondInterruptKillsJobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, child := filepath.Join(dir, "blocks.sh"), filepath.Join(dir, "child")
	writeFile(t, file, "sleep 1000 & echo $! >"+child+".part; mv "+child+".part "+child+"; wait")
	s := startDev(t, file, "--input={}")
	var pid int
	waitUntil(t, "the job's child", func() bool {
		text, _ := os.ReadFile(child)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid != 0
	})
	must.Succeed(t, s.cmd.Process.Signal(os.Interrupt))
	s.waitUntil(`stopping: running jobs \(1\) have 3s to end, .*; Ctrl-C again ends them at once\n`)
	s.interrupt()
	must.Hold(t, !isRunning(pid), "the child", pid, "outlives jobrunner dev")
}
