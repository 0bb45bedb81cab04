package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var environment = regexp.MustCompile(`(?:envOrDefault "|\.Env\.)([A-Z_0-9]+)`)

// The release workflow sets the variables that .goreleaser.yaml reads, and takes the release's
// text from the changelog.
func TestReleaseWorkflow(t *testing.T) {
	configuration := must.ReadFile(t, filepath.Join(root, ".goreleaser.yaml"))
	var workflow struct {
		On   struct{ Push struct{ Tags []string } }
		Jobs map[string]struct {
			Permissions map[string]string
			Steps       []struct {
				Uses, Run string
				Env       map[string]string
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yml"))
	if err == nil {
		err = yaml.Unmarshal(text, &workflow)
	}
	must.Succeed(t, err)
	variables := map[string]bool{}
	for _, found := range environment.FindAllSubmatch(configuration, -1) {
		variables[string(found[1])] = true
	}
	if len(variables) == 0 || len(workflow.On.Push.Tags) != 1 || !strings.HasPrefix(workflow.On.Push.Tags[0], "v") {
		t.Errorf("variables %v, tags %v", variables, workflow.On.Push.Tags)
	}
	var runs, uses string
	for _, s := range workflow.Jobs["release"].Steps {
		runs, uses = runs+s.Run+"\n", uses+s.Uses+"\n"
		if !strings.Contains(s.Run, " release --clean") {
			continue
		}
		for name := range variables {
			must.Hold(t, s.Env[name] != "", "the goreleaser step doesn't set", name)
		}
	}
	must.Contain(t, strings.ReplaceAll(runs, "--", "-"), "-release-notes bin/notes.md", "tools/release-notes", "-run=TestDist ./internal/test/release", "make image", "gcc-aarch64-linux-gnu")
	must.Contain(t, uses, "download-syft", "ghaction-import-gpg", "attest-build-provenance")
}

func TestReleaseNotes(t *testing.T) {
	script := must.Do(filepath.Abs(filepath.Join(root, "tools/release-notes")))(t)
	dir := t.TempDir()
	changelog := "# Changelog\n\n## 1.3.0 (Unreleased)\n\n- Provider: a.\n\n## 1.2.0 (November 2, 2026)\n\nNOTES:\n\n- Docs: c.\n\n## 1.1.0 (May 2, 2026)\n\n## 1.0.0 (May 1, 2026)\n\n- Docs: d.\n"
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changelog), 0o600))
	for _, c := range []struct{ version, want, problem string }{
		{"1.2.0", "NOTES:\n\n- Docs: c.\n", ""},
		{"1.0.0", "- Docs: d.\n", ""},
		{"1.3.0", "", "is unreleased"},
		{"1.1.0", "", "says nothing"},
		{"1.2", "", "has no heading"},
	} {
		cmd := exec.CommandContext(t.Context(), script, c.version)
		var stderr strings.Builder
		cmd.Dir, cmd.Stderr = dir, &stderr
		out, err := cmd.Output()
		must.Hold(t, string(out) == c.want && (err != nil) == (c.problem != "") && strings.Contains(stderr.String(), c.problem), c.version, string(out), err, &stderr)
	}
}
