package project

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Every go test command sets a time limit, because the default of ten minutes is too short for
// some packages on a busy machine.
func TestGoTestsHaveATimeout(t *testing.T) {
	command, found := regexp.MustCompile(`(^|[^\w.`+"`"+`-])go test( |$)`), 0
	for _, path := range append(files(t, func(path string) bool { return strings.HasPrefix(path, ".github/workflows/") }), "Makefile", ".ci/run") {
		for line := range strings.Lines(strings.ReplaceAll(readText(t, path), "\\\n", " ")) {
			if !command.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "#") || strings.HasPrefix(line, "@log=") {
				continue
			}
			if found++; !strings.Contains(line, "-timeout") {
				t.Errorf("%s: add -timeout to: %s", path, strings.TrimSpace(line))
			}
		}
	}
	for line := range strings.Lines(readText(t, "Makefile")) {
		if strings.Contains(line, "$(call go-test") && !strings.Contains(line, "-timeout") {
			t.Errorf("Makefile: add -timeout to: %s", strings.TrimSpace(line))
		}
	}
	must.Hold(t, found >= 8, "found only", found, "commands")
}

func readText(t *testing.T, path string) string {
	t.Helper()
	return string(must.ReadFile(t, filepath.Join(root, path)))
}
