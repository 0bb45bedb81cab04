//go:build unix

package ci

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// action is the metadata of a composite action, as GitHub documents it.
type action struct {
	Name        string
	Description string
	Inputs      map[string]struct {
		Description string
		Required    bool
		Default     *string
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []struct {
			ID, If, Uses, Run, Shell string
			With, Env                map[string]string
		}
	}
}

func readAction(t *testing.T, name string) (a action, text string) {
	t.Helper()
	content := must.ReadFile(t, filepath.Join(root, "actions", name, "action.yml"))
	must.Succeed(t, yaml.UnmarshalWithOptions(content, &a, yaml.Strict()), name)
	return a, string(content)
}

var (
	inputUsed  = regexp.MustCompile(`\$\{\{ inputs\.([\w-]+) \}\}`)
	outputUsed = regexp.MustCompile(`\$\{\{ steps\.(\w+)\.outputs\.([\w-]+) \}\}`)
)

// Each action.yml has GitHub's required members. Its script reads each variable and writes each output.
func TestActions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jobrunner", "jobrunner/stop", "conformance"} {
		a, text := readAction(t, name)
		must.Require(t, a.Name != "" && a.Description != "" && a.Runs.Using == "composite" && len(a.Runs.Steps) != 0, name, "expected a name, a description, and a composite action with steps")
		for input, declared := range a.Inputs {
			must.Hold(t, declared.Description != "" && (declared.Default != nil || declared.Required) && strings.Contains(text, "${{ inputs."+input+" }}"),
				name, "the input", input, "needs a description, a default or required, and a step that gets it")
		}
		for _, used := range inputUsed.FindAllStringSubmatch(text, -1) {
			_, declared := a.Inputs[used[1]]
			must.Hold(t, declared, name, "the input", used[1], "is not declared")
		}
		first := a.Runs.Steps[0]
		script, isBeside := strings.CutPrefix(strings.Trim(first.Run, `"`), "$GITHUB_ACTION_PATH/")
		path := filepath.Join(root, "actions", name, script)
		info, err := os.Stat(path)
		must.Require(t, err == nil && isBeside && info.Mode()&0o100 != 0 && first.Shell == "bash", name, "expected an executable script beside it, run by bash, got", first.Run)
		var source strings.Builder
		for _, file := range []string{path, filepath.Join(root, "actions/program.sh"), filepath.Join(root, "actions/jobrunner/jobrunner.sh")} {
			source.Write(must.ReadFile(t, file))
		}
		for variable := range first.Env {
			must.Hold(t, regexp.MustCompile(`\b`+variable+`\b`).MatchString(source.String()), name, script, "doesn't read", variable)
		}
		for _, used := range outputUsed.FindAllStringSubmatch(text, -1) {
			must.Hold(t, used[1] == first.ID && strings.Contains(source.String(), `"`+used[2]+"="), name, script, "doesn't write the output", used[0])
		}
	}
}

// A jobrunner that can't start fails the step with the reason and leaves no files. stop works without a start.
func TestJobrunnerScript(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	script := filepath.Join(m.tree, "actions/jobrunner/jobrunner.sh")
	state := filepath.Join(m.repo, "state of it")
	env := []string{"JOBRUNNER_STATE=" + state, "SCRIPT=" + script}
	for _, c := range []struct {
		script string
		fails  bool
		want   string
	}{
		{`tools=$(mktemp -d); for name in bash env dirname; do ln -s "$(command -v $name)" "$tools/"; done; PATH=$tools "$SCRIPT" start || test -e "$JOBRUNNER_STATE"`, true, "ps is missing"},
		{`"$SCRIPT" stop`, false, ""},
		{`"$SCRIPT" start --config=nosuch.yaml`, true, "nosuch.yaml"},
		{`"$SCRIPT" nosuch`, true, "Usage"},
		{`RUNNER_TEMP=/nosuch PATH=/usr/bin:/bin GOROOT=/nosuch JOBRUNNER= "$SCRIPT" start`, true, ""}, // with RUNNER_TEMP, bin/jobrunner isn't used
		{`JOBRUNNER=/nosuch/jobrunner "$SCRIPT" start`, true, "did not start"},
		{`eval "$("$SCRIPT" start --clock=admin)"; curl -sf -H "Authorization: Bearer $GPUCLOUD_API_KEY" "$GPUCLOUD_BASE_URL/clock"; echo "[$GPUCLOUD_QUEUE_URL]"`, false, "[]"},
		{`"$SCRIPT" start`, true, "runs already"},
		{`"$SCRIPT" stop`, false, ""},
		{`"$SCRIPT" stop`, false, ""},
	} {
		output, err := m.bash(c.script, env...)
		must.Hold(t, (err != nil) == c.fails && strings.Contains(output, c.want), c.script, "ended with", err, "expected", c.want, "in the output", output)
	}
	m.expectStopped(state)
}

