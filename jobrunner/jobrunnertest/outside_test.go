package jobrunnertest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// unwanted are modules that tests of other modules must not compile: Kubernetes' client, and NVML,
// which needs cgo and a linker option.
var unwanted = []string{"k8s.io/", "github.com/NVIDIA/", "github.com/hashicorp/terraform", "helm.sh/", "github.com/chromedp/"}

// Another module can test its client, as examples/go-test does, without a C compiler.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	root := must.Do(filepath.Abs("../.."))(t)
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples/go-test"))))
	// Users fetch this tree with the versions that it has.
	mod := must.ReadFile(t, filepath.Join(dir, "go.mod"))
	write(t, filepath.Join(dir, "go.mod"), strings.Replace(string(mod), "=> ../..", "=> "+root, 1))
	sums := must.ReadFile(t, filepath.Join(root, "go.sum"))
	write(t, filepath.Join(dir, "go.sum"), string(sums))

	packages := must.Do(gobuild.Tool(t.Context(), dir, "list", "-mod=mod", "-deps", "-test", "./..."))(t)
	if !strings.Contains(string(packages), "jobrunner/jobrunnertest\n") {
		t.Fatalf("expected jobrunnertest among\n%s", packages)
	}
	for name := range strings.FieldsSeq(string(packages)) {
		for _, module := range unwanted {
			must.Hold(t, !strings.HasPrefix(name, module), "a test of another module compiles", name)
		}
	}
	if testing.Short() {
		return // the rest compiles this module again, without cgo
	}
	must.Contain(t, string(must.Do(gobuild.Tool(t.Context(), dir, "test", "-mod=mod", "-trimpath", "-count=1", "-v", "./..."))(t)), "--- PASS: TestShout")
}
