// Package overlay builds a jobrunner that can be wrong. The product's sources know
// of no faults: the patches beside this package put the places into them at which
// package fault may act, and the Go tool takes the patched files in place of the
// product's (go help build: -overlay).
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// patchFolder is the folder of the patches, from the module's.
const patchFolder = "conformance/mutants/patches"

// root is the module's folder.
func root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// Write writes the patched sources to a folder, and the file for -overlay, whose
// path it answers. A patch that does not apply to the sources as they are is an
// error that names it.
func Write(ctx context.Context, root, dir string) (overlay string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	patches, err := filepath.Glob(filepath.Join(root, patchFolder, "*.patch"))
	if err != nil || len(patches) == 0 {
		return "", fmt.Errorf("there are no patches in %s (%w)", patchFolder, err)
	}
	slices.Sort(patches)
	replace := map[string]string{}
	for _, patch := range patches {
		files, err := touched(patch)
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
		apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // in no repository
		if out, err := apply.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s does not apply to the sources any more (conformance/README.md says how it is renewed): %w: %s", filepath.Join(patchFolder, filepath.Base(patch)), err, out)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// touched are the files that a patch changes or makes.
func touched(patch string) (files []string, err error) {
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

// copyFile copies a source; one that a patch makes is not there yet.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, fs.FileMode(0o600))
}

// Build builds the jobrunner with its faults.
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
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", binary, program) //nolint:gosec // of this module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the jobrunner with its faults: %w: %s", err, out)
	}
	return nil
}
