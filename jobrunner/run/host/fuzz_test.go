package host

import (
	"bytes"
	"encoding/json"
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

// An accepted jobrunner.yaml obeys the rules of the file, and an error names the file.
func FuzzFile(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text string) {
		name := write(t, text)
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
		must.Hold(t, !p.literal || p.matches(text), text, "does not match itself")
		must.Hold(t, !p.literal || !matches || strings.HasPrefix(image, text), text, "matches", image)
	}, fuzz.Seed{"team/**", "team/worker:1"}, fuzz.Seed{"a[b-", "a"}, fuzz.Seed{"[!x]*?:@", "ab:@"}, fuzz.Seed{"a/b", "a/b:1"}, fuzz.Seed{"a/b@sha256:0", "a/b@sha256:0"})
}

// For any output of a command, the chunks are its lines of JSON in UTF-8, and the last one is the
// output.
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
			if json.Valid(bytes.ToValidUTF8(bytes.TrimSpace(line), []byte("\uFFFD"))) {
				want++
			}
		}
		if len(chunks) != want || want > 0 && !bytes.Equal(output, chunks[want-1]) || want == 0 && output != nil {
			t.Errorf("%q: %d chunks, expected %d; the output is %q", stdout, len(chunks), want, output)
		}
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

// runsCode ignores case, and a template can't set a variable that a loader, shell or interpreter
// reads.
func FuzzTemplateEnv(f *testing.F) {
	known := regexp.MustCompile(`(?i)^(LD_.*|DYLD_.*|BASH_.*|ENV|PATH|HOME|IFS|PYTHON(PATH|HOME|STARTUP|INSPECT)|PERL5(OPT|LIB)|RUBY(OPT|LIB)|NODE_(OPTIONS|PATH)|JAVA_TOOL_OPTIONS|GIT_.*)$`)
	fuzz.Run(f, func(t *testing.T, name string) {
		if !nameForm.MatchString(name) {
			return
		}
		runs := runsCode(name)
		must.Hold(t, runs == runsCode(strings.ToLower(name)) && runs == runsCode(strings.ToUpper(name)), name, "the case matters")
		must.Hold(t, !known.MatchString(name) || runs, name, "runs code, and a template may set it")
	}, fuzz.Seed{"LD_PRELOAD"}, fuzz.Seed{"BASH_ENV"}, fuzz.Seed{"MODEL_NAME"}, fuzz.Seed{"pythonpath"}, fuzz.Seed{"GIT_SSH_COMMAND"}, fuzz.Seed{"NODE_ENV"})
}
