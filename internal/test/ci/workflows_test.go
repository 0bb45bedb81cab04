//go:build unix

package ci

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/ghrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// The project's own workflow tests with the command lines that `make clis` builds, and runs
// targets of the Makefile that exist.
func TestOwnWorkflow(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows/check.yml"))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	tested := map[cli]bool{}
	for _, c := range workflow.Jobs["acceptance"].Strategy.Matrix.CLI {
		tested[c] = true
	}
	for _, r := range tfcli.Releases {
		if !tested[cli{r.Name, r.Version}] {
			t.Errorf("check.yml does not test with %s", r)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := workflow.Jobs["long"].Strategy.Matrix.Target
	for _, target := range targets {
		if !strings.Contains(string(makefile), "\n"+target+":") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
	if len(targets) == 0 || !strings.Contains(string(text), "- run: .ci/run\n") {
		t.Error("check.yml lacks the long checks or .ci/run")
	}
}

var pinned = regexp.MustCompile(`^(actions/(checkout@v4|setup-go@v5|cache@v4|upload-artifact@v4)|hashicorp/setup-terraform@v3|opentofu/setup-opentofu@v1|` + ghrunner.Source + `/actions/[a-z/]+@main)$`)

// Workflows and actions use no action that this list lacks: a new one is somebody else's code
// with this project's rights.
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
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+)`).FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(found[1]) {
				t.Errorf("%s uses %s", file, found[1])
			}
		}
	}
}
