//go:build unix

package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// newExecutor returns an executor with a rule for the image x.
func newExecutor(t *testing.T, rule string) *Executor {
	t.Helper()
	e := must.Do(New(t.Context(), Config{File: writeConfig(t, "engine: none\nrules:\n  - image: x\n"+rule), DataDir: t.TempDir()}))(t)
	t.Cleanup(func() { must.Equal(t, e.Close(), nil) })
	return e
}

func program(t *testing.T, e *Executor, image string) run.Program {
	t.Helper()
	return must.Do(e.Program(image))(t)
}

type job struct {
	run.Job
	log    *livelog.Log
	chunks []string
}

func newJob(input string) *job {
	j := &job{log: new(livelog.Log)}
	j.Job = run.Job{
		ID: "job-1", Input: []byte(input),
		Spec:  &run.Spec{Container: store.Container{Image: "x"}, Log: j.log},
		Chunk: func(output []byte) error { j.chunks = append(j.chunks, string(output)); return nil },
	}
	return j
}

// scriptRule returns a rule whose command is a shell script.
func scriptRule(text string) string {
	return "    command:\n      run:\n        - sh\n        - -c\n        - |\n          " + strings.ReplaceAll(text, "\n", "\n          ") + "\n"
}

// handle runs a script as the command of a job.
func handle(t *testing.T, script string, j *job) (string, error) {
	t.Helper()
	output, err := program(t, newExecutor(t, scriptRule(script)), "x").Handle(t.Context(), j.Job)
	return string(output), err
}

func TestCommandOutput(t *testing.T) {
	for name, c := range map[string]struct {
		script, output, log string
		chunks              []string
	}{
		"the input":            {"cat", `{"a":[1]}`, "", []string{`{"a":[1]}`}},
		"a line of the input":  {"read -r line; echo \"[$line]\"", `[{"a":[1]}]`, "", []string{`[{"a":[1]}]`}},
		"no output":            {"cat >/dev/null", "", "", nil},
		"lines":                {"echo 1; echo '\"two\"'; echo; echo '  {\"n\": 3} '", `{"n": 3}`, "", []string{"1", `"two"`, `{"n": 3}`}},
		"the last without \\n": {"echo 1; printf null", "null", "", []string{"1", "null"}},
		"text between":         {"echo loading model; echo 1; echo '{half'; echo 2; echo bye", "2", "loading model\n{half\nbye\n", []string{"1", "2"}},
		"indented":             {`printf '{\n  "a": [\n    1\n  ]\n}\n[\r\n\t2\r\n]\r\n{\n  "half"\nbye\n'`, `[2]`, "{\n  \"half\"\nbye\n", []string{`{"a":[1]}`, `[2]`}},
		"stderr":               {"echo warning >&2; echo 1", "1", "warning\n", []string{"1"}},
		"carriage returns":     {`printf '1\r\n2\r\nstep 1\rstep 2\r3\r\n'`, "3", "", []string{"1", "2", "3"}},
		"invalid UTF-8":        {`printf '"\377"\n'`, "\"\uFFFD\"", "", []string{"\"\uFFFD\""}},
		"the job's id":         {`echo "\"$GPUCLOUD_JOB_ID\""`, `"job-1"`, "", []string{`"job-1"`}},
		"a background process": {`sleep 1000 & echo 1`, "1", "", []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(`{"a":[1]}`)
			output, err := handle(t, c.script, j)
			must.Hold(t, err == nil && output == c.output && slices.Equal(j.chunks, c.chunks) && j.log.String() == c.log, "output", output, "chunks", j.chunks, "log", j.log, err, "want", c)
		})
	}
}

