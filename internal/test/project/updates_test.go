package project

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Dependabot watches every file that names a version of a dependency.
func TestDependencyUpdates(t *testing.T) {
	var config struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]struct{ Patterns []string }
		}
	}
	read(t, ".github/dependabot.yml", &config)
	must.Equal(t, config.Version, 2, "version")
	listed := map[string]bool{}
	for _, u := range config.Updates {
		must.Hold(t, slices.Contains([]string{"daily", "weekly", "monthly"}, u.Schedule.Interval), u.Ecosystem, u.Directory, "interval", u.Schedule.Interval)
		for _, dir := range append(u.Directories, u.Directory) {
			if _, err := os.Stat(filepath.Join(root, dir)); dir != "" && err != nil {
				t.Errorf("%s: %v", u.Ecosystem, err)
			}
			listed[u.Ecosystem+" "+dir] = true
		}
	}
	for _, path := range files(t, func(path string) bool { return ecosystem(path) != "" }) {
		dir := "/" + strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "."), "/")
		if strings.HasPrefix(path, ".github/workflows/") {
			dir = "/"
		}
		key := ecosystem(path) + " " + dir
		must.Hold(t, listed[key], path, ".github/dependabot.yml does not list", key)
	}
}

func ecosystem(path string) string {
	switch name := filepath.Base(path); {
	case name == "go.mod":
		return "gomod"
	case name == "package.json":
		return "npm"
	case name == "Dockerfile":
		return "docker"
	case name == "compose.yaml":
		return "docker-compose"
	case name == "action.yml", strings.HasPrefix(path, ".github/workflows/"):
		return "github-actions"
	}
	return ""
}
