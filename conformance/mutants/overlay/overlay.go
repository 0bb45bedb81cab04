// Package overlay builds a jobrunner with the faults of package fault. The product's
// sources have no faults: patches add calls of package fault, and go build -overlay
// compiles the patched files instead of the originals.
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const patchFolder = "conformance/mutants/patches"

func root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("can't find the module's folder: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// Write writes the patched sources and the file for go build -overlay to a folder, and
// returns the path of that file. An error names the patch that doesn't apply.
func Write(ctx context.Context, root, dir string) (overlay string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	patches, err := filepath.Glob(filepath.Join(root, patchFolder, "*.patch"))
	if err != nil {
		return "", err
	}
	if len(patches) == 0 {
		return "", fmt.Errorf("can't find patches in %s", filepath.Join(root, patchFolder))
	}
	slices.Sort(patches)
	replace := map[string]string{}
	for _, patch := range patches {
		files, err := patchedFiles(patch)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			copied := filepath.Join(dir, filepath.FromSlash(file))
			if err := copyFile(filepath.Join(root, filepath.FromSlash(file)), copied); err != nil {
				return "", fmt.Errorf("%s: %w", filepath.Base(patch), err)
			}
			replace[filepath.Join(root, filepath.FromSlash(file))] = copied
		}
		apply := exec.CommandContext(ctx, "git", "apply", "--whitespace=nowarn", patch)
		apply.Dir = dir
		apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // git must not find a repository
		if out, err := apply.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s doesn't apply to the sources (conformance/README.md describes how to renew it): %w: %s", filepath.Join(patchFolder, filepath.Base(patch)), err, out)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

func patchedFiles(patch string) (files []string, err error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if file, ok := strings.CutPrefix(strings.TrimSpace(line), "+++ b/"); ok {
			files = append(files, file)
		}
	}
	return files, nil
}

// copyFile copies a source file. If a patch adds the file, copyFile only creates its folder.
func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// Build builds a jobrunner that reads its faults from GPUCLOUD_FAULT.
func Build(ctx context.Context, binary string) error {
	module, err := root(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gpucloud-overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := Write(ctx, module, dir)
	if err != nil {
		return err
	}
	const program = "github.com/gpucloud/terraform-provider-gpucloud/cmd/jobrunner"
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", binary, program) //nolint:gosec // builds this module's program
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("can't build the jobrunner with its faults: %w: %s", err, out)
	}
	return nil
}