func TestCommandFailure(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, c := range map[string]struct{ script, output, prefix, suffix string }{
		"stderr":          {"echo 1; echo no such model >&2; exit 3", "1", "no such model\n", "(exit status 3)"},
		"a progress bar":  {`printf ' 50%%|\r100%%|\r\nno memory\n' >&2; exit 3`, "", "100%|\nno memory\n", "(exit status 3)"},
		"no stderr":       {"exit 3", "", "the command ended with exit status 3", "nothing to stderr"},
		"by a signal":     {"echo oops >&2; kill -SEGV $$", "", "oops\n", "(SIGSEGV)"},
		"the last lines":  {"i=0; while [ $i -lt 100 ]; do echo $i " + long + " >&2; i=$((i+1)); done; exit 1", "", "61 " + long, "99 " + long + "\n(exit status 1)"},
		"on the SDK":      {"echo '--- Starting Serverless Worker |  Version 1.12.0 ---'; echo 1", "", "the program starts a worker on the SDK, which needs process", "the file itself"},
		"a line too long": {"head -c 21000000 /dev/zero | tr '\\0' 1", "", "the command wrote a line of more than 20 MB", "stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := handle(t, c.script, newJob("{}"))
			must.Hold(t, err != nil && output == c.output && strings.HasPrefix(err.Error(), c.prefix) && strings.HasSuffix(err.Error(), c.suffix), "output", output, "error", err, "want", c.prefix, "…", c.suffix)
			must.Hold(t, len(err.Error()) <= maxTail+100, "an error of", len(err.Error()), "bytes")
		})
	}
}

func TestLongLineIsKept(t *testing.T) {
	want := `"` + strings.Repeat("y", 5<<20) + `"`
	j := newJob(want)
	output, err := handle(t, "cat", j)
	must.Hold(t, err == nil && output == want && len(j.chunks) == 1 && j.chunks[0] == want, len(output), "bytes of", len(want), err)
}

// A client that streams gets a line before the command ends.
func TestChunksArriveBeforeEnd(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.Succeed(t, syscall.Mkfifo(fifo, 0o600))
	j := newJob(`{}`)
	j.Chunk = func(output []byte) error {
		j.chunks = append(j.chunks, string(output))
		if len(j.chunks) == 1 { // let the command continue
			return os.WriteFile(fifo, []byte("\n"), 0o600)
		}
		return nil
	}
	output, err := handle(t, "echo 1; read -r x < "+fifo+"; echo 2", j)
	must.Hold(t, err == nil && output == "2" && len(j.chunks) == 2, "output", output, "chunks", j.chunks, err)
}

// If nobody reads the chunks, the command blocks once pipes and buffers are full.
func TestSlowReaderBlocksCommand(t *testing.T) {
	counter := filepath.Join(t.TempDir(), "counter")
	j := newJob(`{}`)
	errEnough := errors.New("enough")
	j.Chunk = func([]byte) error {
		// The command has stopped counting once the count stays the same.
		for last := ""; ; {
			text, _ := os.ReadFile(counter)
			if string(text) != "" && string(text) == last {
				break
			}
			last = string(text)
			time.Sleep(20 * time.Millisecond)
		}
		return errEnough
	}
	_, err := handle(t, `line='"`+strings.Repeat("z", 1000)+`"'; i=0; while [ $i -lt 1000000 ]; do echo "$line"; i=$((i+1)); echo $i > `+counter+`; done`, j)
	must.Require(t, errors.Is(err, errEnough), "the job ends with", err, "want", errEnough)
	text, _ := os.ReadFile(counter)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must.Hold(t, err != nil || n <= 2000, n, "lines were written although nobody read them")
}

// A command that can't start for lack of file descriptors starts when there are some.
func TestCommandAwaitsDescriptors(t *testing.T) {
	p, j, ended := program(t, newExecutor(t, scriptRule("echo 1")), "x"), newJob("{}"), make(chan error, 1)
	var limit syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	go func() { ended <- must.Err(p.Handle(t.Context(), j.Job)) }()
	j.log.Await(t, "too many open files; trying again", 1)
	must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	must.Succeed(t, <-ended)
}

func TestCancelledJobKillsCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j := newJob("{}")
	p := program(t, newExecutor(t, scriptRule("sh -c 'echo $$ >&2; exec sleep 1000' & wait")), "x")
	ended := make(chan error, 1)
	go func() {
		_, err := p.Handle(ctx, j.Job)
		ended <- err
	}()
	j.log.Await(t, "\n", 1)
	cancel()
	must.ErrorIs(t, <-ended, context.Canceled)
	pid := must.Do(strconv.Atoi(strings.TrimSpace(j.log.String())))(t)
	must.Hold(t, !alive(pid), "the process", pid, "still runs")
}

