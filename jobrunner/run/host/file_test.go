package host

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// writeConfig writes a jobrunner.yaml, and returns its name.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "jobrunner.yaml")
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestFile(t *testing.T) {
	name := writeConfig(t, `
engine: bin/docker
rules:
  - image: team/upper
    command:
      run: [sh, -c, "cat", 1.10, true]
      env: &shared {VERSION: 1.10, ON: yes, MANY: "a b"}
      inherit: [HF_HOME]
      template: args
  - image: "team/**"
    process: {template: command, env: {<<: *shared, MANY: "1"}}
  - image: other/*
    container:
      network: bridge
      pull: always
      disk_limit: true
      options: [--shm-size=1g]
`)
	s := must.Do(readFile(name))(t)
	must.Require(t, len(s.Rules) == 3 && s.Engine.Value == filepath.Join(filepath.Dir(name), "bin/docker"), "the settings are", s)
	c := s.Rules[0].Command
	var words []string
	for _, w := range c.Run {
		words = append(words, w.Value)
	}
	must.Equal(t, strings.Join(words, "|"), "sh|-c|cat|1.10|true", "run")
	must.Hold(t, c.Env["VERSION"].Value == "1.10" && c.Env["ON"].Value == "yes" && c.Env["MANY"].Value == "a b" && c.Dir.Value == filepath.Dir(name), "the first rule is", c)
	merged := s.Rules[1].Process.Env
	must.Hold(t, len(merged) == 3 && merged["MANY"].Value == "1" && merged["ON"].Value == "yes", "the variables of the second rule", merged)
	k := s.Rules[2].Container
	must.Hold(t, k.Network.Value == "bridge" && k.DiskLimit && k.Options[0].Value == "--shm-size=1g", "the third rule is", k)
}

func TestEmptyFileHasNoRules(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "rules: []\n", "\ufeffrules: []\n", "{}", "---\nrules: []\n---\n"} {
		s := must.Do(readFile(writeConfig(t, text)))(t)
		must.Hold(t, len(s.Rules) == 0, text, "has rules:", s)
	}
}

func TestInvalidFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, line, want string }{
		"no YAML":           {"rules:\n  - image: [", "", "jobrunner.yaml"},
		"a wrong kind":      {"rules: 7\n", "1", "expected a list"},
		"unknown, on top":   {"rules: []\nengines: docker\n", "2", `engines`},
		"unknown, in rule":  {"rules:\n  - image: a/b\n    processes: {run: [sh]}\n", "3", `processes`},
		"unknown, below":    {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      cwd: x\n", "5", `cwd`},
		"a key twice":       {"rules:\n  - image: a/b\n    image: a/c\n    container: {}\n", "3", "image"},
		"two documents":     {"engine: none\n---\nrules: []\n", "3", "expected one document"},
		"run isn't a list":  {"rules:\n  - image: a/b\n    process:\n      run: sh\n", "4", "expected a list such as [first, second], got string"},
		"a list as a word":  {"rules:\n  - image: a/b\n    process:\n      run: [sh, [x]]\n", "4", "single value"},
		"null as a value":   {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      env: {A: }\n", "2", "expected a string, got nothing"},
		"null in a list":    {"rules:\n  - image: a/b\n    process:\n      run: [sh, ~]\n", "4", "expected a value, got nothing"},
		"null as a rule":    {"rules:\n  - image: a/b\n    container: {}\n  - null\n", "4", "expected a value, got nothing"},
		"no image":          {"rules:\n  - container: {}\n", "2", "needs an image"},
		"an empty image":    {"rules:\n  - container: {}\n    image: ''\n", "3", "image is empty"},
		"a bad pattern":     {"rules:\n  - container: {}\n    image: 'a[b'\n", "3", "without its ]"},
		"a builtin":         {"rules:\n  - image: builtin/echo\n    container: {}\n", "2", "own"},
		"no executor":       {"rules:\n  - image: a/b\n", "2", "one of process, command, container"},
		"empty executor":    {"rules:\n  - image: a/b\n    container:\n", "2", "container: {}"},
		"two executors":     {"rules:\n  - image: a/b\n    container: {}\n    process: {run: [sh]}\n", "2", "exactly one of"},
		"no command":        {"rules:\n  - image: a/b\n    process: {}\n", "2", "add run:"},
		"no such program":   {"rules:\n  - image: a/b\n    process:\n      run: [nosuchcommand-at-all]\n", "4", "no program"},
		"no such file":      {"rules:\n  - image: a/b\n    process:\n      run: [./nosuch]\n", "4", "nosuch"},
		"no such folder":    {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      dir: nosuch\n", "5", "nosuch isn't a folder"},
		"template":          {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      template: all\n", "5", `invalid template "all": expected "args"`},
		"env: a name":       {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      env:\n        A-B: x\n", "6", "invalid environment variable name"},
		"env: reserved":     {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      env:\n        RUNPOD_WEBHOOK_GET_JOB: x\n", "6", "sets it"},
		"env: a NUL":        {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      env:\n        A: \"x\\0y\"\n", "6", "NUL"},
		"inherit: reserved": {"rules:\n  - image: a/b\n    process:\n      run: [sh]\n      inherit:\n        - A\n        - CUDA_VISIBLE_DEVICES\n", "7", "sets it"},
		"an image twice":    {"rules:\n  - image: a/b\n    container: {}\n  - image: a/b\n    container: {}\n", "4", "line 2"},
		"a covered image":   {"rules:\n  - image: a/**\n    container: {}\n  - image: a/b\n    container: {}\n", "4", "line 2"},
		"an image after **": {"rules:\n  - image: '**'\n    container: {}\n  - image: a/*\n    container: {}\n", "4", "line 2"},
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
			file := writeConfig(t, c.text)
			_, err := New(t.Context(), Config{File: file})
			must.Require(t, err != nil, "it is accepted")
			start := file + ":" + c.line
			must.Hold(t, strings.HasPrefix(err.Error(), start) && strings.Contains(err.Error(), c.want), "the error is", err, "want", start, "…", c.want)
		})
	}
	must.Hold(t, must.Err(readFile(filepath.Join(t.TempDir(), "nosuch.yaml"))) != nil, "a missing file is read")
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, image string
		want           bool
	}{
		{"team/worker", "team/worker", true},
		{"team/worker", "team/worker:1.2", true},
		{"team/worker", "team/worker@sha256:0123", true},
		{"team/worker", "team/worker:1@sha256:0123", true},
		{"team/worker", "other/team/worker", false},
		{"team/worker", "team/worker2", false},
		{"team/worker:1.2", "team/worker:1.2", true},
		{"team/worker:1.2", "team/worker:1x2", false},
		{"team/worker:1.2", "team/worker", false},
		{"team/worker:*", "team/worker:1.2", true},
		{"team/worker:*", "team/worker", false},
		{"team/*", "team/worker:1.2", true},
		{"team/*", "team/sub/worker", false},
		{"team/**", "team/sub/worker:1", true},
		{"team/**", "team", false},
		{"**", "registry.example:5000/a/b:c", true},
		{"**/worker", "registry.example:5000/a/worker:c", true},
		{"registry.example:5000/worker", "registry.example:5000/worker", true},
		{"registry.example:5000/worker", "registry.example:5000/worker:9", true},
		{"worker", "registry.example:5000", false},
		{"t?am/x", "team/x", true},
		{"t?am/x", "t/am/x", false},
		{"v[0-9]/x", "v7/x", true},
		{"v[0-9]/x", "vv/x", false},
		{"v[!0-9]/x", "vv/x", true},
		{"v[!0-9]/x", "v1/x", false},
		{"a.b", "axb", false},
		{"a+(b)|c", "a+(b)|c", true},
		{"TEAM/x", "team/x", false},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Errorf("the pattern %s is rejected: %v", c.pattern, err)
			continue
		}
		must.Equal(t, p.matches(c.image), c.want, "whether", c.pattern, "matches", c.image)
	}
	for _, invalid := range []string{"", "a[b", "a[]", "a[!]", "a[b^]", `a[\]`, "a[a/b]", "a[z-a]", "\xff"} {
		must.Hold(t, must.Err(parsePattern(invalid)) != nil, invalid, "is accepted as a pattern")
	}
}

// A handler that is a symbolic link imports the modules beside its target.
func TestLinkToAHandler(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.py"), []byte("import helper\n"), 0o600))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "helper.py"), []byte("import runpod\n"), 0o600))
	must.Succeed(t, os.Symlink(filepath.Join(dir, "main.py"), filepath.Join(links, "main.py")))
	h := must.Do(NewHandler("dev/handler", filepath.Join(links, "main.py")))(t)
	must.Hold(t, !h.PerJob, "the SDK's import beside the target wasn't found")
}

// A handler is a worker if it imports the SDK through other files of its folder.
func TestHandlerOfSeveralFiles(t *testing.T) {
	for name, c := range map[string]struct {
		main   string
		files  map[string]string
		perJob bool
	}{
		"a module of a folder":     {"from src import handler\n", map[string]string{"src/handler.py": "import runpod\n"}, false},
		"a package":                {"import app.worker as w\n", map[string]string{"app/__init__.py": "", "app/worker.py": "from runpod import serverless\n"}, false},
		"the package itself":       {"import app\n", map[string]string{"app/__init__.py": "import runpod\n"}, false},
		"several lines":            {"from src import (\n    helper,\n    handler as h,\n)\n", map[string]string{"src/handler.py": "import runpod\n"}, false},
		"a continued line":         {"from src import \\\n    handler\n", map[string]string{"src/handler.py": "import runpod\n"}, false},
		"through another":          {"import a\n", map[string]string{"a.py": "import b\n", "b.py": "import a, runpod\n"}, false},
		"a name with accents":      {"import modèle\n", map[string]string{"modèle.py": "import runpod\n"}, false},
		"relative":                 {"import app.x\n", map[string]string{"app/x.py": "from .y import z\n", "app/y.py": "from . import w\n", "app/w.py": "import runpod\n"}, false},
		"relative, a folder up":    {"import app.in_.x\n", map[string]string{"app/in_/x.py": "from ..y import z\n", "app/y.py": "import runpod\n"}, false},
		"a file beside it":         {"import json\n", map[string]string{"worker.py": "import runpod\n"}, true},
		"a name that isn't a file": {"from src import nothing\n", nil, true},
		"nothing of the SDK":       {"import a\n", map[string]string{"a.py": "import a, os\n"}, true},
		"a comment":                {"# from src import handler\n", map[string]string{"src/handler.py": "import runpod\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				file := filepath.Join(dir, name)
				must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
				must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
			}
			write("main.py", c.main)
			for name, text := range c.files {
				write(name, text)
			}
			must.Equal(t, must.Do(NewHandler("dev/handler", filepath.Join(dir, "main.py")))(t).PerJob, c.perJob, "PerJob")
		})
	}
}

