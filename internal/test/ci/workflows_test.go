//go:build unix

package ci

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// The project's workflow tests with the CLIs that `make clis` builds, and runs existing
// targets of the Makefile.
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

var pinned = regexp.MustCompile(`^(actions/(checkout@v4|setup-go@v5|cache@v4|upload-artifact@v4)|hashicorp/setup-terraform@v3|opentofu/setup-opentofu@v1|` + ownActions + `[a-z/]+@main)$`)

// Workflows and actions use only the actions in pinned, because an action runs foreign code
// with the project's rights.
func TestUsedActions(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{".github/workflows/check.yml", "examples/ci/github/.github/workflows/*.yml", "actions/*/action.yml", "actions/*/*/action.yml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text := string(must.ReadFile(t, file))
		for _, found := range regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+)`).FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(found[1]) {
				t.Errorf("%s uses %s", file, found[1])
			}
		}
	}
}

// Workflows that users copy pass only declared inputs to this project's actions, and always
// stop the jobrunner. actionlint doesn't check actions of other repositories.
func TestInputsInWorkflows(t *testing.T) {
	t.Parallel()
	guide := string(must.ReadFile(t, filepath.Join(root, "docs/guides/module-tests.md")))
	_, rest, _ := strings.Cut(guide, "# .github/workflows/test.yml\n")
	inGuide, _, _ := strings.Cut(rest, "```")
	workflows := map[string]string{"module-tests.md": inGuide}
	for _, name := range []string{"test.yml", "conformance.yml"} {
		text := must.ReadFile(t, filepath.Join(root, "examples/ci/github/.github/workflows", name))
		workflows[name] = string(text)
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
		if err := yaml.Unmarshal([]byte(text), &workflow); err != nil {
			t.Fatalf("%s: %s", name, err)
		}
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
					if _, ok := declared.Inputs[input]; !ok {
						t.Errorf("%s: the action %s has no input %s", name, own, input)
					}
				}
				must.Hold(t, own != "jobrunner/stop" || step.If == "always()", name, "a failed step doesn't stop the jobrunner")
			}
		}
		want := []string{"jobrunner", "jobrunner/stop"}
		if name == "conformance.yml" {
			want = []string{"conformance"}
		}
		must.Equal(t, used, want, name, "uses the actions")
	}
}
