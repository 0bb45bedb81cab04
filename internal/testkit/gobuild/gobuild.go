// Package gobuild builds programs of this module for tests that run them.
package gobuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// FolderVariable is the environment variable with the folder of the programs that `make test` and
// `make test-all` have built, once for all packages.
const FolderVariable = "GPUCLOUD_TEST_PROGRAMS"

// Programs builds packages, whose paths are relative to the test's directory, into dir. It
// takes programs from the folder of FolderVariable if they are there, and reuses programs that the tests of
// another package have linked.
//
// It also opens the sources, because `go test` caches a pass until one of the files that the
// test imports or opens changes; files that only the compiler opens don't count. Call it in a
// test: files that TestMain opens don't count either.
func Programs(ctx context.Context, dir string, packages ...string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	packages = slices.DeleteFunc(slices.Clone(packages), func(pkg string) bool { return linkBuilt(dir, pkg) == nil })
	if len(packages) == 0 {
		return nil
	}
	root, err := locate(packages)
	if err != nil {
		return err
	}
	const sources = `{{if and (eq .Name "main") (not .DepOnly)}}{{.ImportPath}}{{"\n"}}{{end}}` +
		`{{with .Module}}{{if .Main}}{{.GoMod}}{{"\n"}}{{$.Dir}}{{range $.EmbedFiles}}{{"\n"}}{{$.Dir}}/{{.}}{{end}}{{"\n"}}{{end}}{{end}}`
	out, err := exec.CommandContext(ctx, "go", append([]string{"-C", root, "list", "-deps", "-f", sources}, packages...)...).Output() //nolint:gosec // packages of this module
	if err != nil {
		return fmt.Errorf("listing the sources of %s: %w", strings.Join(packages, " "), err)
	}
	var problems []error
	for line := range strings.FieldsSeq(string(out)) {
		if !filepath.IsAbs(line) {
			if err := buildProgram(ctx, root, dir, line); err != nil {
				return err
			}
			continue
		}
		file, err := os.Open(line) // go test notes the file's time, and for a directory the times of its files
		if err == nil {
			err = file.Close()
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// locate makes paths of packages absolute, and returns the folder of their module, because the
// tests of internal/test/system are in another module.
func locate(packages []string) (root string, err error) {
	root = "."
	for i, pkg := range packages {
		if !filepath.IsAbs(pkg) && !strings.HasPrefix(pkg, ".") {
			continue
		}
		if packages[i], err = filepath.Abs(pkg); err != nil {
			return "", err
		}
		for root = packages[i]; ; root = filepath.Dir(root) {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil || root == filepath.Dir(root) {
				break
			}
		}
	}
	return root, nil
}

// linkBuilt links or copies a program from the folder of FolderVariable.
func linkBuilt(dir, pkg string) error {
	const module = "github.com/gpucloud/terraform-provider-gpucloud"
	folder := os.Getenv(FolderVariable)
	if folder == "" {
		return fs.ErrNotExist
	}
	if !strings.HasPrefix(pkg, module) {
		var err error
		if pkg, err = filepath.Abs(pkg); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(pkg, "go.mod")); err == nil {
			pkg = module
		}
	}
	name := path.Base(filepath.ToSlash(pkg))
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	from, err := os.Open(filepath.Join(folder, name)) // go test records this file
	if err != nil {
		return err
	}
	defer from.Close()
	if os.Link(from.Name(), filepath.Join(dir, name)) == nil {
		return nil
	}
	to, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// buildProgram builds one program. It uses `go run` if it can, because the go command caches programs
// that it linked for `go run`, but not for `go build`.
func buildProgram(ctx context.Context, root, dir, pkg string) error {
	args := []string{"-C", root, "build", "-o", dir + string(filepath.Separator), pkg}
	if copier, err := exec.LookPath("cp"); err == nil && runtime.GOOS != "windows" {
		args = []string{"-C", root, "run", "-exec", copier, pkg, filepath.Join(dir, path.Base(pkg))}
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil { //nolint:gosec // a package of this module
		return fmt.Errorf("building %s: %w: %s", pkg, err, out)
	}
	return nil
}

// RunGo runs the go command in a folder, without this project's workspace and flags and without cgo.
// The error has the last lines of the command's output.
func RunGo(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "PWD="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return out, fmt.Errorf("go %s: %w: %s", args[0], err, strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	return out, nil
}
