package overlay

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var update = flag.Bool("update", false, "renew patches if only their context lines have changed")

const module = "../../.."

// The patches apply to the product's sources. Package run tests that the patched sources compile.
func TestPatchesApply(t *testing.T) {
	if *update {
		renewPatches(t)
	}
	must.Do(Write(t.Context(), module, t.TempDir()))(t)
}

func TestFolderWithoutPatches(t *testing.T) {
	_, err := Write(t.Context(), t.TempDir(), t.TempDir())
	must.Require(t, err != nil && !strings.Contains(err.Error(), "%!"), err)
}

// renewPatches applies each patch with less context, and rewrites it with the current context.
func renewPatches(t *testing.T) {
	t.Helper()
	root := must.Do(filepath.Abs(module))(t)
	patches := must.Do(filepath.Glob(filepath.Join(root, patchFolder, "*.patch")))(t)
	for _, patch := range patches {
		dir := t.TempDir()
		git := func(args ...string) []byte {
			cmd := exec.CommandContext(t.Context(), "git", args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			out, err := cmd.Output()
			if failed, ok := err.(*exec.ExitError); ok && failed.ExitCode() != 1 || err != nil && !ok { //nolint:errorlint // as os/exec answers it
				t.Fatalf("%s: git %s: %v", filepath.Base(patch), strings.Join(args, " "), err)
			}
			return out
		}
		git("init", "-q")
		files := must.Do(patchedFiles(patch))(t)
		for _, file := range files {
			must.Succeed(t, copyFile(filepath.Join(root, file), filepath.Join(dir, file)))
		}
		git("add", "-A")
		git("apply", "-C1", "--recount", "--whitespace=nowarn", patch)
		git("add", "-AN")
		var text bytes.Buffer
		for line := range bytes.Lines(git("diff", "-U1")) {
			if !bytes.HasPrefix(line, []byte("diff --git ")) && !bytes.HasPrefix(line, []byte("index ")) && !bytes.HasPrefix(line, []byte("new file mode ")) {
				text.Write(line)
			}
		}
		must.Require(t, text.Len() != 0,
			filepath.Base(patch), "doesn't apply with less context either: conformance/README.md describes how to rewrite it")
		must.Succeed(t, os.WriteFile(patch, text.Bytes(), 0o600))
	}
}