// start waits for the deployment, also while ps doesn't show the jobrunner yet.
func TestStartBeforePSShowsTheJobrunner(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	state := filepath.Join(m.repo, ".state")
	must.Succeed(t, os.WriteFile(filepath.Join(m.tools, "ps"), []byte("#!/bin/sh\ngrep -q Next "+state+"/greeting || exit 1\nPATH=/usr/bin:/bin exec ps \"$@\"\n"), 0o700))
	script := filepath.Join(m.tree, "actions/jobrunner/jobrunner.sh")
	output, err := m.bash(script+` start >variables && . ./variables && curl -sf -H "Authorization: Bearer $GPUCLOUD_API_KEY" "$GPUCLOUD_BASE_URL/v2/templates"; status=$?; `+script+` stop; exit $status`, "JOBRUNNER_STATE="+state)
	must.Hold(t, err == nil && strings.Contains(output, `"templates":[]`), "the script ended with", err, "expected an empty list of templates and got", output)
	m.expectStopped(state)
}

// Without a deployment, the script fails at once and names all missing variables.
func TestJudgeScript(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	script := filepath.Join(m.tree, "actions/conformance/judge.sh")
	for env, want := range map[string]string{
		"GPUCLOUD_QUEUE_URL=":       "set BASE_URL API_KEY,",
		"BASE_URL=http://127.0.0.1": "set API_KEY,",
		"GPUCLOUD_API_KEY=k":        "set BASE_URL,",
	} {
		output, err := m.bash("set -e; GPUCLOUD_QUEUE_URL= "+script, env)
		must.Hold(t, err != nil && strings.Contains(output, want), "with", env, "the script ended with", err, "expected", want, "in", output)
	}
}

// install_provider keeps an installed provider, unless PROVIDER names another. PROVIDER=none installs none.
func TestInstalledProvider(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	script := filepath.Join(m.tree, "actions/program.sh")
	other := filepath.Join(m.repo, "other")
	must.Succeed(t, os.WriteFile(other, []byte("other"), 0o700)) //nolint:gosec // an executable file
	built := must.Do(os.Stat(filepath.Join(programs, "terraform-provider-gpucloud")))(t)
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
		must.Hold(t, (err != nil) == c.fails && strings.Contains(output, c.want) && (c.want != "" || output == ""), "with", c.env, "install_provider ended with", err, "expected the output", c.want, "and got", output)
		for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
			var size int64
			if info, err := os.Stat(filepath.Join(m.home, ".terraform.d/plugins", host, "gpucloud/gpucloud/0.0.1", runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-gpucloud")); err == nil {
				size = info.Size()
			}
			must.Equal(t, size, c.size, "bytes of the provider of", host, "with", c.env)
		}
	}
}

