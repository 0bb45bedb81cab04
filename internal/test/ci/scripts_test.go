//go:build unix

package ci

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/ghrunner"
)

// Each action.yml has the metadata that GitHub accepts, and its steps find their scripts.
func TestActions(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(filepath.Join(root, "actions"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "action.yml" {
			return err
		}
		found++
		a, err := ghrunner.ReadAction(filepath.Dir(path))
		if err != nil {
			t.Errorf("%s: %s", path, err)
			return nil
		}
		for name, input := range a.Inputs {
			if input.Description == "" || input.Default == nil && !input.Required {
				t.Errorf("%s: the input %s needs a description, and a default or required", path, name)
			}
		}
		used := ""
		for _, step := range a.Runs.Steps {
			used += fmt.Sprint(step.Env, step.With)
			script, ok := strings.CutPrefix(strings.Trim(step.Run, `"`), "$GITHUB_ACTION_PATH/")
			if step.Run == "" {
				continue
			}
			if info, err := os.Stat(filepath.Join(filepath.Dir(path), script)); !ok || err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("%s: expected an executable script beside it, got %s", path, step.Run)
			}
		}
		for input := range a.Inputs {
			if !strings.Contains(used, "${{ inputs."+input+" }}") {
				t.Errorf("%s: no step gets the input %s", path, input)
			}
		}
		return nil
	})
	if err != nil || found != 3 {
		t.Errorf("%d actions, %v", found, err)
	}
}

// A jobrunner that can't start fails the step, with its reason, and leaves nothing; a second
// start is refused while one runs, and stop may come without a start.
func TestJobrunnerScript(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	script, err := filepath.Abs(filepath.Join(root, "actions/jobrunner/jobrunner.sh"))
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(m.repo, "state of it")
	env := []string{"JOBRUNNER_STATE=" + state, "SCRIPT=" + script}
	for _, c := range []struct {
		script string
		fails  bool
		want   string
	}{
		{`"$SCRIPT" stop`, false, ""},
		{`"$SCRIPT" start --config=nosuch.yaml`, true, "nosuch.yaml"},
		{`"$SCRIPT" nosuch`, true, "Usage"},
		{`RUNNER_TEMP=/nosuch PATH=/usr/bin:/bin GOROOT=/nosuch JOBRUNNER= "$SCRIPT" start`, true, ""}, // a built one is in bin/
		{`JOBRUNNER=/nosuch/jobrunner "$SCRIPT" start`, true, "did not start"},
		{`eval "$("$SCRIPT" start --clock=admin)"; curl -sf -H "Authorization: Bearer $GPUCLOUD_API_KEY" "$GPUCLOUD_BASE_URL/clock"; echo "[$GPUCLOUD_QUEUE_URL]"`, false, "[]"},
		{`"$SCRIPT" start`, true, "runs already"},
		{`"$SCRIPT" stop`, false, ""},
		{`"$SCRIPT" stop`, false, ""},
	} {
		output, err := m.bash(c.script, env...)
		if (err != nil) != c.fails || !strings.Contains(output, c.want) {
			t.Errorf("%s: error %v, output:\n%s", c.script, err, output)
		}
	}
	m.ended(state)
}

// Without ps the script can't tell what runs, and starts nothing.
func TestStartWithoutPS(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	script, err := filepath.Abs(filepath.Join(root, "actions/jobrunner/jobrunner.sh"))
	if err != nil {
		t.Fatal(err)
	}
	output, err := m.bash(`tools=$(mktemp -d); for name in bash env dirname; do ln -s "$(command -v $name)" "$tools/"; done; PATH=$tools `+script+` start`, "JOBRUNNER_STATE="+m.repo+"/.state")
	if err == nil || !strings.Contains(output, "ps is missing") {
		t.Errorf("%v\n%s", err, output)
	}
	if _, err := os.Stat(filepath.Join(m.repo, ".state")); err == nil {
		t.Error("something was started")
	}
}

