package tfcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
)

// Release is a CLI that is built from its Go module.
type Release struct {
	Name    string // Terraform or OpenTofu
	Version string
	module  string
	main    string // the package of its main function
}

// Releases are the CLIs for the acceptance tests, in addition to this machine's own.
var Releases = []Release{
	{Name: OpenTofu, Version: "1.12.6", module: "github.com/opentofu/opentofu", main: "./cmd/tofu"},
	{Name: Terraform, Version: "1.16.4", module: "github.com/hashicorp/terraform", main: "."},
}

func (r Release) String() string { return productName(r.Name) + " " + r.Version }

// Missing returns the releases that none of the CLIs covers.
func Missing(present []CLI) (missing []Release) {
	for _, r := range Releases {
		if !slices.ContainsFunc(present, r.isCoveredBy) {
			missing = append(missing, r)
		}
	}
	return missing
}

// Find returns a CLI on this machine that covers the release. It downloads nothing.
func (r Release) Find(ctx context.Context) (CLI, bool) {
	for _, path := range installedPaths() {
		if c, err := Inspect(ctx, path); err == nil && r.isCoveredBy(c) {
			return c, true
		}
	}
	return CLI{}, false
}

// isCoveredBy accepts the same product with at least the same minor version.
func (r Release) isCoveredBy(c CLI) bool {
	want := version.Must(version.NewVersion(r.Version)).Segments()
	have := c.Version.Segments()
	return c.Name == r.Name && slices.Compare(have[:2], want[:2]) >= 0
}

// Absent returns the message of a test that is skipped because the release is absent.
func (r Release) Absent() string {
	return r.String() + " is absent: run `make clis` to build it, which needs a network once; skipped"
}

// Path returns the path where Build puts the program.
func (r Release) Path() (string, error) {
	dir, err := cacheDir()
	return filepath.Join(dir, "clis", r.Name+"-"+r.Version, executable(r.Name)), err
}

// Build compiles the release into the user's cache. The file appears only when it is complete.
func (r Release) Build(ctx context.Context) error {
	path, err := r.Path()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	removeStaleBuilds(dir)
	work, err := os.MkdirTemp(dir, workPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	source, err := r.download(ctx, work)
	if err != nil {
		return fmt.Errorf("%s can't be fetched (is there a network?): %w", r, err)
	}
	// The module cache is read-only, and Terraform's module needs changes.
	tree := filepath.Join(work, "src")
	if err := os.CopyFS(tree, os.DirFS(source)); err != nil {
		return err
	}
	if err := dropAbsentModules(ctx, tree); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	program := filepath.Join(work, filepath.Base(path))
	if _, err := gobuild.RunGo(ctx, tree, "build", "-buildvcs=false", "-trimpath",
		"-ldflags=-s -w -X "+r.module+"/version.dev=no", "-o", program, r.main); err != nil {
		return fmt.Errorf("building %s: %w", r, err)
	}
	return os.Rename(program, path)
}

const workPrefix = ".build-"

// removeStaleBuilds removes files of killed builds. It keeps recent ones, which may still be in progress.
func removeStaleBuilds(dir string) {
	builds, _ := filepath.Glob(filepath.Join(dir, workPrefix+"*"))
	for _, path := range builds {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(path)
		}
	}
}

// download returns the release's folder in the module cache.
func (r Release) download(ctx context.Context, dir string) (string, error) {
	out, err := gobuild.RunGo(ctx, dir, "mod", "download", "-json", r.module+"@v"+r.Version)
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) == nil && module.Error != "" {
		return "", errors.New(strings.TrimSpace(module.Error))
	}
	return module.Dir, err
}

// dropAbsentModules removes from go.mod and the sources each module that is replaced by a folder which
// the downloaded archive lacks. In Terraform these are the backends for remote state, which our
// tests don't use.
func dropAbsentModules(ctx context.Context, tree string) error {
	out, err := gobuild.RunGo(ctx, tree, "mod", "edit", "-json")
	if err != nil {
		return err
	}
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return err
	}
	absent := map[string]bool{}
	edit := []string{"mod", "edit"}
	for _, r := range mod.Replace {
		if !strings.HasPrefix(r.New.Path, ".") {
			continue
		}
		if _, err := os.Stat(filepath.Join(tree, r.New.Path, "go.mod")); err == nil {
			continue
		}
		absent[r.Old.Path] = true
		edit = append(edit, "-dropreplace="+r.Old.Path, "-droprequire="+r.Old.Path)
	}
	if len(absent) == 0 {
		return nil
	}
	if _, err := gobuild.RunGo(ctx, tree, edit...); err != nil {
		return err
	}
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		return dropImports(path, absent)
	})
}

// dropImports removes the imports of absent packages from a file, and each line that uses one:
// the table of backends has a line for each.
func dropImports(path string, absent map[string]bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
	if err != nil {
		return nil //nolint:nilerr // test data may contain invalid Go; the build reports other errors
	}
	var unwanted []string
	for _, i := range file.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil || !absent[imported] {
			continue
		}
		name := filepath.Base(imported)
		if i.Name != nil {
			name = i.Name.Name
		}
		unwanted = append(unwanted, regexp.QuoteMeta(i.Path.Value)+`$`, `\b`+name+`\.`)
	}
	if unwanted == nil {
		return nil
	}
	drop := regexp.MustCompile(strings.Join(unwanted, "|"))
	var kept bytes.Buffer
	for line := range bytes.Lines(text) {
		if !drop.Match(bytes.TrimRight(line, "\r\n")) {
			kept.Write(line)
		}
	}
	return os.WriteFile(path, kept.Bytes(), 0o600)
}
