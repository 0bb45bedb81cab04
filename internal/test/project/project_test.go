// Package project checks package comments, dependency updates, the kit's size, time limits and releases.
package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const root = "../../.."

// files returns the wanted files, as paths from the root.
func files(t *testing.T, want func(path string) bool) (found []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || path == "bin"):
			return fs.SkipDir
		case !d.IsDir() && want(path):
			found = append(found, path)
		}
		return nil
	})
	must.Succeed(t, err)
	return found
}

// Every package has one comment, which begins with the package's name, or with the command's.
func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	names := map[string]string{}
	for _, path := range files(t, func(path string) bool { return strings.HasSuffix(path, ".go") && !strings.Contains(path, "testdata/") }) {
		file := must.Do(parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments|parser.PackageClauseOnly))(t)
		dir := filepath.Dir(path)
		if names[dir] == "" || !strings.HasSuffix(path, "_test.go") { // a folder with only tests has their package name
			names[dir] = strings.TrimSuffix(file.Name.Name, "_test")
		}
		if text := strings.TrimSpace(file.Doc.Text()); text != "" {
			comments[dir] = append(comments[dir], text)
		}
	}
	for dir, name := range names {
		switch found := comments[dir]; {
		case len(found) != 1:
			t.Errorf("%s has %d package comments, want 1: %q", dir, len(found), found)
		case name == "main" && !regexp.MustCompile(`^(Command )?[A-Z]?[\w-]+ `).MatchString(found[0]), name != "main" && !regexp.MustCompile(`^Package `+name+`(_test)? `).MatchString(found[0]):
			t.Errorf("%s: the package comment begins with %.40q", dir, found[0])
		case !strings.Contains(found[0], "."):
			t.Errorf("%s: the package comment isn't a sentence: %q", dir, found[0])
		}
	}
}

// maxKit bounds the code that turns a kind into a resource: lines without imports, blanks and comments.
const maxKit = 600

// kitOfDataSources are the files for data sources, which don't count.
var kitOfDataSources = []string{"data_source.go", "derive.go", "source.go"}

func TestKitStaysSmall(t *testing.T) {
	total := 0
	for _, path := range files(t, func(path string) bool { return filepath.ToSlash(filepath.Dir(path)) == "internal/kit" }) {
		if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") && !slices.Contains(kitOfDataSources, name) {
			total += codeLines(t, filepath.Join(root, path))
		}
	}
	must.Hold(t, total != 0 && total <= maxKit, "internal/kit has", total, "lines of code for resources: expected 1 to", maxKit)
}

func codeLines(t *testing.T, path string) (n int) {
	t.Helper()
	text := must.ReadFile(t, path)
	set := token.NewFileSet()
	parsed := must.Do(parser.ParseFile(set, path, text, 0))(t)
	lines := strings.Split(string(text), "\n")
	for _, d := range parsed.Decls {
		if general, ok := d.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		for _, line := range lines[set.Position(d.Pos()).Line-1 : set.Position(d.End()).Line] {
			if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "//") {
				n++
			}
		}
	}
	return n
}

// Every go test command sets a time limit: ten minutes are too short on a busy machine.
func TestGoTestsHaveATimeout(t *testing.T) {
	command, found := regexp.MustCompile(`(^|[^\w.`+"`"+`-])go test( |$)`), 0
	for _, path := range append(files(t, func(path string) bool { return strings.HasPrefix(path, ".github/workflows/") }), "Makefile", ".ci/run") {
		for line := range strings.Lines(strings.ReplaceAll(readText(t, path), "\\\n", " ")) {
			if !command.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "#") || strings.HasPrefix(line, "@log=") {
				continue
			}
			found++
			must.Hold(t, strings.Contains(line, "-timeout"), path+": add -timeout to", strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(readText(t, "Makefile")) {
		must.Hold(t, !strings.Contains(line, "$(call go-test") || strings.Contains(line, "-timeout"),
			"Makefile: add -timeout to", strings.TrimSpace(line))
	}
	must.Hold(t, found >= 8, "found only", found, "go test commands, expected at least 8")
}

func readText(t *testing.T, path string) string {
	t.Helper()
	return string(must.ReadFile(t, filepath.Join(root, path)))
}

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
	must.Succeed(t, yaml.UnmarshalWithOptions(must.ReadFile(t, filepath.Join(root, ".github/dependabot.yml")), &config, yaml.Strict()))
	must.Equal(t, config.Version, 2, "version")
	listed := map[string]bool{}
	for _, u := range config.Updates {
		must.Hold(t, slices.Contains([]string{"daily", "weekly", "monthly"}, u.Schedule.Interval), u.Ecosystem, u.Directory, "has the interval", u.Schedule.Interval, "expected daily, weekly or monthly")
		for _, dir := range append(u.Directories, u.Directory) {
			_, err := os.Stat(filepath.Join(root, dir))
			must.Hold(t, dir == "" || err == nil, u.Ecosystem, "watches a folder that doesn't exist:", err)
			listed[u.Ecosystem+" "+dir] = true
		}
	}
	for _, path := range files(t, func(path string) bool { return ecosystem(path) != "" }) {
		dir := "/" + strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "."), "/")
		if strings.HasPrefix(path, ".github/workflows/") {
			dir = "/"
		}
		key := ecosystem(path) + " " + dir
		must.Hold(t, listed[key], ".github/dependabot.yml does not list", key, "for", path)
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

var environment = regexp.MustCompile(`(?:envOrDefault "|\.Env\.)([A-Z_0-9]+)`)

// The release workflow sets the variables of .goreleaser.yaml, and takes its text from the changelog.
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
	must.Succeed(t, yaml.Unmarshal(must.ReadFile(t, filepath.Join(root, ".github/workflows/release.yml")), &workflow))
	variables := map[string]bool{}
	for _, found := range environment.FindAllSubmatch(configuration, -1) {
		variables[string(found[1])] = true
	}
	must.Hold(t, len(variables) != 0 && len(workflow.On.Push.Tags) == 1 && strings.HasPrefix(workflow.On.Push.Tags[0], "v"),
		"expected variables and one pattern of tags that begins with v, and got", variables, "and", workflow.On.Push.Tags)
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
		{"1.1.0", "", "has no entries"},
		{"1.2", "", "has no heading"},
	} {
		cmd := exec.CommandContext(t.Context(), script, c.version)
		var stderr strings.Builder
		cmd.Dir, cmd.Stderr = dir, &stderr
		out, err := cmd.Output()
		must.Hold(t, string(out) == c.want && (err != nil) == (c.problem != "") && strings.Contains(stderr.String(), c.problem), "for", c.version, "expected the notes", c.want, "or the problem", c.problem, "and got", string(out), err, &stderr)
	}
}
