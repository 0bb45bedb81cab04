package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "jobrunner.yaml")
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestFile(t *testing.T) {
	name := write(t, `
engine: none
rules:
  - image: team/upper
    command:
      run: [sh, -c, "cat", 1.10, true]
      env: {VERSION: 1.10, ON: yes, MANY: "a b"}
      inherit: [HF_HOME]
      template: args
  - image: "team/**"
    process: {template: command}
  - image: other/*
    container:
      network: bridge
      pull: always
      disk_limit: true
      options: [--shm-size=1g]
`)
	s := must.Do(readFile(name))(t)
	if len(s.Rules) != 3 || s.Engine.Value != "none" {
		t.Fatalf("%+v", s)
	}
	c := s.Rules[0].Command
	var words []string
	for _, w := range c.Run {
		words = append(words, w.Value)
	}
	must.Equal(t, strings.Join(words, "|"), "sh|-c|cat|1.10|true", "run")
	must.Hold(t, c.Env["VERSION"].Value == "1.10" && c.Env["ON"].Value == "yes" && c.Env["MANY"].Value == "a b" && c.Dir.Value == filepath.Dir(name), c)
	k := s.Rules[2].Container
	must.Hold(t, k.Network.Value == "bridge" && k.DiskLimit && k.Options[0].Value == "--shm-size=1g", k)
}

func TestEmptyFileHasNoRules(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "rules: []\n", "\ufeffrules: []\n", "{}"} {
		s := must.Do(readFile(write(t, text)))(t)
		must.Hold(t, len(s.Rules) == 0, text, s)
	}
}

func TestInvalidFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, line, says string }{
		"no YAML":           {"rules:\n  - image: [", "", "jobrunner.yaml"},
		"a wrong kind":      {"rules: 7\n", "1", ""},
		"unknown, on top":   {"rules: []\nengines: docker\n", "2", `engines`},
		"unknown, in rule":  {"rules:\n  - image: a/b\n    processes: {run: [sh]}\n", "3", `processes`},
		"unknown, below":    {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      cwd: x\n", "5", `cwd`},
		"a key twice":       {"rules:\n  - image: a/b\n    image: a/c\n    container: {}\n", "3", "image"},
		"run is no list":    {"rules:\n  - image: a/b\n    process:\n      run: sh\n", "4", ""},
		"a list as a word":  {"rules:\n  - image: a/b\n    process:\n      run: [sh, [x]]\n", "4", "single value"},
		"null as a value":   {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      env: {A: }\n", "2", "expected a string, got nothing"},
		"null in a list":    {"rules:\n  - image: a/b\n    process:\n      run: [sh, ~]\n", "2", "expected a string, got nothing"},
		"no image":          {"rules:\n  - container: {}\n", "2", "needs an image"},
		"an empty image":    {"rules:\n  - container: {}\n    image: ''\n", "3", "image is empty"},
		"a bad pattern":     {"rules:\n  - container: {}\n    image: 'a[b'\n", "3", "without its ]"},
		"a builtin":         {"rules:\n  - image: builtin/echo\n    container: {}\n", "2", "own"},
		"no executor":       {"rules:\n  - image: a/b\n", "2", "one of process, command, container"},
		"an empty one":      {"rules:\n  - image: a/b\n    container:\n", "2", "container: {}"},
		"two executors":     {"rules:\n  - image: a/b\n    container: {}\n    process: {run: [sh]}\n", "2", "one of"},
		"no command":        {"rules:\n  - image: a/b\n    process: {}\n", "2", "add run:"},
		"no such program":   {"rules:\n  - image: a/b\n    process:\n      run: [nosuchcommand-at-all]\n", "4", "no program"},
		"no such file":      {"rules:\n  - image: a/b\n    process:\n      run: [./nosuch]\n", "4", "nosuch"},
		"no such folder":    {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      dir: nosuch\n", "5", "no folder"},
		"template":          {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      template: all\n", "5", `invalid template "all": expected "args"`},
		"env: a name":       {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      env:\n        A-B: x\n", "6", "invalid environment variable name"},
		"env: reserved":     {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      env:\n        RUNPOD_WEBHOOK_GET_JOB: x\n", "6", "sets it"},
		"inherit: reserved": {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      inherit:\n        - A\n        - CUDA_VISIBLE_DEVICES\n", "7", "sets it"},
		"twice":             {"rules:\n  - image: a/b\n    container: {}\n  - image: a/b\n    container: {}\n", "4", "line 2"},
		"never":             {"rules:\n  - image: a/**\n    container: {}\n  - image: a/b\n    container: {}\n", "4", "line 2"},
		"never, all":        {"rules:\n  - image: '**'\n    container: {}\n  - image: a/*\n    container: {}\n", "4", "line 2"},
		"pull":              {"rules:\n  - image: a/b\n    container:\n      pull: never\n", "4", `invalid pull "never": expected "missing" or "always"`},
		"options":           {"rules:\n  - image: a/b\n    container:\n      options: [--shm-size, 1g]\n", "4", "--shm-size=1g"},
		"disk_limit":        {"rules:\n  - image: a/b\n    container:\n      disk_limit: much\n", "4", ""},
		"an engine":         {"rules: []\nengine: nosuchengine\n", "2", "no container engine nosuchengine"},
		"an executor":       {"rules: []\nexecutor: nomad\n", "2", "expected kubernetes"},
		"kubernetes: alone": {"kubernetes: {url: http://jobrunner:8420}\n", "1", "executor: kubernetes"},
		"kubernetes: both":  {"executor: kubernetes\nengine: docker\nkubernetes: {url: http://jobrunner:8420}\n", "2", "exclude each other"},
		"kubernetes: url":   {"executor: kubernetes\nkubernetes: {namespace: a}\n", "1", "kubernetes.url is missing"},
		"kubernetes: a URL": {"executor: kubernetes\nkubernetes:\n  url: jobrunner:8420\n", "3", "expected http:// or https://"},
		"kubernetes: rules": {"executor: kubernetes\nkubernetes: {url: http://jobrunner:8420}\nrules:\n  - image: a/b\n    container: {network: host}\n", "4", "only pull counts"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, c.text)
			_, err := New(t.Context(), Config{File: file})
			if err == nil {
				t.Fatal("it is accepted")
			}
			start := file + ":" + c.line
			must.Hold(t, strings.HasPrefix(err.Error(), start) && strings.Contains(err.Error(), c.says), err, start, "…", c.says)
		})
	}
	must.Hold(t, must.Err(readFile(filepath.Join(t.TempDir(), "nosuch.yaml"))) != nil, "a missing file is read")
}
