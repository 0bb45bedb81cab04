// Package ghrunner runs workflows and composite actions of GitHub on this machine, as far as
// this project uses them: the `run` steps with bash, with files for GITHUB_ENV, GITHUB_OUTPUT
// and GITHUB_STEP_SUMMARY, expressions of inputs, outputs, variables and secrets, and the
// condition always(). A `uses` is a local action, or a name that the caller takes over.
package ghrunner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Runner is a machine of GitHub's, for one job.
type Runner struct {
	Workspace string            // where the repository is
	Env       []string          // the machine's own environment
	Actions   map[string]string // folders of local actions, by what uses names before its @
	// Uses takes over any other action; nil, or an error: it is unknown.
	Uses    func(name string, with map[string]string) error
	Vars    map[string]string
	Secrets map[string]string

	Masked  []string // what was masked
	Summary string   // Markdown
	Output  string   // of all steps

	temp string
	set  []string // by GITHUB_ENV
}

// Source is what the actions of this project are in, as users name it.
const Source = "gpucloud/terraform-provider-gpucloud"

// OwnActions are the actions of this project, whose root is a folder.
func OwnActions(root string) (map[string]string, error) {
	root, err := filepath.Abs(root)
	actions := map[string]string{}
	for _, name := range []string{"jobrunner", "jobrunner/stop", "conformance"} {
		actions[Source+"/actions/"+name] = filepath.Join(root, "actions", name)
	}
	return actions, err
}

type step struct {
	ID    string            `yaml:"id"`
	Name  string            `yaml:"name"`
	If    string            `yaml:"if"`
	Uses  string            `yaml:"uses"`
	With  map[string]string `yaml:"with"`
	Run   string            `yaml:"run"`
	Shell string            `yaml:"shell"`
	Env   map[string]string `yaml:"env"`
	Dir   string            `yaml:"working-directory"`
}

// Action is the metadata of a composite action: what GitHub's documentation of metadata
// syntax has of it. It is decoded strictly.
type Action struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Author      string `yaml:"author"`
	Inputs      map[string]struct {
		Description string  `yaml:"description"`
		Required    bool    `yaml:"required"`
		Default     *string `yaml:"default"`
		Deprecation string  `yaml:"deprecationMessage"`
	} `yaml:"inputs"`
	Outputs map[string]struct {
		Description string `yaml:"description"`
		Value       string `yaml:"value"`
	} `yaml:"outputs"`
	Runs struct {
		Using string `yaml:"using"`
		Steps []step `yaml:"steps"`
	} `yaml:"runs"`
	Branding map[string]string `yaml:"branding"`
}

// ReadAction reads the action.yml of a folder, and checks what GitHub refuses.
func ReadAction(dir string) (a Action, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "action.yml"))
	if err != nil {
		return a, err
	}
	if err := yaml.UnmarshalWithOptions(text, &a, yaml.Strict()); err != nil {
		return a, err
	}
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" || len(a.Runs.Steps) == 0 {
		return a, errors.New("expected a name, a description, and runs of a composite action with steps")
	}
	for i, s := range a.Runs.Steps {
		if (s.Run == "") == (s.Uses == "") || s.Run != "" && s.Shell == "" {
			return a, fmt.Errorf("step %d: expected uses, or run with a shell", i+1)
		}
	}
	return a, nil
}

// RunJob runs the steps of a workflow's job, and returns the error of the first one that
// fails, after those that run always.
func (r *Runner) RunJob(t *testing.T, workflow, job string) error {
	t.Helper()
	text, err := os.ReadFile(workflow)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []step
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %s", workflow, err)
	}
	found, ok := file.Jobs[job]
	if !ok || len(found.Steps) == 0 {
		t.Fatalf("%s has no job %s with steps", workflow, job)
	}
	r.temp = t.TempDir()
	_, err = r.steps(t.Context(), found.Steps, scope{env: found.Env})
	return err
}

// scope is what expressions of a job's or an action's steps can name.
type scope struct {
	inputs  map[string]string
	outputs map[string]string // "id.name"
	env     map[string]string
	action  string // folder of the action; "" for a job
}

func (r *Runner) steps(ctx context.Context, steps []step, s scope) (scope, error) {
	s.outputs = map[string]string{}
	var failure error
	for i, step := range steps {
		switch strings.TrimSpace(strings.NewReplacer("${{", "", "}}", "").Replace(step.If)) {
		case "":
			if failure != nil {
				continue
			}
		case "always()":
		default:
			return s, fmt.Errorf("unknown condition %q", step.If)
		}
		if err := r.step(ctx, step, s); err != nil {
			failure = errors.Join(failure, fmt.Errorf("step %d (%s%s): %w", i+1, step.Uses, step.Run, err))
		}
	}
	return s, failure
}

