// Package gobuild builds programs of this module for tests that run them.
package gobuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs builds packages into a directory, relative to the test's own.
//
// It also looks at the sources: `go test` keeps the result of a test that passed
// until something changes that the test itself imports or opens, and what the
// compiler opens for it does not count. A test of a program would stay green
// although the program was changed. For the same reason it is called in a test,
// and not in TestMain: what that opens does not count either.
func Programs(ctx context.Context, dir string, packages ...string) error {
	if out, err := exec.CommandContext(ctx, "go", append([]string{"build", "-o", dir + string(filepath.Separator)}, packages...)...).CombinedOutput(); err != nil { //nolint:gosec // packages of this module
		return fmt.Errorf("building %s: %w: %s", strings.Join(packages, " "), err, out)
	}
	const sources = `{{with .Module}}{{if .Main}}{{.GoMod}}{{"\n"}}{{$.Dir}}{{range $.EmbedFiles}}{{"\n"}}{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", sources}, packages...)...).Output() //nolint:gosec // packages of this module
	if err != nil {
		return fmt.Errorf("listing the sources of %s: %w", strings.Join(packages, " "), err)
	}
	var problems []error
	for path := range strings.FieldsSeq(string(out)) {
		file, err := os.Open(path) // noted by go test; of a directory, with the times of its files
		if err == nil {
			err = file.Close()
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
