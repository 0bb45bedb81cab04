//go:build unix

package guides

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The README of the module lists its inputs and outputs, as registries show them.
func TestModuleReadme(t *testing.T) {
	dir := filepath.Join(root, "examples/module")
	readme := string(must.ReadFile(t, filepath.Join(dir, "README.md")))
	rows := 0
	for _, name := range []string{"variables.tf", "outputs.tf"} {
		source := must.ReadFile(t, filepath.Join(dir, name))
		file, diags := hclparse.NewParser().ParseHCL(source, name)
		must.Require(t, !diags.HasErrors(), "parsing", name, "failed:", diags)
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			text := func(attribute string) string {
				a, ok := b.Body.Attributes[attribute]
				if !ok {
					return ""
				}
				if v, diags := a.Expr.Value(nil); !diags.HasErrors() && attribute == "description" {
					return v.AsString()
				}
				return "`" + string(a.Expr.Range().SliceBytes(source)) + "`"
			}
			row := fmt.Sprintf("| `%s` | %s |", b.Labels[0], text("description"))
			if b.Type == "variable" {
				row += fmt.Sprintf(" %s | %s |", text("type"), cmp.Or(text("default"), "required"))
			}
			rows++
			must.Hold(t, strings.Contains(readme, "\n"+row+"\n"), "examples/module/README.md lacks the row", row)
		}
	}
	must.Equal(t, strings.Count(readme, "\n| `"), rows, "rows of examples/module/README.md, expected one per input and output")
}

// examples/blue-green contains the files that its guide shows.
func TestBlueGreenFolder(t *testing.T) {
	var names []string
	for _, b := range readBlocks(t, "docs/guides/blue-green.md") {
		first, text, _ := strings.Cut(b.text, "\n")
		found := fileName.FindStringSubmatch(first)
		if found == nil || found[1] == "terraform.tfvars" {
			continue
		}
		names = append(names, found[1])
		file, err := os.ReadFile(filepath.Join(root, "examples/blue-green", found[1]))
		must.Hold(t, err == nil && string(file) == text, b, "differs from examples/blue-green/", found[1], err)
	}
	slices.Sort(names)
	must.Equal(t, names, []string{"jobrunner.yaml", "main.tf", "worker.py"}, "files that the guide shows")
}

func TestEveryExampleIsListed(t *testing.T) {
	readme := string(must.ReadFile(t, filepath.Join(root, "examples/README.md")))
	for _, e := range must.Do(os.ReadDir(filepath.Join(root, "examples")))(t) {
		listed := strings.Contains(readme, "| ["+e.Name()+"](") || strings.Contains(readme, "`"+e.Name()+"`")
		must.Hold(t, !e.IsDir() || listed, "examples/README.md does not list", e.Name())
	}
}
