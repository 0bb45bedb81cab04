package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

// checkSources type-checks the programs and all packages that they are made of, for each
// platform that no archives are made for.
func checkSources(ctx context.Context, c config, archived []string) error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	s := sources{root: root + string(filepath.Separator), set: token.NewFileSet(), files: map[string]*ast.File{}}
	programs := c.programs()
	var problems []error
	for _, target := range slices.Sorted(maps.Keys(programs)) {
		if slices.Contains(archived, target) {
			continue
		}
		n, err := s.check(ctx, target, programs[target])
		if err != nil {
			problems = append(problems, err)
			continue
		}
		fmt.Printf("%-14s type-checked: %d packages of %s\n", target, n, strings.Join(programs[target], ", "))
	}
	return errors.Join(problems...)
}

// sources keeps the files that are read, most of which all platforms share.
type sources struct {
	root string
	set  *token.FileSet

	mu    sync.Mutex
	files map[string]*ast.File
}

func (s *sources) check(ctx context.Context, target string, programs []string) (int, error) {
	system, arch, _ := strings.Cut(target, "_")
	loaded, err := packages.Load(&packages.Config{
		Context:   ctx,
		Mode:      packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesSizes,
		Env:       append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0"),
		Fset:      s.set,
		ParseFile: s.parse,
	}, programs...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", target, err)
	}
	n := 0
	var problems []error
	packages.Visit(loaded, nil, func(p *packages.Package) {
		n++
		for _, problem := range p.Errors {
			if !strings.HasPrefix(problem.Pos, s.root) && strings.HasSuffix(problem.Msg, "not used") {
				continue // by the bodies that were left out
			}
			problems = append(problems, fmt.Errorf("%s: %w", target, problem))
		}
	})
	return n, errors.Join(problems...)
}

// endless is a statement after which a function needs no return.
var endless = &ast.ForStmt{Body: &ast.BlockStmt{}}

// parse reads a file. Of other modules it leaves out the bodies of functions, which are most
// of the work: what they declare is enough to check ours.
func (s *sources) parse(set *token.FileSet, name string, text []byte) (*ast.File, error) {
	s.mu.Lock()
	file := s.files[name]
	s.mu.Unlock()
	if file != nil {
		return file, nil
	}
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return file, err
	}
	if !strings.HasPrefix(name, s.root) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				f.Body = &ast.BlockStmt{Lbrace: f.Body.Lbrace, Rbrace: f.Body.Rbrace, List: []ast.Stmt{endless}}
			}
		}
	}
	s.mu.Lock()
	s.files[name] = file
	s.mu.Unlock()
	return file, nil
}
