//go:build unix

package main_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
)

// transcript collects the output of a jobrunner dev.
type transcript struct {
	t   *testing.T
	cmd *exec.Cmd
	livelog.Log
}

func (s *transcript) waitUntil(pattern string) string {
	s.t.Helper()
	var match string
	s.Until(s.t, pattern, func(text string) bool {
		match = regexp.MustCompile(pattern).FindString(text)
		return match != ""
	})
	return match
}

func (s *transcript) expectAbsent(text string) {
	s.t.Helper()
	all := s.String()
	must.Hold(s.t, !strings.Contains(all, text), text, "is shown", all)
}

func (s *transcript) interrupt() {
	s.t.Helper()
	must.Succeed(s.t, s.cmd.Process.Signal(os.Interrupt))
	must.Equal(s.t, s.cmd.Wait(), nil, "jobrunner dev failed and printed", s)
}

func devCommand(t *testing.T, path string, file string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"dev", "--listen=127.0.0.1:0", file}, args...)...)
	cmd.Env = environment(t.TempDir(), "GPUCLOUD_API_KEY=k", "UV_PROJECT_ENVIRONMENT=elsewhere")
	if path != "" {
		cmd.Env = append(cmd.Env, "PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	return cmd
}

func startDev(t *testing.T, file string, args ...string) *transcript {
	t.Helper()
	return startDevWithPath(t, "", file, args...)
}

// startDevWithPath starts jobrunner dev with a folder at the front of PATH.
func startDevWithPath(t *testing.T, path, file string, args ...string) *transcript {
	t.Helper()
	s := &transcript{t: t, cmd: devCommand(t, path, file, args...)}
	s.cmd.Stdout, s.cmd.Stderr = s, s
	must.Succeed(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // fails after a Wait of the test
	})
	return s
}

// runDevOnce runs jobrunner dev --once with an input on stdin.
func runDevOnce(t *testing.T, file string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return execute(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), `{"c": 3}`, append([]string{"dev", "--listen=127.0.0.1:0", file, "--once"}, args...)...)
}

// dev --once prints a job's output on stdout. Its exit status says how the job ended.
func TestDevOnce(t *testing.T) {
	t.Parallel()
	dir := sdkFolder(t)
	file, input := filepath.Join(dir, "handler.py"), filepath.Join(dir, "input.json")
	writeFile(t, file, `import os, runpod, time
def handler(job):
    print("told to", job["input"].get("op"), flush=True)
    match job["input"].get("op"):
        case "fail": return {"error": "it is Friday", "at": 5}
        case "raise": raise ValueError("it is Saturday")
        case "die": os._exit(3)
        case "set": return {1}
        case "sleep": time.sleep(600)
    return {"got": job["input"]}
runpod.serverless.start({"handler": handler})
`)
	writeFile(t, input, `{"input": {"a": 1}, "policy": {"ttl": 60000}}`)
	for name, c := range map[string]struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		"completed":      {[]string{`--input={"b": 2}`}, 0, "{\n  \"got\": {\n    \"b\": 2\n  }\n}\n", "COMPLETED"},
		"no input":       {nil, 0, "{\n  \"got\": {}\n}\n", "told to None"},
		"from a file":    {[]string{"--input=" + input}, 0, "{\n  \"got\": {\n    \"a\": 1\n  }\n}\n", "COMPLETED"},
		"from stdin":     {[]string{"--input=-"}, 0, "{\n  \"got\": {\n    \"c\": 3\n  }\n}\n", "COMPLETED"},
		"failed":         {[]string{`--input={"op": "fail"}`}, 1, "{\n  \"at\": 5\n}\n", "the job is FAILED: it is Friday"},
		"raised":         {[]string{`--input={"op": "raise"}`}, 1, "", "\nValueError: it is Saturday\n"},
		"unserializable": {[]string{`--input={"op": "set"}`}, 1, "", "or could not send the output; the last error in its log: Error while returning job result. | Object of type set is not JSON serializable"},
		"died":           {[]string{`--input={"op": "die"}`}, 1, "", "its worker died: exit status 3"},
		"timed out":      {[]string{`--input={"input": {"op": "sleep"}, "policy": {"executionTimeout": 5000}}`}, 3, "", "TIMED_OUT"},
		"not an input":   {[]string{"--input=[1]"}, 2, "", "invalid --input [1]: expected a JSON object such as {\"prompt\": \"hello\"}, or a file that has one"},
		"nor a file":     {[]string{"--input=absent"}, 2, "", "expected a JSON object or a file: open absent"},
		"not local":      {[]string{"--listen=:0"}, 2, "", "allow this with jobrunner serve --allow-remote"},
		"no object":      {[]string{"--input=" + file}, 2, "", "expected a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.status == 3 {
				t.Skip("takes five seconds of real time, the API's shortest executionTimeout")
			}
			stdout, stderr, status := runDevOnce(t, file, c.args...)
			must.Hold(t, status == c.status && stdout == c.stdout && strings.Contains(stderr, c.stderr), "it ended with", status, "and wrote", stdout, "and to stderr", stderr)
		})
	}
	const uncalled = "import json\ndef handler(job):\n    return 1\n"
	for name, c := range map[string]struct {
		text, stdout string
		status       int
		stderr       string
	}{
		"uncalled.py":  {uncalled, "", 2, ", but doesn't call it: import runpod and call runpod.serverless.start"},
		"broken.py":    {"import runpod, nosuchmodule\n", "", 2, "the handler does not start: it ended right after its start, with exit status 1: ModuleNotFoundError: No module named 'nosuchmodule'"},
		"forgotten.py": {"import runpod\n", "", 2, "never asked for a job: does its program call serverless.start"},
		"greets.sh":    {"echo hello", "", 4, "It has no output: "},
		"prints.py":    {"print('loading the model')\n", "", 4, "without an output"},
		"called.py":    {uncalled + "print(handler({}))\n", "1\n", 0, "COMPLETED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(sdkFolder(t), name)
			writeFile(t, file, c.text)
			stdout, stderr, status := runDevOnce(t, file)
			must.Hold(t, status == c.status && stdout == c.stdout && strings.Contains(stderr, c.stderr), "it ended with", status, "and wrote", stdout, "and to stderr", stderr)
		})
	}
}