// The rules of an accepted jobrunner.yaml are valid, and an error names the file.
func FuzzFile(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text string) {
		name := writeConfig(t, text)
		s, err := readFile(name)
		if err != nil {
			must.Hold(t, strings.HasPrefix(err.Error(), name+":"), text, "the error does not begin with the file", err)
			return
		}
		for _, r := range s.Rules {
			must.Hold(t, r.text != "" && !strings.HasPrefix(r.text, builtinImages), text, "a rule is for the image", r.text)
			for _, l := range []*localSettings{r.Process, r.Command} {
				if l == nil {
					continue
				}
				for name := range l.Env {
					must.Hold(t, checkName(name) == nil, text, "env has", name)
				}
				must.Hold(t, len(l.Run) != 0 || l.Template.Value == templateCommand, text, "nothing runs")
			}
		}
	},
		fuzz.Seed{"rules:\n  - image: a/b\n    process: {run: [sh]}\n"}, fuzz.Seed{"engine: x\nrules: [{}]"},
		fuzz.Seed{"rules:\n  - image: a/**\n    command:\n      run: [sh, -c, 'cat']\n      dir: .\n      env: {A: \"1.10\", B: ''}\n      inherit: [HOME]\n      template: args\n      template_env: [PYTHONPATH, GIT_*]\n"},
		fuzz.Seed{"rules:\n  - image: 'c[a-z]:1'\n    container: {network: host, pull: always, disk_limit: true, options: [--shm-size=1g]}\n"},
		fuzz.Seed{"a: &a [x, x]\nb: &b [*a, *a]\nrules: [*b]\n"},
	)
}

