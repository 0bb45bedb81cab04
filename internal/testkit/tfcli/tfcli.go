// Package tfcli finds the Terraform or OpenTofu for tests and the quickstart, and builds missing releases.
package tfcli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"
	install "github.com/hashicorp/hc-install"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"
	"github.com/hashicorp/hc-install/src"
)

// The commands of the two CLIs.
const (
	Terraform = "terraform"
	OpenTofu  = "tofu"
)

// downloadableVersions limits the releases that are downloaded if the machine has none.
const downloadableVersions = ">= 1.11.0, < 2.0.0"

// Find returns the path of terraform or tofu: from TF_ACC_TERRAFORM_PATH, else from PATH, else
// built by `make clis`, else downloaded into the user's cache.
func Find(ctx context.Context) (string, error) {
	if path := os.Getenv("TF_ACC_TERRAFORM_PATH"); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("TF_ACC_TERRAFORM_PATH names no program: %w", err)
		}
		return filepath.Abs(found) // tests run it in other folders
	}
	if paths := installedPaths(); len(paths) > 0 {
		return paths[0], nil
	}
	dir, err := cacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), "gpucloud")
	}
	return fetch(ctx, filepath.Join(dir, "terraform"))
}

// installedPaths returns the paths of Terraform and OpenTofu on PATH and in the user's cache.
func installedPaths() (paths []string) {
	for _, name := range []string{Terraform, OpenTofu} {
		if path, err := exec.LookPath(name); err == nil {
			paths = append(paths, path)
		}
	}
	for _, r := range Releases {
		path, err := r.Path()
		if err != nil {
			continue
		}
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

type CLI struct {
	Path    string
	Name    string // Terraform or OpenTofu
	Version *version.Version
}

func (c CLI) String() string { return productName(c.Name) + " " + c.Version.String() }

func productName(name string) string {
	if name == OpenTofu {
		return "OpenTofu"
	}
	return "Terraform"
}

// Inspect asks a CLI for its name and version.
func Inspect(ctx context.Context, path string) (CLI, error) {
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=", "TF_CLI_ARGS_version=")
	out, err := cmd.Output()
	if err != nil {
		return CLI{}, fmt.Errorf("%s version: %w", path, err)
	}
	for line := range strings.Lines(string(out)) {
		product, number, _ := strings.Cut(strings.TrimSpace(line), " v")
		for _, name := range []string{Terraform, OpenTofu} {
			if product != productName(name) {
				continue
			}
			v, err := version.NewVersion(number)
			if err != nil {
				return CLI{}, fmt.Errorf("%s version: %w", path, err)
			}
			return CLI{Path: path, Name: name, Version: v}, nil
		}
	}
	return CLI{}, fmt.Errorf("%s is neither Terraform nor OpenTofu: its version command prints %q", path, out)
}

// Default returns the inspected result of Find.
func Default(ctx context.Context) (CLI, error) {
	path, err := Find(ctx)
	if err != nil {
		return CLI{}, err
	}
	return Inspect(ctx, path)
}

// All returns one CLI of this machine for each version, the default first.
func All(ctx context.Context) ([]CLI, error) {
	first, err := Default(ctx)
	if err != nil {
		return nil, err
	}
	all := []CLI{first}
	for _, path := range installedPaths() {
		c, err := Inspect(ctx, path)
		if err != nil {
			continue // a version manager's placeholder, for example
		}
		if !slices.ContainsFunc(all, func(o CLI) bool { return o.String() == c.String() }) {
			all = append(all, c)
		}
	}
	return all, nil
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "gpucloud"), err
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

func fetch(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, executable(Terraform))
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	constraints, err := version.NewConstraint(downloadableVersions)
	if err != nil {
		return "", err
	}
	path, err := install.NewInstaller().Install(ctx, []src.Installable{
		&releases.LatestVersion{Product: product.Terraform, Constraints: constraints, InstallDir: dir},
	})
	if err != nil {
		return "", fmt.Errorf("neither terraform nor tofu is on PATH, and Terraform could not be fetched (is there a network?): "+
			"install one of them and try again: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return path, nil
}

// SkipRepeated skips a test that doesn't depend on the default CLI, if the tests are repeated with
// another default (make test-tofu sets TFCLI_AGAIN).
func SkipRepeated(t *testing.T) {
	t.Helper()
	if os.Getenv("TFCLI_AGAIN") != "" {
		t.Skip("this test is the same with another default CLI")
	}
}

// HasActionsAndQueries reports whether a CLI has actions and queries. OpenTofu has neither.
func (c CLI) HasActionsAndQueries() bool {
	first := version.Must(version.NewVersion("1.14"))
	return c.Name == Terraform && c.Version.Core().GreaterThanOrEqual(first)
}