// Each change of the handler or its imports sends a job and shows its result. Log lines and printed lines are distinguished.
func TestDevSendsAJobAfterEachChange(t *testing.T) {
	t.Parallel()
	dir := sdkFolder(t)
	file, helper := filepath.Join(dir, "handler.py"), filepath.Join(dir, "pkg", "helper.py")
	writeFile(t, helper, "VERSION = 1\n")
	writeFile(t, file, `import json, os, runpod
from pkg import helper
def log(level, message, job=None):
    print(json.dumps({"requestId": job, "message": message, "level": level}), flush=True)
def handler(job):
    print("\x1b[31mhello\x1b[0m\x1b]0;owned\x07", flush=True)
    print("pid", os.getpid(), flush=True)
    log("DEBUG", "a heartbeat")
    log("INFO", "two\nlines", job["id"])
    return helper.VERSION
runpod.serverless.start({"handler": handler})
`)
	input := filepath.Join(dir, "input.json")
	writeFile(t, input, `{"a": 1}`)
	s := startDev(t, file, "--input="+input)
	s.waitUntil(`In the browser: http://\S+/#code=\w{20,} `)
	s.waitUntil(`Python \d+\.\d+\.\d+ from PATH: python3`)
	s.waitUntil(`\d\d:\d\d:\d\d │     hello\\u001b]0;owned\\u0007\n`) // escaped
	s.waitUntil(`\d\d:\d\d:\d\d INFO  \[…[0-9a-z-]{12}\] two\n {15}lines\n`)
	id := strings.TrimSuffix(strings.TrimPrefix(s.waitUntil(`sent \(job [0-9a-z-]{39}\)\n`), "sent (job "), ")\n")
	s.waitUntil(`JOB   COMPLETED in \S+, after \S+ in the queue \(job ` + id + `\)\n {15}1\n`)
	writeFile(t, helper, "VERSION = 2\n\n")
	s.waitUntil(`DEV   pkg/helper.py changed: the worker is replaced once its jobs have ended\n`)
	s.waitUntil(`JOB   COMPLETED .*\n {15}2\n`)
	writeFile(t, input, `{"a": 22}`)
	s.waitUntil(`(?s)DEV   input.json changed: the job is sent again\n.* pid .*JOB   COMPLETED .*\n {15}2\n`)
	pids := regexp.MustCompile(`pid (\d+)\n`).FindAllStringSubmatch(s.String(), -1)
	writeFile(t, file, "import runpod\nraise SystemExit('no model here')\n")
	s.waitUntil(`WARN  a worker failed: the endpoint's next worker starts after a pause\n {15}it ended right after its start, with exit status 1( \(meanwhile .*\))?\n`)
	s.expectAbsent("heartbeat")
	s.expectAbsent("\x1b")
	s.expectAbsent(`"requestId"`)
	s.interrupt()
	must.Hold(t, len(pids) == 3 && pids[0][1] != pids[1][1] && pids[1][1] == pids[2][1], "only a changed program may replace the worker; the workers of the 3 jobs were", pids)
	for _, match := range pids {
		pid, _ := strconv.Atoi(match[1])
		must.Hold(t, !isRunning(pid), "the worker", pid, "outlives its jobrunner")
	}
}

