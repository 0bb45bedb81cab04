//go:build unix

package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func TestProcess(t *testing.T) {
	e := newExecutor(t, "    process:\n      dir: /\n      run: [sh, -c, 'echo $$ at $PWD: $GREETING $1; exec sleep 1000', sh]\n      template: args\n")
	log := new(livelog.Log)
	p := must.Do(program(t, e, "x:1").Start(t.Context(), run.Spec{
		Container: store.Container{Image: "x", Args: "'two words'", Env: map[string]string{"GREETING": "hello", "TOKEN": "the-secret"}}, Log: log,
	}))(t)
	defer p.Stop(0)
	log.Await(t, "\n", 1)
	id, rest, _ := strings.Cut(log.String(), " ")
	must.Equal(t, rest, "at /: hello two words\n", "log", log)
	pid := must.Do(strconv.Atoi(id))(t)
	line, err := os.ReadFile("/proc/" + id + "/cmdline")
	must.Hold(t, err != nil || !strings.Contains(string(line), "the-secret"), "the command line contains a secret:", string(line))
	p.Stop(0)
	must.Hold(t, !alive(pid), "the process", pid, "still runs")
	must.Hold(t, p.Exit().Text == "stopped by the jobrunner" && p.Usage().Memory == 0, "exit", p.Exit().Text, "usage", p.Usage())
}

func TestProcessFindsNoJobsOfKilledWorker(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{sdkJobsFile, "model.bin"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	e := newExecutor(t, "    process:\n      dir: "+dir+"\n      run: [ls, -A]\n")
	log := new(livelog.Log)
	p := must.Do(program(t, e, "x").Start(t.Context(), run.Spec{Log: log}))(t)
	defer p.Stop(0)
	log.Await(t, "\n", 1)
	<-p.Done()
	must.Equal(t, log.String(), "model.bin\n", "the files in the volume")
}

func TestUnknownImages(t *testing.T) {
	e := newExecutor(t, "    process: {run: [sh]}\n")
	_, err := e.Program("acme/model:2")
	must.Require(t, err != nil, "a program runs it")
	for _, want := range []string{"acme/model:2", e.file, "engine: none", "docs/reference/jobrunner.md"} {
		must.Hold(t, strings.Contains(err.Error(), want), err, "doesn't mention", want)
	}
	must.Hold(t, must.Err(e.Program("--privileged")) != nil, "an option is accepted as an image")
	must.Equal(t, strings.Join(e.Describe(), "\n"), e.file+": 1 × process\ncontainers: off", "the description")
}

func TestHandlers(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text    string
		mode    os.FileMode
		perJob  bool
		output  string // for the input "hello"; "" if not run
		wantErr string
	}{
		"plain.py":    {"import sys, json\n# import runpod later\nprint(json.dumps(json.load(sys.stdin).upper()))\n", 0o600, true, `"HELLO"`, ""},
		"sdk.py":      {"import json\nimport runpod\n", 0o600, false, "", ""},
		"from.py":     {"try:\n    from runpod import serverless\nexcept ImportError: pass\n", 0o600, false, "", ""},
		"list.py":     {"import os as o, runpod as r\n", 0o600, false, "", ""},
		"row.py":      {"x = '\"\"\"' # '''\nimport json; import runpod\n", 0o600, false, "", ""},
		"try.py":      {"try: import runpod\nexcept ImportError: pass\n", 0o600, false, "", ""},
		"mark.py":     {"\ufeffimport runpod\n", 0o600, false, "", ""},
		"todo.py":     {"\"\"\"Like\nimport runpod\n\"\"\"\n# later: import runpod\nu = 'x: import runpod'\nprint(1)\n", 0o600, true, "1", ""},
		"other.py":    {"import runpodlike, my.runpod\n", 0o600, true, "", ""},
		"script.sh":   {"cat\n", 0o600, true, `"hello"`, ""},
		"tool":        {"#!/bin/sh\npwd >&2; cat\n", 0o700, true, `"hello"`, ""},
		"with space":  {"#!/bin/sh\ncat\n", 0o700, true, `"hello"`, ""},
		"handler.js":  {"", 0o600, false, "", "chmod +x"},
		"nosuch/x.py": {"", 0, false, "", "doesn't exist"},
		"folder/":     {"", 0, false, "", "is not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if c.mode != 0 {
				must.Succeed(t, os.WriteFile(file, []byte(c.text), c.mode))
			} else if strings.HasSuffix(name, "/") {
				must.Succeed(t, os.Mkdir(file, 0o700))
			}
			h, err := NewHandler("dev/handler", file)
			if c.wantErr != "" {
				must.ErrorContains(t, err, c.wantErr)
				return
			}
			must.Require(t, err == nil && h.PerJob == c.perJob, "the handler is", h, err, "want PerJob", c.perJob)
			e := must.Do(New(t.Context(), Config{Handlers: []Handler{h}}))(t)
			defer func() { _ = e.Close() }()
			p := program(t, e, "dev/handler:7")
			must.Hold(t, (p.Handle != nil) == c.perJob && (p.Start != nil) != c.perJob, "the program is", p, "want Handle", c.perJob, "and otherwise Start")
			if c.output == "" {
				return
			}
			j := newJob(`"hello"`)
			j.Spec = &run.Spec{Log: j.log}
			output, err := p.Handle(t.Context(), j.Job)
			must.Hold(t, err == nil && string(output) == c.output, "output", string(output), err)
			must.Hold(t, name != "tool" || strings.TrimSpace(j.log.String()) == dir, "it runs in", j.log)
		})
	}
}

