package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// folders have the errors that users of the provider, of the command lines and of the job
// API see, and the authors of workers. Those of the management API are the contract's.
var folders = []string{
	".", "provider", "resources", "datasources", "internal/api", "internal/catalog", "internal/diagnostics", "internal/httpclient", "internal/kit", "internal/migrate", "internal/objectrule", "internal/planned", "internal/planrule", "internal/value",
	"cmd/jobrunner", "jobrunner", "jobrunner/apikey", "jobrunner/catalog", "jobrunner/engine", "jobrunner/executor", "jobrunner/gpu", "jobrunner/jobapi", "jobrunner/kubernetes", "jobrunner/sqldb", "jobrunner/webhook", "jobrunner/worker", "jobrunner/workerapi",
	"cmd/conformance", "conformance", "conformance/client", "conformance/env", "conformance/local", "conformance/report",
}

// subfolders of these have errors, too.
var withSubfolders = []string{"provider", "datasources", "jobrunner/gpu"}

// placeholder stands for what differs from one error to another.
const placeholder = "…"

// sinks are functions and methods that make errors: where their text is. A function
// has the arguments of all of its name in these folders.
var sinks = map[string]func(arguments []ast.Expr) int{
	"errors.New": first, "fmt.Errorf": first,
	"AddError": first, "AddWarning": first, "NewErrorDiagnostic": first, "NewWarningDiagnostic": first,
	"AddAttributeError": second, "AddAttributeWarning": second, "NewAttributeErrorDiagnostic": second, "NewAttributeWarningDiagnostic": second,
	"ErrorAt": second, "WarnAt": second, "NewFuncError": first, "NewArgumentFuncError": second,
	"Error": ofThree, "Warn": ofThree, // of diagnostics.Check, and not of a logger
	"Refuse": second, "LostBecause": first, "noteKill": first, "keepResult": func(a []ast.Expr) int { return len(a) - 1 }, "refuse": first, "fail": second, "Fail": func(a []ast.Expr) int { return len(a) - 2 },
}

func first([]ast.Expr) int  { return 0 }
func second([]ast.Expr) int { return 1 }

func ofThree(a []ast.Expr) int {
	if len(a) < 3 {
		return -1
	}
	return 1
}

// text is what an error says, with placeholders.
type text struct {
	says     string
	position string // one place in the source
}

// collect returns the texts of a clone of the project, each once, sorted.
func collect(root string) ([]text, error) {
	all := map[string]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || path != filepath.Join(root, folder) && !slices.Contains(withSubfolders, folder)):
				return filepath.SkipDir
			case !entry.IsDir():
				return nil
			}
			return collectPackage(root, path, all)
		})
		if err != nil {
			return nil, err
		}
	}
	var texts []text
	for says, position := range all {
		texts = append(texts, text{says, position})
	}
	slices.SortFunc(texts, func(a, b text) int {
		return strings.Compare(strings.ToLower(a.says)+a.says, strings.ToLower(b.says)+b.says)
	})
	return texts, nil
}

func collectPackage(root, folder string, all map[string]string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, filepath.Join(folder, entry.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	p := newPackage(files)
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			for _, says := range p.textsOf(n) {
				if says = normal(says); !worthARow.MatchString(says) {
					continue
				}
				position := set.Position(n.Pos())
				name, err := filepath.Rel(root, position.Filename)
				if err != nil {
					name = position.Filename
				}
				all[says] = name + ":" + strconv.Itoa(position.Line)
			}
			return true
		})
	}
	return nil
}

var (
	verb         = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?(\d+|\*)?(\.\d+)?[a-zA-Z]`)
	quotedVerb   = regexp.MustCompile(`["']…["']`)
	worthARow    = regexp.MustCompile(`[A-Za-z]{2,}.*[A-Za-z]{2,}`)
	placeholders = regexp.MustCompile(`…(\s*…)+`)
	spaces       = regexp.MustCompile(`\s+`)
)

// normal is a text in one line, with one form of placeholder.
func normal(says string) string {
	says = spaces.ReplaceAllString(says, " ")
	says = quotedVerb.ReplaceAllString(says, placeholder)
	says = placeholders.ReplaceAllString(says, placeholder)
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(says), "…: "), ": …"))
}
