package acctest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// DeployCatalog is Deploy of a jobrunner that offers what the text of a catalog file says.
func DeployCatalog(t *testing.T, text string) *Deployment {
	t.Helper()
	file := CatalogFile(t, text)
	d := DeployWith(t, func(c *jobrunner.Config) { c.Catalog = file })
	if d.Remote {
		t.Skip("the catalog is the test's own")
	}
	return d
}

// CatalogFile writes a catalog file for the time of the test.
func CatalogFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
