//go:build unix

// Package ci tests what users copy into their CI: the scripts of actions/ and the example
// repositories of examples/ci. actionlint checks the workflows (make lint).
package ci

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest"
)

const root = "../../.."

var programs string // folder of the built programs

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gpucloud-ci-")
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	return gobuild.Programs(context.Background(), programs, root, root+"/cmd/jobrunner", root+"/cmd/conformance")
})

// machine is a runner of a CI service, with built programs, a CLI and an empty home folder.
type machine struct {
	t     *testing.T
	repo  string // copy of the example
	tree  string // the project, absolute
	tools string // folder of the CLI
	home  string
	env   []string
}

func newMachine(t *testing.T, example string) *machine {
	t.Helper()
	must.Succeed(t, build())
	cli := must.Do(tfcli.Default(t.Context()))(t)
	tree := must.Do(filepath.Abs(root))(t)
	base := t.TempDir()
	m := &machine{t: t, tree: tree, repo: filepath.Join(base, "repository"), tools: filepath.Join(base, "tools"), home: filepath.Join(base, "home")}
	err := errors.Join(os.Mkdir(m.tools, 0o700), os.Mkdir(m.home, 0o700), os.Symlink(cli.Path, filepath.Join(m.tools, "terraform")), os.CopyFS(m.repo, os.DirFS(filepath.Join(root, example))))
	must.Succeed(t, err)
	m.env = []string{
		"HOME=" + m.home, "PATH=" + strings.Join([]string{m.tools, programs, os.Getenv("PATH")}, string(filepath.ListSeparator)), "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=-no-color",
		"TMPDIR=" + base, "GPUCLOUD_SOURCE=" + tree, "GPUCLOUD_QUEUE_URL=https://production.example.com", // no job may reach it
	}
	return m
}

// bash runs a script in the repository. Output goes to a file, because a process that keeps running would hold a pipe.
func (m *machine) bash(script string, env ...string) (output string, err error) {
	m.t.Helper()
	printed := must.Do(os.CreateTemp(m.t.TempDir(), "printed-"))(m.t)
	defer printed.Close()
	cmd := exec.CommandContext(m.t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = m.repo, slices.Concat(m.env, env), printed, printed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.t.Cleanup(func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if nothing is left
		}
	})
	err = cmd.Run()
	return string(must.ReadFile(m.t, printed.Name())), err
}

// expectStopped checks that the jobrunner with this state folder was stopped and its key deleted.
func (m *machine) expectStopped(state string) {
	m.t.Helper()
	left, _ := filepath.Glob(filepath.Join(state, "pid"))
	must.Hold(m.t, left == nil, "the jobrunner was not stopped: it left", left)
	left, _ = filepath.Glob(filepath.Join(state, "greeting"))
	must.Hold(m.t, left == nil, "the output of the start, with the key, is left in", left)
}

const passed = "Success! 2 passed, 0 failed."

// GitLab runs before_script and script in one shell, and after_script in another.
func TestGitLabExample(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run tests only the shell's example")
	}
	m := newMachine(t, "examples/ci/gitlab")
	text := must.ReadFile(t, filepath.Join(m.repo, ".gitlab-ci.yml"))
	type job struct {
		Extends      string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		AfterScript  []string `yaml:"after_script"`
		Rules, When  any
		Artifacts    any
		Variables    map[string]string
	}
	var file map[string]job
	var variables struct{ Variables map[string]string }
	must.Succeed(t, yaml.Unmarshal(text, &variables))
	withoutVariables := strings.Replace(string(text), "variables:\n  GPUCLOUD_SOURCE: $CI_PROJECT_DIR/.gpucloud\n", "", 1)
	must.Succeed(t, yaml.UnmarshalWithOptions([]byte(withoutVariables), &file, yaml.Strict()))
	must.Require(t, variables.Variables["GPUCLOUD_SOURCE"] == "$CI_PROJECT_DIR/.gpucloud" && len(file) == 3,
		"expected GPUCLOUD_SOURCE and 3 jobs in .gitlab-ci.yml and got", variables, "and", len(file), "jobs")
	must.Succeed(t, os.Symlink(m.tree, filepath.Join(m.repo, ".gpucloud"))) // instead of a clone
	j := jobrunnertest.Start(t)
	for name, want := range map[string]string{"module": passed, "conformance": "conformant"} {
		ciJob := file[name]
		base := file[ciJob.Extends]
		env := []string{"CI_PROJECT_DIR=" + m.repo, "GPUCLOUD_SOURCE=" + m.repo + "/.gpucloud"}
		if name == "conformance" {
			env = append(env, "GPUCLOUD_BASE_URL="+j.URL, "GPUCLOUD_API_KEY="+j.Key, "GPUCLOUD_QUEUE_URL=")
		}
		output, err := m.bash("set -eo pipefail\n"+strings.Join(append(base.BeforeScript, ciJob.Script...), "\n"), env...)
		must.Hold(t, err == nil && strings.Contains(output, want), "the scripts of", name, "ended with", err, "expected", want, "in", output)
		output, err = m.bash("set -eo pipefail\n"+strings.Join(base.AfterScript, "\n"), env...)
		must.Hold(t, err == nil, "the after_script of", name, "failed:", err, output)
	}
	m.expectStopped(filepath.Join(m.repo, ".jobrunner"))
	must.Do(os.Stat(filepath.Join(m.repo, "conformance-reports/junit.xml")))(t)

	// If the jobrunner doesn't start, the job ends and doesn't use the deployment in its variables.
	must.Succeed(t, os.WriteFile(filepath.Join(m.repo, "jobrunner.yaml"), []byte("rule: []\n"), 0o600))
	output, err := m.bash("set -eo pipefail\n"+strings.Join(file["module"].Script, "\n"), "CI_PROJECT_DIR="+m.repo, "GPUCLOUD_SOURCE="+m.repo+"/.gpucloud",
		"GPUCLOUD_BASE_URL="+j.URL, "GPUCLOUD_API_KEY="+j.Key)
	must.Hold(t, err != nil && strings.Contains(output, "The jobrunner did not start") && !strings.Contains(output, "Initializing"),
		"the jobrunner does not start, and the script ended with", err, output)
}

