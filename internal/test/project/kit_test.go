package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// maxKit bounds the code that turns a kind into a resource: lines without imports, blanks and
// comments.
const maxKit = 600

// kitOfDataSources are the files for data sources, which don't count.
var kitOfDataSources = []string{"data_source.go", "derive.go", "find.go", "source.go"}

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
