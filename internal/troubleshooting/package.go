package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// pkg is what the texts of a package refer to.
type pkg struct {
	constants map[string]ast.Expr
	variables map[string][]ast.Expr // of the function that is visited: what is assigned
}

// returning are methods whose results are texts of errors.
var returning = []string{"Error", "Remedy", "lossReason", "outcome", "startFailure", "warning"}

// members of structs are texts of errors.
var members = []string{"Problem", "Detail"}

func newPackage(files []*ast.File) *pkg {
	p := &pkg{constants: map[string]ast.Expr{}}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			declaration, ok := n.(*ast.GenDecl)
			if !ok || declaration.Tok != token.CONST {
				return true
			}
			for _, spec := range declaration.Specs {
				values := spec.(*ast.ValueSpec) //nolint:forcetypeassert // of a const declaration
				for i, name := range values.Names {
					if i < len(values.Values) {
						p.constants[name.Name] = values.Values[i]
					}
				}
			}
			return true
		})
	}
	return p
}

// enter makes the variables of a function known.
func (p *pkg) enter(f *ast.FuncDecl) {
	p.variables = map[string][]ast.Expr{}
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, left := range a.Lhs {
				if id, ok := left.(*ast.Ident); ok {
					p.variables[id.Name] = append(p.variables[id.Name], a.Rhs[i])
				}
			}
		}
		return true
	})
}

// alternatives are the texts of an expression: several where it is a variable.
func (p *pkg) alternatives(e ast.Expr) (texts []string) {
	id, ok := e.(*ast.Ident)
	if !ok || p.constants[id.Name] != nil || len(p.variables[id.Name]) == 0 {
		return []string{p.textOf(e)}
	}
	for _, value := range p.variables[id.Name] {
		texts = append(texts, p.textOf(value))
	}
	return texts
}

// textsOf returns the texts of errors that a node makes.
func (p *pkg) textsOf(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.CallExpr:
		at, ok := sinks[nameOf(n.Fun)]
		if !ok {
			at, ok = sinks[shortName(n.Fun)]
		}
		if !ok || isLogger(n.Fun) {
			return nil
		}
		if i := at(n.Args); i >= 0 && i < len(n.Args) {
			return p.alternatives(n.Args[i])
		}
	case *ast.CompositeLit: // exitError{status, text}, SettingError{setting, problem}
		if id, ok := n.Type.(*ast.Ident); ok && (id.Name == "exitError" || id.Name == "SettingError") && len(n.Elts) == 2 {
			return p.alternatives(n.Elts[1])
		}
	case *ast.KeyValueExpr:
		if id, ok := n.Key.(*ast.Ident); ok && slices.Contains(members, id.Name) {
			return p.alternatives(n.Value)
		}
	case *ast.AssignStmt:
		if s, ok := n.Lhs[0].(*ast.SelectorExpr); ok && slices.Contains(members, s.Sel.Name) {
			return p.alternatives(n.Rhs[0])
		}
	case *ast.FuncDecl:
		p.enter(n)
		if n.Recv == nil || !slices.Contains(returning, n.Name.Name) || n.Body == nil {
			return nil
		}
		var texts []string
		ast.Inspect(n.Body, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
				texts = append(texts, p.alternatives(r.Results[0])...)
			}
			return true
		})
		return texts
	}
	return nil
}

// isLogger tells that a method is one of a logger: its lines are no errors.
func isLogger(method ast.Expr) bool {
	s, ok := method.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	return slices.Contains([]string{"log", "logger", "Logger", "slog"}, shortName(s.X))
}

// textOf is a string with placeholders for what is not constant.
func (p *pkg) textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return strings.ReplaceAll(verb.ReplaceAllString(text, placeholder), "%%", "%")
		}
	case *ast.ParenExpr:
		return p.textOf(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return p.textOf(e.X) + p.textOf(e.Y)
		}
	case *ast.Ident:
		if constant, ok := p.constants[e.Name]; ok {
			return p.textOf(constant)
		}
	case *ast.CallExpr:
		if name := nameOf(e.Fun); len(e.Args) > 0 && (name == "fmt.Sprintf" || name == "strings.TrimSpace") {
			return p.textOf(e.Args[0])
		}
	}
	return placeholder
}

// nameOf is "fmt.Errorf" of a call of it.
func nameOf(fun ast.Expr) string {
	if s, ok := fun.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
		return s.Sel.Name
	}
	return shortName(fun)
}

// shortName is a function's or method's name.
func shortName(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.Ident:
		return fun.Name
	}
	return ""
}