// alive reports whether a process runs. A dead, unreaped process doesn't count.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	return !strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}

func TestCommandEnvironment(t *testing.T) {
	t.Setenv("GPUCLOUD_API_KEY", "the-deployment's-key")
	t.Setenv("HF_HOME", "/models")
	t.Setenv("OTHER", "not for it")
	j := newJob("{}")
	j.Spec.Env = map[string]string{"FROM": "template", "OF": "template", "RUNPOD_AI_API_KEY": "worker-key", "PATH": "/nosuchfolder", "CUDA_VISIBLE_DEVICES": "0"}
	j.Spec.Devices = []gpu.Device{{UUID: "GPU-a"}, {UUID: "GPU-b"}}
	j.Spec.Mounts = []run.Mount{{Dir: "/data/volumes/v", Path: "/runpod-volume"}}
	e := newExecutor(t, "    command:\n      run: [env]\n      env: {FROM: rule}\n      inherit: [HF_HOME, NOSUCHVARIABLE]\n      template_env: [PATH]\n")
	must.Do(program(t, e, "x").Handle(t.Context(), j.Job))(t)
	env := map[string]string{}
	for line := range strings.Lines(j.log.String()) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"FROM": "rule", "OF": "template", "RUNPOD_AI_API_KEY": "worker-key", "HF_HOME": "/models", "HOME": os.Getenv("HOME"), "PATH": "/nosuchfolder",
		"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b", "GPUCLOUD_VOLUME": "/data/volumes/v", "PYTHONUNBUFFERED": "1",
	} {
		must.Equal(t, env[name], want, name)
	}
	for _, name := range []string{"GPUCLOUD_API_KEY", "OTHER", "NOSUCHVARIABLE"} {
		value, ok := env[name]
		must.Hold(t, !ok, "the command has the variable", name, value)
	}
}

func TestCommandWords(t *testing.T) {
	for _, c := range []store.Container{
		{Image: "x", Entrypoint: []string{"sh", "-c"}, Args: `'echo "$0"' "two words"`}, // as an older version stored it
		{Image: "x", Args: `{"entrypoint":["sh","-c"],"cmd":["echo \"$0\"","two words"]}`},
	} {
		checkWords(t, c)
	}
	rule := &newExecutor(t, "    process: {template: command}\n").rules[0]
	for _, c := range []store.Container{{Image: "x"}, {Image: "x", Args: "'"}, {Image: "x", Args: `{"entrypoint":[],"cmd":[]}`}} {
		must.Hold(t, must.Err(rule.Process.argv(c)) != nil, c, "has a command")
	}
}

func checkWords(t *testing.T, c store.Container) {
	t.Helper()
	for process, want := range map[string]string{
		"run: [echo, a]":                     "echo|a",
		"{run: [echo, a], template: args}":   `echo|a|echo "$0"|two words`,
		"{run: [echo], template: command}":   `sh|-c|echo "$0"|two words`,
		"template: command":                  `sh|-c|echo "$0"|two words`,
		"{dir: /, run: [./bin/sh, ' a  b']}": "./bin/sh| a  b",
	} {
		if !strings.HasPrefix(process, "{") {
			process = "{" + process + "}"
		}
		argv := must.Do(newExecutor(t, "    process: "+process+"\n").rules[0].Process.argv(c))(t)
		must.Equal(t, strings.Join(argv, "|"), want, process, argv)
	}
}

func TestMissingProgram(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	must.Succeed(t, os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o700))
	e := newExecutor(t, "    command:\n      dir: "+dir+"\n      run: [./tool]\n")
	must.Succeed(t, os.Remove(tool))
	must.ErrorContains(t, must.Err(program(t, e, "x").Handle(t.Context(), newJob("{}").Job)), tool)
}
