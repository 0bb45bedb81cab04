// Package project checks package comments, dependency updates, the size of the kit, time limits
// of tests and the release workflow.
package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, into, yaml.Strict())
	}
	must.Hold(t, err == nil, path, err)
}

// Every package has one comment: a sentence that begins with the package's name.
func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	names := map[string]string{}
	for _, path := range files(t, func(path string) bool { return strings.HasSuffix(path, ".go") && !strings.Contains(path, "testdata/") }) {
		file := must.Do(parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments|parser.PackageClauseOnly))(t)
		dir := filepath.Dir(path)
		if names[dir] == "" || !strings.HasSuffix(path, "_test.go") { // a folder with only tests has their package name
			names[dir] = strings.TrimSuffix(file.Name.Name, "_test")
		}
		if text := comment(file); text != "" {
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

func comment(file *ast.File) string {
	if file.Doc == nil {
		return ""
	}
	return strings.TrimSpace(file.Doc.Text())
}
