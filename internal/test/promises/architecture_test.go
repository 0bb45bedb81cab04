package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var namedFile = regexp.MustCompile("`((?:[\\w-]+/)+[\\w.-]*)`")

// Every file and folder that docs/reference/architecture.md names exists.
func TestArchitectureNamesFiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := namedFile.FindAllSubmatch(text, -1)
	if len(found) < 30 {
		t.Errorf("found %d files, expected at least 30", len(found))
	}
	for _, name := range found {
		if _, err := os.Stat(filepath.Join(root, string(name[1]))); err != nil {
			t.Error(err)
		}
	}
}