// Inputs with spaces stay whole, and flags are words.
func TestInputsOfActions(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	fake := filepath.Join(m.repo, "fake")
	const program = "#!/bin/sh\nprintf '[%s]' \"$@\" >&2\necho \"endpoint $GPUCLOUD_ENDPOINT_ID\" >&2\nexit 3\n"
	must.Succeed(t, os.WriteFile(fake, []byte(program), 0o700)) //nolint:gosec // an executable file
	output, err := m.bash(`"$GPUCLOUD_SOURCE/actions/jobrunner/start.sh"`, "JOBRUNNER="+fake, "PROVIDER=none", "RUNNER_TEMP="+m.repo,
		"CONFIG=a rule.yaml", "SIMULATE_GPUS=l4x2", "CATALOG=a catalog.yaml", "FLAGS=--clock=admin  --limits=off")
	must.Hold(t, err != nil && strings.Contains(output, "[--config=a rule.yaml][--simulate-gpus=l4x2][--catalog=a catalog.yaml][--clock=admin][--limits=off]"),
		"start.sh ended with", err, "and passed", output)
	output, err = m.bash(`"$GPUCLOUD_SOURCE/actions/conformance/judge.sh"; status=$?; cat output; exit $status`, "CONFORMANCE="+fake, "RUNNER_TEMP="+m.repo, "GITHUB_OUTPUT="+m.repo+"/output",
		"BASE_URL=http://127.0.0.1", "API_KEY=k", "ENDPOINT_ID=e", "SELECT=JOB-* !AUT-03", "KNOWN_FAILING=a file", "FLAGS=--progress=off")
	for _, want := range []string{"[run][--profile=read][--known-failing=a file]", "[--progress=off][--select=JOB-*][--select=!AUT-03]", "endpoint e\n", "reports=" + m.repo + "/conformance-reports\n", "status=3\n"} {
		exit, ok := errors.AsType[*exec.ExitError](err)
		must.Hold(t, ok && exit.ExitCode() == 3 && strings.Contains(output, want), "judge.sh ended with", err, "expected the status 3 and", want, "in", output)
	}
}

// Later steps get the variables; the key is masked; outputs name the deployment; stop prints the log's end.
func TestScriptsOnGitHub(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "examples/ci/shell")
	env := []string{"PROVIDER=none", "RUNNER_TEMP=" + m.repo, "GITHUB_ENV=" + m.repo + "/env", "GITHUB_OUTPUT=" + m.repo + "/output"}
	output, err := m.bash(`"$GPUCLOUD_SOURCE/actions/jobrunner/start.sh"`, append(env, "FLAGS=--clock=admin")...)
	must.Require(t, err == nil, "start.sh failed:", err, output)
	laterEnv := strings.Fields(string(must.ReadFile(t, filepath.Join(m.repo, "env"))))
	key := ""
	for _, variable := range laterEnv {
		if value, ok := strings.CutPrefix(variable, "GPUCLOUD_API_KEY="); ok {
			key = value
		}
	}
	must.Hold(t, key != "" && strings.Contains(output, "::add-mask::"+key+"\n") && strings.Count(output, key) == 1, "expected the key", key, "once, masked, in", output)
	output, err = m.bash(`curl -sf -H "Authorization: Bearer $RUNPOD_API_KEY" "$GPUCLOUD_BASE_URL/clock" && . ./output && test "$url" = "$GPUCLOUD_BASE_URL" -a -f "$log" && echo "[$GPUCLOUD_QUEUE_URL]"; sed -n 's/^sdk-url=//p' output; echo "$RUNPOD_ENDPOINT_BASE_URL"`, laterEnv...)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	must.Hold(t, err == nil && strings.Contains(output, "[]\n") && lines[len(lines)-1] == lines[len(lines)-2], "the later step ended with", err, "expected [] and twice the same address in", output)
	output, err = m.bash(`"$GPUCLOUD_SOURCE/actions/jobrunner/stop/stop.sh"`, append(env, "LINES_OF_LOG=1")...)
	must.Hold(t, err == nil && strings.HasPrefix(output, "::group::Log of the jobrunner\n") && strings.HasSuffix(output, "::endgroup::\n") && strings.Count(output, "\n") == 3,
		"stop.sh ended with", err, "expected one line of the log in a group and got", output)
	m.expectStopped(filepath.Join(m.repo, ".jobrunner"))
}

