//go:build linux

package main

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
)

const root = "../.."

// lines are some that the cast has to have.
var lines = []string{
	"$ terraform apply -auto-approve", "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.",
	`$ jobrunner job run hello --input '{"name": "Ada"}'`, `  "greeting": "Hello Ada!"`, "No changes. Your infrastructure matches the configuration.",
}

// The README shows the pictures, which are small, and each comes from a whole run.
func TestPictures(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{castFile, pageFile} {
		if !strings.Contains(string(readme), "](docs/images/"+name+")") {
			t.Errorf("README.md does not show %s", name)
		}
	}
	checkPictures(t, filepath.Join(root, "docs", "images"))
}

// The pictures can be taken anew.
func TestMakePictures(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run looks at the pictures that there are")
	}
	python.Need(t)
	if _, err := exec.LookPath("chromium"); err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	bin, to := t.TempDir(), t.TempDir()
	if err := gobuild.Programs(t.Context(), bin, root, root+"/cmd/jobrunner"); err != nil {
		t.Fatal(err)
	}
	if err := makePictures(t.Context(), root, bin, to); err != nil {
		t.Fatal(err)
	}
	checkPictures(t, to)
}

// checkPictures looks at the pictures of a folder.
func checkPictures(t *testing.T, dir string) {
	t.Helper()
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > maxPicture {
			t.Errorf("%s has %d bytes: expected at most %d", name, len(content), maxPicture)
		}
		return content
	}
	shown := strings.Join(parse(t, read(castFile)), "\n")
	for _, line := range lines {
		if !strings.Contains(shown, line) {
			t.Errorf("%s does not show %q:\n%s", castFile, line, shown)
		}
	}
	page, err := png.Decode(bytes.NewReader(read(pageFile)))
	if err != nil {
		t.Fatal(err)
	}
	if size := page.Bounds().Size(); size.X < 1000 || size.Y < 500 {
		t.Errorf("%s has %v pixels", pageFile, size)
	}
}
