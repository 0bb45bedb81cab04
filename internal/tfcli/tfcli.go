// Package tfcli finds the Terraform, or OpenTofu, that tests and the
// quickstart drive.
package tfcli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/hashicorp/go-version"
	install "github.com/hashicorp/hc-install"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"
	"github.com/hashicorp/hc-install/src"
)

// wanted are the releases to fetch where the machine has none.
const wanted = ">= 1.11.0, < 2.0.0"

// Find returns the path of terraform or tofu: the one that
// TF_ACC_TERRAFORM_PATH names, else one on PATH, else one fetched into the
// user's cache.
func Find(ctx context.Context) (string, error) {
	if path := os.Getenv("TF_ACC_TERRAFORM_PATH"); path != "" {
		return exec.LookPath(path)
	}
	for _, name := range []string{"terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return fetch(ctx, filepath.Join(cache, "gpucloud", "terraform"))
}

func fetch(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "terraform")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	constraints, err := version.NewConstraint(wanted)
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

// IsTofu tells OpenTofu by its file name.
func IsTofu(path string) bool { return strings.HasPrefix(filepath.Base(path), "tofu") }