// If a client deletes the endpoint, each change of the handler says so.
func TestDevWithoutItsEndpoint(t *testing.T) {
	t.Parallel()
	file := filepath.Join(sdkFolder(t), "handler.py")
	handler := "import runpod\nrunpod.serverless.start({'handler': lambda job: 1})\n"
	writeFile(t, file, handler)
	input := file + ".json"
	writeFile(t, input, "{}")
	s := startDev(t, file, "--input", input)
	endpoint := regexp.MustCompile(`(http://\S+/v2/)(\S+)/runsync`).FindStringSubmatch(s.runURL())
	resp, text, err := send(t.Context(), http.MethodDelete, endpoint[1]+"serverless/"+endpoint[2], "k", "")
	must.Hold(t, err == nil && resp.StatusCode == http.StatusNoContent, "the deletion returned", text, err)
	writeFile(t, input, "{ }")
	s.waitUntil(`(?s)DEV   handler.py.json changed[^\n]*\n\S+ ERROR .*404 Not Found`)
	for n := range 2 {
		writeFile(t, file, handler+strings.Repeat("\n", n+1))
		s.waitUntil(strings.Repeat(`(?s)ERROR the endpoint was deleted: restart jobrunner dev\n.*`, n+1))
	}
	s.interrupt()
}

func TestDevLogLevel(t *testing.T) {
	t.Parallel()
	file := filepath.Join(sdkFolder(t), "handler.py")
	writeFile(t, file, `import json, os, runpod
print(json.dumps({"message": "a heartbeat", "level": "DEBUG"}), flush=True)
print(json.dumps({"message": "a warning", "level": "WARN"}), flush=True)
print("level", os.environ["RUNPOD_DEBUG_LEVEL"], flush=True)
runpod.serverless.start({"handler": lambda job: 1})
`)
	s := startDev(t, file, "--log-level=debug")
	s.waitUntil(`DEBUG a heartbeat\n`)
	s.waitUntil(`│     level DEBUG\n`)
	s.interrupt()
	s = startDev(t, file, "--log-level=error")
	s.waitUntil(`│     level ERROR\n`)
	s.expectAbsent("a warning")
	s.interrupt()
}