// A deployment that is not named is told of at once, with all that is missing.
func TestJudgeScript(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	script, err := filepath.Abs(filepath.Join(root, "actions/conformance/judge.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{
		"GPUCLOUD_QUEUE_URL=":       "set BASE_URL API_KEY,",
		"BASE_URL=http://127.0.0.1": "set API_KEY,",
		"GPUCLOUD_API_KEY=k":        "set BASE_URL,",
	} {
		if output, err := m.bash("set -e; GPUCLOUD_QUEUE_URL= "+script, env); err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: %v\n%s", env, err, output)
		}
	}
}

// start installs the provider where none is, that of PROVIDER in any case, and none for none.
func TestInstalledProvider(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	script, err := filepath.Abs(filepath.Join(root, "actions/program.sh"))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(m.repo, "other")
	if err := os.WriteFile(other, []byte("other"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	built, err := os.Stat(filepath.Join(programs, "terraform-provider-gpucloud"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env, want string
		fails     bool
		size      int64 // of the installed file; 0: none
	}{
		{"PROVIDER=none", "", false, 0},
		{"PATH=/usr/bin:/bin", "set PROVIDER", false, 0}, // without Go
		{"PROVIDER=/nosuch", "/nosuch", true, 0},
		{"PROVIDER=", "terraform init finds it", false, built.Size()},
		{"PROVIDER=", "", false, built.Size()},
		{"PROVIDER=" + other, "terraform init finds it", false, int64(len("other"))},
		{"PATH=/usr/bin:/bin", "", false, int64(len("other"))},
	} {
		output, err := m.bash(`set -euo pipefail; . "`+script+`"; install_provider`, c.env)
		if (err != nil) != c.fails || !strings.Contains(output, c.want) || c.want == "" && output != "" {
			t.Errorf("%s: %v, output:\n%s", c.env, err, output)
		}
		for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
			var size int64
			if info, err := os.Stat(filepath.Join(m.home, ".terraform.d/plugins", host, "gpucloud/gpucloud/0.0.1", runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-gpucloud")); err == nil {
				size = info.Size()
			}
			if size != c.size {
				t.Errorf("%s: the provider of %s has %d bytes, want %d", c.env, host, size, c.size)
			}
		}
	}
}

// Flags with spaces in inputs stay whole, and the outputs name the deployment.
func TestStartAction(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	config := filepath.Join(m.repo, "a rule.yaml")
	if err := os.Rename(filepath.Join(m.repo, "jobrunner.yaml"), config); err != nil {
		t.Fatal(err)
	}
	workflow := filepath.Join(m.repo, "workflow.yml")
	text := `
jobs:
  job:
    env: {GREETING: hello}
    steps:
      - id: deployment
        uses: ` + ghrunner.Source + `/actions/jobrunner@main
        with: {config: a rule.yaml, simulate-gpus: l4x2, flags: --clock=admin --limits=off}
      - run: test "$URL" = "$GPUCLOUD_BASE_URL" && test -f "$LOG" && test "$GREETING" = hello
        env:
          URL: ${{ steps.deployment.outputs.url }}
          LOG: ${{ steps.deployment.outputs.log }}
      - run: |
          curl -sf -H "Authorization: Bearer $GPUCLOUD_API_KEY" "$GPUCLOUD_BASE_URL/clock"
      - run: exit 7
      - run: echo this is skipped
      - uses: ` + ghrunner.Source + `/actions/jobrunner/stop@main
        if: always()
        with: {lines: 5}
`
	if err := os.WriteFile(workflow, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := m.github()
	err := r.RunJob(t, workflow, "job")
	if err == nil || !strings.Contains(err.Error(), "exit status 7") || strings.Contains(r.Output, "skipped") || !strings.Contains(r.Output, `"now"`) || !strings.Contains(r.Output, "::endgroup::") {
		t.Errorf("%v\n%s", err, r.Output)
	}
}