// The documentation's example is valid. Its rule with a command runs, and its workers are processes.
func TestDocumentationExample(t *testing.T) {
	python.Need(t)
	const file = "../../../examples/jobrunner.yaml"
	e := &Executor{file: file, rules: must.Do(readFile(file))(t).Rules}
	j := newJob(`{"text": "hello world"}`)
	output, err := program(t, e, "example/upper:1").Handle(t.Context(), j.Job)
	want := `{"text": "HELLO! WORLD!"}`
	must.Hold(t, err == nil && string(output) == want && slices.Equal(j.chunks, []string{`"HELLO!"`, `"WORLD!"`, want}), "output", string(output), "chunks", j.chunks, err)
	_, err = program(t, e, "example/upper").Handle(t.Context(), newJob(`{}`).Job)
	must.Hold(t, err != nil && err.Error() == "the input has no text: send {\"text\": \"…\"}\n(exit status 1)", "an input without text fails with", err)
	for _, image := range []string{"example/handler", "example/protocol", "example/web"} {
		must.Hold(t, program(t, e, image).Start != nil, image, "isn't a process")
	}
}

// With local rules, a template's variables can't run other code. The error names the variable and the fix.
func TestTemplateRunsNoCode(t *testing.T) {
	dangerous := strings.Fields(`BASH_ENV ENV BASH_FUNC_x%% SHELLOPTS PS4 NODE_OPTIONS NODE_PATH npm_config_script_shell PYTHONWARNINGS BROWSER LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
		PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT pythonpath PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB GEM_PATH BUNDLE_GEMFILE GIT_SSH_COMMAND
		GIT_EXEC_PATH GIT_CONFIG_COUNT JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH GCONV_PATH DYLD_INSERT_LIBRARIES PATH HOME XDG_CONFIG_HOME ZDOTDIR LESSOPEN PAGER EDITOR
		OPENSSL_CONF GLIBC_TUNABLES DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH COMPlus_EnableDiagnostics PHPRC LUA_INIT_5_4 R_PROFILE_USER JULIA_LOAD_PATH TCLLIBPATH CUDA_INJECTION64_PATH
		CC AWS_CONFIG_FILE PIP_INDEX_URL OMP_TOOL_LIBRARIES NCCL_NET_PLUGIN GTK_MODULES QT_PLUGIN_PATH VK_LAYER_PATH GOFLAGS CARGO_HOME RUSTC_WRAPPER
		ANT_OPTS PSQLRC SCREENRC GNUPGHOME NUMBA_CACHE_DIR HF_HOME MPLBACKEND MAVEN_OPTS KAFKA_OPTS WGETRC PSQL_EDITOR SYSTEMD_PAGER TORCH_HOME KERAS_BACKEND DJANGO_SETTINGS_MODULE FLASK_APP
		GUNICORN_CMD_ARGS VLLM_PLUGINS HF_MODULES_CACHE TRANSFORMERS_CACHE MATPLOTLIBRC LEIN_JVM_OPTS ANSIBLE_CONFIG GNUPLOT_DRIVER_DIR TMUX_TMPDIR PGSERVICEFILE`)
	dir := t.TempDir()
	marker := filepath.Join(dir, "loaded")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "evil.sh"), []byte("touch "+marker+"\n"), 0o600))
	for _, kind := range []string{"process", "command"} {
		p := program(t, newExecutor(t, "    "+kind+": {run: [bash, -c, 'sleep 1000']}\n"), "x")
		for _, name := range dangerous {
			spec := run.Spec{Container: store.Container{Image: "x", Env: map[string]string{name: filepath.Join(dir, "evil.sh"), "MODEL": "m"}}, Log: new(livelog.Log)}
			err := p.Check(spec)
			must.Hold(t, err != nil && strings.Contains(err.Error(), " has "+name+",") &&
				strings.Contains(err.Error(), "template_env: ["+name+"]") && !strings.Contains(err.Error(), "evil"), "the check of a", kind, "with", name, "returns", err)
			if p.Start == nil {
				continue
			}
			if process, err := p.Start(t.Context(), spec); err == nil { // also without a Check before
				process.Stop(0)
				t.Errorf("%s: a worker with it was started", name)
			}
		}
		harmless := map[string]string{}
		for _, name := range strings.Fields("MODEL_NAME JUPYTER_PASSWORD HF_TOKEN HF_HUB_OFFLINE DATA_SRC MODEL_PATH XLA_FLAGS PYTHONUNBUFFERED NODE_ENV GOMAXPROCS CUDA_VISIBLE_DEVICES RUNPOD_AI_API_KEY PORT LANG OMP_NUM_THREADS NCCL_DEBUG AWS_REGION VLLM_USE_V1 ENVIRONMENT GOAL GO_LIVE PATH_TO_MODEL CCACHE") {
			harmless[name] = "x"
		}
		must.Equal(t, p.Check(run.Spec{Container: store.Container{Env: harmless}}), nil, kind)
	}
	must.Hold(t, must.Err(os.Stat(marker)) != nil, "the code of a template ran")
}