// The Python of the handler's folder runs the handler, for each project tool.
func TestDevPython(t *testing.T) {
	acctest.LeaveToCI(t, "TestDevOnce runs a handler")
	t.Parallel()
	python.Need(t)
	program := must.Do(exec.LookPath("python3"))(t)
	writeScript := func(file, text string) {
		t.Helper()
		writeFile(t, file, "#!/bin/sh\n"+text)
		must.Succeed(t, os.Chmod(file, 0o700))
	}
	for name, c := range map[string]struct {
		files   map[string]string // in the handler's folder
		tool    string            // fake tool on PATH, which sets the variable CHOSEN
		chosen  string            // CHOSEN in the handler
		python  string            // what dev prints about the Python
		install string            // the hint if the SDK is missing
		short   bool              // runs in a short run, too
	}{
		".venv":                   {map[string]string{".venv/pyvenv.cfg": ""}, "", ".venv", "from .venv: ", "/.venv/bin/python -m pip install runpod", false},
		".venv in a uv project":   {map[string]string{".venv/pyvenv.cfg": "", "uv.lock": ""}, "uv", ".venv", "from .venv: ", "pip install runpod", true},
		"uv":                      {map[string]string{"uv.lock": ""}, "uv", "uv", "from uv: ", "uv add runpod", false},
		"uv by its configuration": {map[string]string{"pyproject.toml": "[tool.uv]\n"}, "uv", "uv", "from uv: ", "uv add runpod", false},
		"uv by its own comment":   {map[string]string{".venv/pyvenv.cfg": "", "handler.py": "# /// script\n# dependencies = []\n# ///\n"}, "uv", "uv", "from uv: ", "uv add --script " /* FILE runpod */, true},
		"poetry":                  {map[string]string{"poetry.lock": ""}, "poetry", "poetry", "from poetry: ", "poetry add runpod", false},
		"conda":                   {map[string]string{"environment.yml": "name: vision\n"}, "conda", "conda", "from conda environment vision: ", "conda run -n vision python -m pip install runpod", true},
		"requirements":            {map[string]string{"requirements.txt": "numpy\n"}, "", "", "from PATH: python3", ".venv/bin/pip install -r requirements.txt runpod", true},
		"a lock without its tool": {map[string]string{"poetry.lock": ""}, "", "", "from PATH: python3", "/001 && python3 -m venv .venv && .venv/bin/pip install runpod", true},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !c.short {
				t.Skip("a short run tests one case of each kind")
			}
			t.Parallel()
			dir, toolFolder := sdkFolder(t), t.TempDir()
			for file, text := range c.files {
				writeFile(t, filepath.Join(dir, file), text)
			}
			if strings.HasPrefix(c.chosen, ".") {
				writeScript(filepath.Join(dir, c.chosen, "bin", "python"), "export CHOSEN="+c.chosen+"\nexec "+program+` "$@"`)
			}
			if c.tool != "" { // called as: TOOL run … python ARGUMENTS
				chosen := filepath.Join(toolFolder, "python-of-tool")
				writeScript(chosen, "export CHOSEN="+c.tool+"\nexec "+program+` "$@"`)
				tool := ""
				if c.tool != "conda" { // the others print the path of their Python; they need the user's variables, which a worker doesn't get
					tool = `[ "$UV_PROJECT_ENVIRONMENT" ] && echo ` + chosen + "\nexit"
				}
				writeScript(filepath.Join(toolFolder, c.tool), tool+`
[ "$1" = run ] || exit 1
while [ "$1" != python ]; do shift; done
shift
export CHOSEN=`+c.tool+"\nexec "+program+` "$@"`)
			}
			file := filepath.Join(dir, "handler.py")
			writeFile(t, file, c.files["handler.py"]+"import os, runpod\nrunpod.serverless.start({'handler': lambda job: os.environ.get('CHOSEN', '')})\n")
			s := startDevWithPath(t, toolFolder, file, "--input={}")
			s.waitUntil(`Python \d\S+ ` + regexp.QuoteMeta(c.python))
			s.waitUntil(`COMPLETED .*\n +"` + regexp.QuoteMeta(c.chosen) + `"\n`)
			if project := c.files["pyproject.toml"]; project != "" {
				writeFile(t, filepath.Join(dir, "pyproject.toml"), project+"\n")
				s.waitUntil(`DEV   pyproject.toml changed: the worker is replaced once its jobs have ended\n`)
			}
			s.interrupt()

			must.Succeed(t, os.RemoveAll(filepath.Join(dir, "runpod")))
			cmd := devCommand(t, toolFolder, file)
			text, err := cmd.CombinedOutput()
			must.Hold(t, err != nil && strings.Contains(string(text), c.install) && bytes.Count(text, []byte("\n")) == 1, "without the SDK, dev ended with", err, "and printed", string(text))
		})
	}
}

// The handler's Python is checked with the variables of the workers.
func TestDevChecksTheWorkersEnvironment(t *testing.T) {
	t.Parallel()
	modules, file := sdkFolder(t), filepath.Join(t.TempDir(), "handler.py")
	writeFile(t, file, "import runpod\nrunpod.serverless.start({'handler': lambda job: 1})\n")
	stdout, stderr, status := runDevOnce(t, file, "--env=PYTHONPATH="+modules)
	must.Hold(t, status == 0 && stdout == "1\n", "with a variable of the workers, it ended with", status, "and wrote", stdout, stderr)
	env := environment(t.TempDir(), "PYTHONPATH="+modules)
	_, stderr, status = execute(t, env, "", "dev", file, "--once")
	must.Hold(t, status == 2 && strings.Contains(stderr, "which is missing in its Python"), "with a variable of the shell, it ended with", status, "and wrote", stderr)
}

// dev prints why a project tool can't create its environment. doctor doesn't run the tool.
func TestProjectToolFails(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "uv.lock"), "")
	writeFile(t, filepath.Join(dir, "handler.py"), "import runpod\n")
	writeFile(t, filepath.Join(path, "uv"), "#!/bin/sh\ntouch "+path+"/ran\necho no such index >&2\nexit 2\n")
	must.Succeed(t, os.Chmod(filepath.Join(path, "uv"), 0o700))
	run := func(args ...string) (output string) {
		cmd := exec.Command(binary, args...)
		cmd.Dir, cmd.Env = dir, environment(t.TempDir(), "PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput() // doctor may warn
		return string(out)
	}
	out := run("doctor", "--listen=127.0.0.1:0")
	_, err := os.Stat(filepath.Join(path, "ran"))
	must.Hold(t, err != nil && strings.Contains(out, "from uv, which prepares it when a handler starts"), "doctor ran the tool, or says", out)
	out = run("dev", "handler.py", "--once")
	must.Hold(t, strings.HasPrefix(out, "no such index\njobrunner: preparing the Python from uv failed: ") && strings.HasSuffix(out, "/uv run python -c 'import sys; print(sys.executable)': exit status 2\n"), "dev says", out)
}
