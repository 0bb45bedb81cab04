//go:build unix

package host

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
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