// A rule can allow variables by name or prefix, set them, or leave the whole command to the template.
func TestTemplateEnvAllowed(t *testing.T) {
	for rule, allowed := range map[string]bool{
		"{run: [sh], template_env: [PYTHONPATH, GIT_*]}":            true,
		"{run: [sh], template_env: ['*']}":                          true,
		"{run: [sh], template_env: [GIT_*]}":                        false,
		"{run: [sh], env: {PYTHONPATH: /x}, template_env: [GIT_*]}": true,
		"{template: command}":                                       true,
		"{run: [sh], template: args}":                               false,
	} {
		p := program(t, newExecutor(t, "    process: "+rule+"\n"), "x")
		err := p.Check(run.Spec{Container: store.Container{Env: map[string]string{"PYTHONPATH": "x", "GIT_DIR": "x"}}})
		must.Equal(t, allowed, err == nil, rule, err)
	}
}

// Lines after the previous run's last line are passed on, without the times that engines insert.
func TestLinesAfterAMark(t *testing.T) {
	const engineLog = "2026-06-01T12:00:00.000000001Z one\n" + "2026-06-01T12:00:00.000000002Z two\n" +
		"2026-06-01T12:00:00.000000003Z thr2026-06-01T12:00:00.000000004Z ee\n" +
		"Error: the engine says this\n" +
		"2026-06-01T12:00:00.000000005Z 2026-06-01T11:00:00.000000000Z is the program's own\n" +
		"2026-06-01T12:00:00.000000006Z \n" +
		"2026-06-01T12:00:00.000000007Z cut off"
	for since, want := range map[string][]string{
		"":                               {"one", "two", "three", "2026-06-01T11:00:00.000000000Z is the program's own", "", "cut off"},
		"2026-06-01T12:00:00.000000002Z": {"three", "2026-06-01T11:00:00.000000000Z is the program's own", "", "cut off"},
	} {
		log := new(livelog.Log)
		sinceTime, _ := time.Parse(time.RFC3339Nano, since) // zero for ""
		last := must.Do(run.CopyLines(iotest.OneByteReader(strings.NewReader(engineLog)), sinceTime, lineJoiner{log}))(t)
		got := log.String()
		must.Hold(t, got == strings.Join(want, "\n")+"\n" && last.Nanosecond() == 7, "the lines since", since, "are", got, "the last one is of", last)
	}
}

