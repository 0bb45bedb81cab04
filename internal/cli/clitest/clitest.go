// Package clitest checks the help of programs that kong parses.
package clitest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/kballard/go-shellquote"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Check requires that each command's help has an example of the command, that the program
// accepts each example, and that an empty environment variable changes no flag of an example.
func Check(t *testing.T, newParser func() *kong.Kong) {
	t.Helper()
	program := newParser().Model.Name
	t.Chdir(t.TempDir())
	args := os.Args
	os.Args = []string{program} // help texts may contain this name
	defer func() { os.Args = args }()
	visit(newParser().Model.Node, func(node *kong.Node) {
		path := strings.TrimSpace(strings.TrimPrefix(node.FullPath(), program))
		found := Examples(program, node.Detail)
		hasOwnExample := false
		for _, words := range found {
			createFiles(t, words)
			ctx, err := newParser().Parse(words)
			if err != nil {
				t.Errorf("%s --help has the example %q: %v", node.FullPath(), words, err)
				continue
			}
			checkEmptyVariables(t, ctx, newParser())
			hasOwnExample = hasOwnExample || ctx.Command() == path || strings.HasPrefix(ctx.Command(), path+" ") || path == ""
		}
		if !hasOwnExample {
			t.Errorf("%s --help has no example of the command: %q", node.FullPath(), found)
		}
	})
}

// checkEmptyVariables requires that an empty environment variable doesn't set its flag.
func checkEmptyVariables(t *testing.T, want *kong.Context, parser *kong.Kong) {
	t.Helper()
	for _, flag := range want.Flags() {
		for _, name := range flag.Envs {
			t.Setenv(name, "")
		}
	}
	got, err := parser.Parse(want.Args)
	if err != nil {
		t.Errorf("%q with empty variables: %v", want.Args, err)
		return
	}
	for i, flag := range want.Flags() {
		if a, b := want.FlagValue(flag), got.FlagValue(got.Flags()[i]); len(flag.Envs) > 0 && !reflect.DeepEqual(a, b) {
			t.Errorf("%q: --%s is %v, and %v if %v is empty", want.Args, flag.Name, a, b, flag.Envs)
		}
	}
}

func visit(node *kong.Node, f func(*kong.Node)) {
	if node.Hidden {
		return
	}
	f(node)
	for _, child := range node.Children {
		visit(child, f)
	}
}

// terminator matches words of a shell that end a command's arguments.
var terminator = regexp.MustCompile(`^(\||\|\||&&|;|[0-9]?>>?.*|#.*)$`)

// Examples returns a program's arguments from each indented line of a help text that calls it.
func Examples(program, text string) (found [][]string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		line = regexp.MustCompile(`["<]?\$?\((`+program+` [^)]*)\)"?`).ReplaceAllString(line, " $1 ") // $(…) and <(…)
		words, err := shellquote.Split(strings.TrimSpace(line))
		if err != nil {
			continue // a table's text may have a single quote
		}
		for len(words) > 0 && words[0] != program && strings.Contains(words[0], "=") { // variables
			words = words[1:]
		}
		begins := slices.Index(words, program)
		if begins < 0 {
			continue
		}
		words = words[begins+1:]
		if end := slices.IndexFunc(words, terminator.MatchString); end >= 0 {
			words = words[:end]
		}
		found = append(found, words)
	}
	return found
}

var fileName = regexp.MustCompile(`^[\w/.-]*[\w-]+\.[a-z]+$`)

func createFiles(t *testing.T, words []string) {
	t.Helper()
	for _, word := range words {
		_, value, hasValue := strings.Cut(word, "=")
		if !hasValue {
			value = word
		}
		if !fileName.MatchString(value) || filepath.IsAbs(value) {
			continue
		}
		must.Succeed(t, os.MkdirAll(filepath.Dir(value), 0o700))
		must.Succeed(t, os.WriteFile(value, nil, 0o600))
	}
}
