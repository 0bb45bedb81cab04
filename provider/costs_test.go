package provider_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// The guide on cost ceilings shows the configurations of examples/costs, and their plans at the
// prices of its catalog.
func TestCostsGuide(t *testing.T) {
	guide := string(must.ReadFile(t, "../docs/guides/costs.md"))
	cli, err := tfcli.Default(t.Context())
	must.Succeed(t, err)
	d := acctest.DeployWith(t, func(c *jobrunner.Config) { c.Catalog = "../examples/costs/catalog.yaml" })
	if d.Remote {
		t.Skip("the prices are those of the example")
	}
	blocks := regexp.MustCompile("(?s)```terraform\n(.*?)```").FindAllStringSubmatch(guide, -1)
	files, err := filepath.Glob("../examples/costs/*/main.tf")
	if err != nil || len(files) == 0 || len(blocks) != len(files) {
		t.Fatalf("%d configurations in the guide, %d in examples/costs: %v", len(blocks), len(files), err)
	}
	for _, file := range files {
		text := string(must.ReadFile(t, file))
		found := false
		for _, b := range blocks {
			found = found || b[1] == text
		}
		must.Hold(t, found, "the guide doesn't show", file)
		w := d.Workspace(t, cli, api.V2)
		w.Write("main.tf", text)
		writes := d.Writes()
		plan := squeeze(w.MustRun("plan", "-no-color"))
		switch filepath.Base(filepath.Dir(file)) {
		case "ceiling":
			expect(t, plan, "1 to add")
			out, err := w.Run("plan", "-no-color", "-var=workers=5")
			quoted := squeeze(strings.ReplaceAll(regexp.MustCompile(`(?m)(^> .*\n)+`).FindString(guide), "> ", ""))
			must.Hold(t, err != nil && strings.Contains(squeeze(out), strings.TrimSpace(quoted)), "the plan of 5 workers", err, out, "the guide says", quoted)
		case "exception":
			expect(t, plan, "2 to add")
		case "checks":
			expect(t, plan, "1 to add")
			expect(t, plan, "Warning: Above the cost ceiling")
		}
		must.Equal(t, d.Writes(), writes, file, "a plan sent a write")
	}
}

// squeeze removes the line breaks and frames of diagnostics.
func squeeze(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
}
