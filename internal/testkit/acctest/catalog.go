package acctest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// DeployCatalog is Deploy with a catalog file of the given text. With a remote deployment, the
// test is skipped.
func DeployCatalog(t *testing.T, text string) *Deployment {
	t.Helper()
	file := CatalogFile(t, text)
	d := DeployWith(t, func(c *jobrunner.Config) { c.Catalog = file })
	if d.Remote {
		t.Skip("the test needs its own catalog")
	}
	return d
}

// CatalogFile writes a catalog file and returns its path. It is removed after the test.
func CatalogFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