// The project's workflow tests with the CLIs of `make clis`, and runs existing targets.
func TestOwnWorkflow(t *testing.T) {
	t.Parallel()
	text := must.ReadFile(t, filepath.Join(root, ".github/workflows/check.yml"))
	type cli struct{ Name, Version string }
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct {
				Matrix struct {
					CLI    []cli `yaml:"cli"`
					Target []string
				}
			}
		}
	}
	must.Succeed(t, yaml.Unmarshal(text, &workflow))
	tested := map[cli]bool{}
	for _, c := range workflow.Jobs["acceptance"].Strategy.Matrix.CLI {
		tested[c] = true
	}
	for _, r := range tfcli.Releases {
		must.Hold(t, tested[cli{r.Name, r.Version}], "check.yml does not test with", r)
	}
	makefile := string(must.ReadFile(t, filepath.Join(root, "Makefile")))
	targets := workflow.Jobs["long"].Strategy.Matrix.Target
	for _, target := range targets {
		must.Hold(t, strings.Contains(makefile, "\n"+target+":"), "the Makefile has no target", target)
	}
	must.Hold(t, len(targets) != 0 && strings.Contains(string(text), "- run: .ci/run\n"), "check.yml lacks the long checks or .ci/run")
}

// ownActions is the prefix of this project's actions.
const ownActions = "gpucloud/terraform-provider-gpucloud/actions/"

var allowedActions = regexp.MustCompile(`^(actions/(checkout@v4|setup-go@v5|cache@v4|upload-artifact@v4)|hashicorp/setup-terraform@v3|opentofu/setup-opentofu@v1|` + ownActions + `[a-z/]+@main)$`)

// Workflows use only the actions in allowedActions, because an action runs foreign code with the project's rights.
func TestUsedActions(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{".github/workflows/check.yml", "examples/ci/github/.github/workflows/*.yml", "actions/*/action.yml", "actions/*/*/action.yml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		must.Require(t, err == nil && len(found) != 0, "expected files that match", pattern, "and got", found, err)
		files = append(files, found...)
	}
	for _, file := range files {
		text := string(must.ReadFile(t, file))
		for _, found := range regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+)`).FindAllStringSubmatch(text, -1) {
			must.Hold(t, allowedActions.MatchString(found[1]), file, "uses", found[1], "which allowedActions lacks")
		}
	}
}

// Users' workflows pass only declared inputs to this project's actions, and always stop the jobrunner.
func TestInputsInWorkflows(t *testing.T) {
	t.Parallel()
	guide := string(must.ReadFile(t, filepath.Join(root, "docs/guides/module-tests.md")))
	_, rest, _ := strings.Cut(guide, "# .github/workflows/test.yml\n")
	inGuide, _, _ := strings.Cut(rest, "```")
	workflows := map[string]string{"module-tests.md": inGuide}
	for _, name := range []string{"test.yml", "conformance.yml"} {
		workflows[name] = string(must.ReadFile(t, filepath.Join(root, "examples/ci/github/.github/workflows", name)))
	}
	for name, text := range workflows {
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct {
					Uses, If string
					With     map[string]string
				}
			}
		}
		must.Succeed(t, yaml.Unmarshal([]byte(text), &workflow), name)
		var used []string
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				own, ok := strings.CutPrefix(strings.TrimSuffix(step.Uses, "@main"), ownActions)
				if !ok {
					continue
				}
				used = append(used, own)
				declared, _ := readAction(t, own)
				for input := range step.With {
					_, ok := declared.Inputs[input]
					must.Hold(t, ok, name, "the action", own, "has no input", input)
				}
				must.Hold(t, own != "jobrunner/stop" || step.If == "always()", name, "a failed step doesn't stop the jobrunner")
			}
		}
		want := []string{"jobrunner", "jobrunner/stop"}
		if name == "conformance.yml" {
			want = []string{"conformance"}
		}
		must.Equal(t, used, want, "the actions that", name, "uses")
	}
}