// The script passes, and fails if the worker's answer is wrong.
func TestShellExample(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	state := "JOBRUNNER_STATE=" + m.repo + "/.state"
	output, err := m.bash("./test.sh", state)
	must.Hold(t, err == nil && strings.Contains(output, passed), "test.sh ended with", err, "expected", passed, "in", output)
	m.expectStopped(filepath.Join(m.repo, ".state"))
	if testing.Short() {
		return
	}
	output, err = m.bash("sed -i.old s/A-Z/b-za/ jobrunner.yaml; ./test.sh", state)
	must.Hold(t, err != nil && strings.Contains(output, "1 failed"), "expected a failed test and got", err, output)
	m.expectStopped(filepath.Join(m.repo, ".state"))
}

// The suite writes its reports and a summary. It fails if the deployment fails a clause.
func TestShellConformance(t *testing.T) {
	t.Parallel()
	var faulty atomic.Bool
	j := jobrunnertest.Start(t, jobrunnertest.Middleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if faulty.Load() && r.URL.Path == "/v2/templates" {
				w = &httptest.ResponseRecorder{} // the client gets 200 without a body
			}
			next.ServeHTTP(w, r)
		})
	}))
	m := newMachine(t, "examples/ci/shell")
	for _, broken := range []bool{false, true} {
		faulty.Store(broken)
		output, err := m.bash("./conformance.sh", "GPUCLOUD_BASE_URL="+j.URL, "GPUCLOUD_API_KEY="+j.Key, "GPUCLOUD_QUEUE_URL=", "GITHUB_STEP_SUMMARY="+m.repo+"/summary")
		summary, readErr := os.ReadFile(filepath.Join(m.repo, "summary"))
		must.Hold(t, (err != nil) == broken && readErr == nil && strings.Contains(string(summary), "conformant"),
			"the deployment is broken:", broken, "and the script ended with", err, "the summary is", string(summary), readErr, "and the output", output)
		must.Hold(t, !strings.Contains(output+string(summary), j.Key), "the key is in the output or the summary:", output, string(summary))
		for _, report := range []string{"report.html", "junit.xml", "report.json"} {
			must.Succeed(t, os.Remove(filepath.Join(m.repo, "conformance-reports", report)))
		}
	}
}

// A machine with only Terraform and Go builds jobrunner and provider and passes.
func TestEmptyMachine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds jobrunner and provider")
	}
	m := newMachine(t, "examples/ci/shell")
	env := []string{"RUNNER_TEMP=" + m.repo + "/temp", "PATH=" + m.tools + ":" + os.Getenv("PATH")}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} { // otherwise everything is downloaded and compiled
		value := must.Do(exec.CommandContext(t.Context(), "go", "env", name).Output())(t)
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	output, err := m.bash("./test.sh", env...)
	must.Hold(t, err == nil && strings.Contains(output, passed) && strings.Contains(output, "Building jobrunner") && strings.Contains(output, "Building the provider"),
		"test.sh ended with", err, "expected it to build both programs and pass, and got", output)
	m.expectStopped(filepath.Join(m.repo, "temp/.jobrunner"))
}

// The three repositories differ only in their CI.
func TestExamplesAreEqual(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"main.tf", "jobrunner.yaml", "tests/shout.tftest.hcl", "tests/answers/main.tf"} {
		var first string
		for i, example := range []string{"github", "gitlab", "shell"} {
			text := string(must.ReadFile(t, filepath.Join(root, "examples/ci", example, file)))
			if i == 0 {
				first = text
			}
			must.Equal(t, text, first, file, example, "differs from github's")
		}
	}
}