func (r *Runner) step(ctx context.Context, step step, s scope) error {
	with, err := r.expandAll(step.With, s)
	if err != nil {
		return err
	}
	if step.Run != "" {
		return r.run(ctx, step, s)
	}
	name, _, _ := strings.Cut(step.Uses, "@")
	dir, ours := r.Actions[name]
	if !ours {
		if r.Uses == nil {
			return fmt.Errorf("unknown action %s", step.Uses)
		}
		return r.Uses(name, with)
	}
	action, err := ReadAction(dir)
	if err != nil {
		return err
	}
	for input := range with {
		if _, ok := action.Inputs[input]; !ok {
			return fmt.Errorf("the action %s has no input %s", name, input)
		}
	}
	inputs := map[string]string{}
	for input, declared := range action.Inputs {
		value, given := with[input]
		switch {
		case given:
			inputs[input] = value
		case declared.Default != nil:
			inputs[input] = *declared.Default
		case declared.Required:
			return fmt.Errorf("the action %s requires %s", name, input)
		}
	}
	inner, err := r.steps(ctx, action.Runs.Steps, scope{inputs: inputs, action: dir})
	for output, declared := range action.Outputs {
		value, failed := r.expand(declared.Value, inner)
		err = errors.Join(err, failed)
		s.outputs[step.ID+"."+output] = value
	}
	return err
}

func (r *Runner) run(ctx context.Context, step step, s scope) error {
	text, err := r.expand(step.Run, s)
	if err != nil {
		return err
	}
	env, err := r.expandAll(step.Env, s)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.temp, "step-")
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"env", "output", "summary"} {
		if err := os.WriteFile(file(name), nil, 0o600); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text)
	cmd.Dir = filepath.Join(r.Workspace, step.Dir)
	cmd.Env = append(append([]string{}, r.Env...), "CI=true", "GITHUB_ACTIONS=true", "GITHUB_WORKSPACE="+r.Workspace, "RUNNER_TEMP="+r.temp,
		"GITHUB_ENV="+file("env"), "GITHUB_OUTPUT="+file("output"), "GITHUB_STEP_SUMMARY="+file("summary"), "GITHUB_ACTION_PATH="+s.action)
	for _, variables := range []map[string]string{s.env, env} {
		for name, value := range variables {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, r.set...)
	for name, value := range env { // a step's own come last
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := os.Create(file("printed"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out // a file: what runs on keeps no pipe open
	err = cmd.Run()
	printed, readErr := os.ReadFile(file("printed"))
	r.Output += string(printed)
	for line := range strings.Lines(string(printed)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "::add-mask::"); ok {
			r.Masked = append(r.Masked, value)
		}
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, printed)
	}
	return errors.Join(err, readErr, r.read(file, step.ID, s))
}

// read takes over what a step wrote into its files.
func (r *Runner) read(file func(name string) string, id string, s scope) error {
	set, err := os.ReadFile(file("env"))
	for line := range strings.Lines(string(set)) {
		r.set = append(r.set, strings.TrimSuffix(line, "\n"))
	}
	outputs, err2 := os.ReadFile(file("output"))
	for line := range strings.Lines(string(outputs)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			return fmt.Errorf("invalid line in GITHUB_OUTPUT: %q", line)
		}
		s.outputs[id+"."+name] = value
	}
	summary, err3 := os.ReadFile(file("summary"))
	r.Summary += string(summary)
	return errors.Join(err, err2, err3)
}

func (r *Runner) expandAll(values map[string]string, s scope) (map[string]string, error) {
	all := map[string]string{}
	for name, value := range values {
		var err error
		if all[name], err = r.expand(value, s); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var expression = regexp.MustCompile(`\$\{\{\s*([\w.-]+)\s*\}\}`)

// expand replaces expressions, which are names here.
func (r *Runner) expand(text string, s scope) (expanded string, err error) {
	expanded = expression.ReplaceAllStringFunc(text, func(whole string) string {
		name := expression.FindStringSubmatch(whole)[1]
		context, rest, _ := strings.Cut(name, ".")
		switch context {
		case "inputs":
			return s.inputs[rest]
		case "steps":
			return s.outputs[strings.Replace(rest, ".outputs.", ".", 1)]
		case "vars":
			return r.Vars[rest]
		case "secrets":
			return r.Secrets[rest]
		case "env":
			return s.env[rest]
		}
		err = fmt.Errorf("unknown expression %s", whole)
		return ""
	})
	if err == nil && strings.Contains(expanded, "${{") {
		err = fmt.Errorf("unknown expression in %q", text)
	}
	return expanded, err
}