// An accepted pattern without wildcards matches itself.
func FuzzPattern(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text, image string) {
		p, err := parsePattern(text)
		if err != nil {
			return
		}
		matches := p.matches(image)
		must.Hold(t, !p.isLiteral || p.matches(text), text, "does not match itself")
		must.Hold(t, !p.isLiteral || !matches || strings.HasPrefix(image, text), text, "matches", image)
	}, fuzz.Seed{"team/**", "team/worker:1"}, fuzz.Seed{"a[b-", "a"}, fuzz.Seed{"[!x]*?:@", "ab:@"}, fuzz.Seed{"a/b", "a/b:1"}, fuzz.Seed{"a/b@sha256:0", "a/b@sha256:0"})
}

// For any output of a command, the chunks are its lines of JSON in UTF-8; the last is the output.
func FuzzOutput(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, stdout []byte) {
		var chunks [][]byte
		job := run.Job{Spec: &run.Spec{Log: new(livelog.Log)}, Chunk: func(chunk []byte) error {
			chunks = append(chunks, bytes.Clone(chunk))
			return nil
		}}
		output, err := readOutput(bytes.NewReader(stdout), job)
		must.Succeed(t, err, string(stdout))
		for _, chunk := range chunks {
			must.Hold(t, json.Valid(chunk) && utf8.Valid(chunk), string(stdout), "a chunk is", string(chunk))
		}
		want := 0
		for line := range bytes.SplitSeq(stdout, []byte("\n")) {
			if first := string(bytes.TrimRight(line, "\r")); first == "{" || first == "[" {
				return // it and further lines may be one value
			}
			if json.Valid(bytes.ToValidUTF8(bytes.TrimSpace(line), []byte("\uFFFD"))) {
				want++
			}
		}
		must.Hold(t, len(chunks) == want && (want == 0 && output == nil || want > 0 && bytes.Equal(output, chunks[want-1])), string(stdout), len(chunks), "chunks, expected", want, "the output is", string(output))
		tail := &tail{maxBytes: 100}
		for part := range slices.Chunk(stdout, 7) {
			_, _ = tail.Write(part) // never fails
		}
		end := tail.String()
		must.Hold(t, utf8.ValidString(end) && len(end) <= 3*tail.maxBytes, string(stdout), "ends with", end)
	},
		fuzz.Seed{[]byte("{\"a\": 1}\nlog\n\n[1,2]\r\n\"x\"")}, fuzz.Seed{[]byte("\"\xff\"\n 7 \n")}, fuzz.Seed{[]byte("loading…\n{\"a\":\n1}\n")},
	)
}

// runsCode ignores case; a template can't set variables that loaders, shells or interpreters read.
func FuzzTemplateEnv(f *testing.F) {
	dangerous := regexp.MustCompile(`(?i)^(LD_.*|DYLD_.*|BASH_.*|ENV|PATH|HOME|IFS|PYTHON(PATH|HOME|STARTUP|INSPECT)|PERL5(OPT|LIB)|RUBY(OPT|LIB)|NODE_(OPTIONS|PATH)|JAVA_TOOL_OPTIONS|GIT_.*)$`)
	fuzz.Run(f, func(t *testing.T, name string) {
		if !nameForm.MatchString(name) {
			return
		}
		runs := runsCode(name)
		must.Hold(t, runs == runsCode(strings.ToLower(name)) && runs == runsCode(strings.ToUpper(name)), name, "the case matters")
		must.Hold(t, !dangerous.MatchString(name) || runs, name, "runs code, and a template may set it")
	}, fuzz.Seed{"LD_PRELOAD"}, fuzz.Seed{"BASH_ENV"}, fuzz.Seed{"MODEL_NAME"}, fuzz.Seed{"pythonpath"}, fuzz.Seed{"GIT_SSH_COMMAND"}, fuzz.Seed{"NODE_ENV"})
}
