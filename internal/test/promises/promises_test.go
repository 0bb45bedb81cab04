// Package promises checks that the tests and files that SECURITY.md and architecture.md name exist.
package promises

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const root = "../../.."

var (
	promise   = regexp.MustCompile(`^\| (.+) \| (.+) \|$`)
	reference = regexp.MustCompile("`([\\w/]+)\\.((?:Test|Fuzz)\\w+)`")
)

// Each promise names tests that exist and that CI doesn't skip.
func TestPromisesAreTested(t *testing.T) {
	_, promises, ok := strings.Cut(string(must.ReadFile(t, filepath.Join(root, "SECURITY.md"))), "\n## Promises\n")
	promises, _, end := strings.Cut(promises, "\n## ")
	must.Require(t, ok && end, "SECURITY.md has no section of promises, or it isn't followed by another section")
	count := 0
	for line := range strings.Lines(promises) {
		row := promise.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil || row[1] == "promise" {
			continue
		}
		count++
		tests := reference.FindAllStringSubmatch(row[2], -1)
		must.Hold(t, len(tests) != 0, "no test is named for the promise", row[1])
		for _, test := range tests {
			must.Equal(t, faultOf(t, filepath.Join(root, test[1]), test[2]), "", test[1], test[2], "of", row[1])
		}
	}
	must.Hold(t, count >= 30, "found only", count, "promises, expected at least 30")
}

// faultOf returns why a test of a folder proves nothing in CI, or "".
func faultOf(t *testing.T, folder, test string) string {
	t.Helper()
	functions := parse(t, folder)
	if functions[test] == nil {
		return "does not exist"
	}
	seen := map[string]bool{test: true} // the test and the functions of its package that it calls
	for queue := []string{test}; len(queue) > 0; queue = queue[1:] {
		f := functions[queue[0]]
		if skips(f) {
			return "may be skipped in CI, in " + queue[0]
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && functions[id.Name] != nil && !seen[id.Name] {
					seen[id.Name] = true
					queue = append(queue, id.Name)
				}
			}
			return true
		})
	}
	return ""
}

// skips reports whether a function may skip the test in CI. A skip counts unless it is in an if
// statement that isn't entered there; a check of testing.Short doesn't excuse it.
func skips(f *ast.FuncDecl) (found bool) {
	var outsideCI []*ast.BlockStmt
	for n := range ast.Preorder(f) {
		switch n := n.(type) {
		case *ast.IfStmt:
			if isFalseInCI(n.Cond) {
				outsideCI = append(outsideCI, n.Body)
			}
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				found = found || !slices.ContainsFunc(outsideCI, func(b *ast.BlockStmt) bool { return b.Pos() <= n.Pos() && n.End() <= b.End() })
			}
		}
	}
	return found
}

// isFalseInCI reports whether a condition requires that the variable CI is empty.
func isFalseInCI(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && (b.Op == token.EQL && types.ExprString(b) == `os.Getenv("CI") == ""` || b.Op == token.LAND && (isFalseInCI(b.X) || isFalseInCI(b.Y)))
}

var functionsByFolder = map[string]map[string]*ast.FuncDecl{}

func parse(t *testing.T, folder string) map[string]*ast.FuncDecl {
	t.Helper()
	if known, ok := functionsByFolder[folder]; ok {
		return known
	}
	functions := map[string]*ast.FuncDecl{}
	for _, name := range must.Do(filepath.Glob(filepath.Join(folder, "*_test.go")))(t) {
		for _, d := range must.Do(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				functions[f.Name.Name] = f
			}
		}
	}
	functionsByFolder[folder] = functions
	return functions
}

func TestSkipsAreFound(t *testing.T) {
	for body, want := range map[string]bool{
		`t.Log("x")`: false, `t.Skip("x")`: true, `if err != nil { t.Skipf("x") }`: true, `if testing.Short() { t.Skip("x") }`: true,
		`if os.Getenv("CI") == "" { t.Skip("x") }`: false, `if os.Getenv("CI") != "" { t.Skip("x") }`: true, `if os.Getenv("CI") == "" || err != nil { t.Skip("x") }`: true, `if err != nil && os.Getenv("CI") == "" { t.SkipNow() }`: false, `if testing.Short() { n = 1 }; t.Skip("x")`: true,
	} {
		file := must.Do(parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+body+" }", parser.SkipObjectResolution))(t)
		must.Equal(t, skips(file.Decls[0].(*ast.FuncDecl)), want, body)
	}
	names := slices.Sorted(maps.Keys(parse(t, ".")))
	must.Hold(t, slices.Contains(names, "TestSkipsAreFound") && faultOf(t, ".", "TestNothing") != "", "the tests of this folder are", names)
}

var namedFile = regexp.MustCompile("`((?:[\\w-]+/)+[\\w.-]*)`")

// Every file and folder that docs/reference/architecture.md names exists.
func TestArchitectureNamesFiles(t *testing.T) {
	found := namedFile.FindAllSubmatch(must.ReadFile(t, filepath.Join(root, "docs/reference/architecture.md")), -1)
	must.Hold(t, len(found) >= 30, "found", len(found), "files, expected at least 30")
	for _, name := range found {
		must.Do(os.Stat(filepath.Join(root, string(name[1]))))(t)
	}
}