// A pod joins the engine's default network, its rule's network, or a network shared with other pods. It has a name
// only in the shared network, and no published ports in the host's network.
func TestNetworkOfAPod(t *testing.T) {
	const name = "--network-alias id.runpod.internal"
	for _, c := range []struct{ network, ruleNetwork, folderID, want, lacks string }{
		{"", "", "d", "--label gpucloud.deployment=d --env-file", "--network"},
		{"", "", "", "--label gpucloud.run=r --env-file", "gpucloud.deployment"},
		{"", "", "d", "--publish 127.0.0.1:4001:22 --publish 127.0.0.1:4002:8080 --gpus \"device=GPU-a\" --mount type=bind,source=/v,target=/w x a", "--add-host"},
		{"gpucloud-global", "", "d", "--network gpucloud-global " + name + " --publish 127.0.0.1:4001:22", "--add-host"},
		{"gpucloud-global", "mine", "d", "--network mine --publish 127.0.0.1:4001:22", name},
		{"gpucloud-global", "host", "d", "--network host --gpus", "--publish"},
	} {
		s := run.Spec{
			ID: "id", Container: store.Container{Image: "x", Args: "a"}, Devices: []gpu.Device{{UUID: "GPU-a"}}, Mounts: []run.Mount{{Dir: "/v", Path: "/w"}},
			Pod: &run.Pod{
				Run: 7, Network: c.network, FolderID: c.folderID, Ports: []store.PodPort{{Private: 22, Public: 4001, Protocol: "tcp"}, {Private: 8080, Public: 4002, Protocol: "http"}, {Private: 1}},
			},
		}
		dir := t.TempDir()
		args, _, err := containerSpec{&containerSettings{Network: scalar{Value: c.ruleNetwork}}, s, "n", "r", false, "linux"}.args(dir)
		line := strings.ReplaceAll(strings.Join(args, " "), dir+"/", "")
		if err != nil || !strings.Contains(line, c.want) || strings.Contains(line, c.lacks) || !strings.Contains(line, "--label gpucloud.pod=id --label gpucloud.pod.run=7 ") || strings.Contains(line, "gpucloud.worker") {
			t.Errorf("%+v:\n%s %v", c, line, err)
		}
	}
	for text, inUse := range map[string]bool{"subnet 10.65.7.0/24 is already used": true, "network name n already used: network already exists": false} {
		must.Equal(t, isBlockInUse(errors.New(text)), inUse, text)
	}
}

type failingCluster struct {
	run.Cluster
	err error
}

func (c failingCluster) Start(context.Context, run.Spec) (run.Process, error) { return nil, c.err }

// Only failed pulls are explained as such, not what the API server or the program's path did.
func TestClusterFailures(t *testing.T) {
	for text, explained := range map[string]bool{
		`ErrImagePull: r.example/x: not found`: true, `StartError: exec: "servr": executable file not found in $PATH`: false,
		"creating the worker's Secret: secrets is forbidden": false, "dial tcp 10.0.0.1:443: connect: connection refused": false,
	} {
		e := &Executor{cluster: failingCluster{err: errors.New(text)}}
		_, err := e.startInCluster(&containerSettings{})(t.Context(), run.Spec{Pod: &run.Pod{FolderID: "f"}, Container: store.Container{Image: "r.example/x"}})
		must.Hold(t, strings.Contains(err.Error(), "the registry") == explained, "explained:", err)
	}
	file := writeConfig(t, "executor: kubernetes\nkubernetes: {url: 'http://jobrunner:8420'}\n")
	open := func(context.Context, run.ClusterConfig) (run.Cluster, error) {
		return (*failingCluster)(nil), errors.New("forbidden")
	}
	must.ErrorContains(t, must.Err(New(t.Context(), Config{File: file, OpenCluster: open})), "forbidden")
}
