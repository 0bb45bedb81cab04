package client

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// makeFiles creates files in a new directory. NAME/ is a directory, and the text "-> TARGET" a link.
func makeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		target, isLink := strings.CutPrefix(text, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case isLink:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		must.Succeed(t, err)
	}
	return dir
}

func copyWorkspace(t *testing.T, dir string) *workspace {
	t.Helper()
	return must.Do(newWorkspace(filepath.Join(t.TempDir(), "scenario"), dir))(t)
}

// copyError returns the error of copying a directory.
func copyError(t *testing.T, dir string) error {
	t.Helper()
	_, err := newWorkspace(filepath.Join(t.TempDir(), "scenario"), dir)
	return err
}

// Small files are copied, large files and tools' directories linked, and Terraform's state left out.
func TestWorkspaceHasACopy(t *testing.T) {
	big := strings.Repeat("x", maxCopiedFileSize+1)
	dir := makeFiles(t, map[string]string{
		"repo/.git/HEAD": "ref", "repo/beside/module.tf": "module", "repo/README": "above",
		"repo/here/main.tf": "main", "repo/here/sub/run.sh": "run", "repo/here/big.bin": big, "repo/here/node_modules/a/b.js": "b",
		"repo/here/inner": "-> sub/run.sh", "repo/here/outer": "-> ../README", "repo/here/broken": "-> nothing",
		"repo/here/terraform.tfstate": "{}", "repo/here/terraform.tfstate.backup": "{}", "repo/here/terraform.tfstate.d/a/terraform.tfstate": "{}",
		"repo/here/.terraform.tfstate.lock.info": "{}", "repo/here/state.tfstate.tf": "kept",
		"repo/here/.terraform/terraform.tfstate": `{"backend":{"type":"local","config":{"path":null}}}`,
		"repo/here/.terraform/providers/p":       "provider", "repo/here/infra/.terraform/providers/p": big, "repo/here/.terraform/modules.bin": big,
	})
	here := filepath.Join(dir, "repo", "here")
	must.Succeed(t, os.Symlink(filepath.Join(here, "main.tf"), filepath.Join(here, "absolute")))
	managed := []string{".hg", ".svn", "node_modules", ".venv", "venv"}
	for _, name := range managed {
		must.Succeed(t, os.Mkdir(filepath.Join(here, "sub", name), 0o755))
	}
	w := copyWorkspace(t, here)
	for _, name := range managed {
		target, err := os.Readlink(filepath.Join(w.dir, "sub", name))
		must.Hold(t, target == filepath.Join(here, "sub", name), name, "leads to", target, err)
	}
	for path, isCopy := range map[string]bool{
		"main.tf": true, "sub/run.sh": true, "big.bin": false, "node_modules/a/b.js": false, "inner": true, "absolute": true, "outer": false, "../README": false, "../beside/module.tf": false,
		"state.tfstate.tf": true, ".terraform/terraform.tfstate": true, ".terraform/providers/p": true, "infra/.terraform/providers/p": false,
	} {
		want := must.ReadFile(t, filepath.Join(here, path))
		got, err := os.ReadFile(filepath.Join(w.dir, path))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %.20q, not %.20q: %v", path, got, want, err)
			continue
		}
		real, err := filepath.EvalSymlinks(filepath.Join(w.dir, path))
		must.Hold(t, err == nil && strings.HasPrefix(real, w.root) == isCopy, path, real, "want a copy", isCopy, err)
		info := must.Do(os.Stat(real))(t)
		must.Hold(t, info.Mode()&0o100 != 0, path, "can't be executed any more")
	}
	for _, path := range []string{"terraform.tfstate", "terraform.tfstate.backup", "terraform.tfstate.d", ".terraform.tfstate.lock.info"} {
		_, err := os.Lstat(filepath.Join(w.dir, path))
		must.Hold(t, os.IsNotExist(err), path, "exists:", err)
	}
	notes := strings.Join(w.notes, "\n")
	must.Hold(t, strings.Contains(notes, "big.bin") && strings.Contains(notes, "terraform.tfstate.d") && !strings.Contains(notes, "node_modules") && !strings.Contains(notes, ".terraform/"), "notes", notes)
	must.Succeed(t, removeAll(w.root))
	_, err := os.Lstat(w.root)
	must.Hold(t, os.IsNotExist(err), "the scenario's directory is still there:", err)
	for _, path := range []string{"here/big.bin", "README", ".git/HEAD", "here/terraform.tfstate"} {
		must.Equal(t, must.Err(os.Stat(filepath.Join(dir, "repo", path))), nil, "the user's own file is gone")
	}
}

// A directory with many or large files is copied up to the limits, and all files can be read.
func TestWorkspaceIsLimited(t *testing.T) {
	files := map[string]string{"main.tf": "main"}
	for i := range maxCopiedFiles + 1 {
		files[fmt.Sprintf("many/%d", i)] = "x"
	}
	for i := range 2*maxCopiedBytes/maxCopiedFileSize + 1 {
		files[fmt.Sprintf("large/%d", i)] = strings.Repeat("x", maxCopiedFileSize/2)
	}
	w := copyWorkspace(t, makeFiles(t, files))
	count, size := 0, int64(0)
	err := filepath.WalkDir(w.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			count, size = count+1, size+info.Size()
		}
		return nil
	})
	must.Hold(t, err == nil && count <= maxCopiedFiles && size <= maxCopiedBytes, count, "files of", size, "bytes are copied", err)
	must.Equal(t, must.Err(os.Readlink(filepath.Join(w.dir, "many"))), nil,
		"a directory of", maxCopiedFiles+1, "files is not linked as one:")
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(w.dir, name))
		must.Require(t, err == nil && string(got) == text, name, "isn't an equal copy", err)
	}
}

// Files of other file systems are never read, since some files of /proc are endless.
func TestOtherFileSystemsAreLinked(t *testing.T) {
	root := must.Do(os.Stat("/"))(t)
	if proc, err := os.Stat("/proc"); err != nil || deviceOf(proc) == deviceOf(root) {
		t.Skip("/proc is not another file system here")
	}
	w := copyWorkspace(t, "/")
	target, err := os.Readlink(filepath.Join(w.dir, "proc"))
	must.Hold(t, target == "/proc", "/proc is not linked, but", target, err)
}

// A directory is rejected if its state is stored elsewhere, because the scenarios would share it.
func TestBackendIsRefused(t *testing.T) {
	for record, want := range map[string]string{
		`{"backend":{"type":"s3","config":{"bucket":"b"}}}`:             `in a backend of the type "s3"`,
		`{"backend":{"type":"local","config":{"path":"/var/a.state"}}}`: "at /var/a.state",
		`{"backend":{"type":"local","config":{"path":"a.tfstate"}}}`:    "",
		`{"backend":{"type":"local","config":{"path":null}}}`:           "",
		`{"version":3}`: "", `nonsense`: "",
	} {
		for _, folder := range []string{"", "infra/"} {
			err := copyError(t, makeFiles(t, map[string]string{folder + ".terraform/terraform.tfstate": record}))
			must.Hold(t, (want == "") == (err == nil) && (err == nil || strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "--shared-dir")), folder, record, "returns", err, "not", want)
		}
	}
	data := makeFiles(t, map[string]string{"terraform.tfstate": `{"backend":{"type":"s3"}}`})
	must.ErrorContains(t, copyError(t, makeFiles(t, map[string]string{".terraform": "-> " + data})), `"s3"`)
	must.ErrorContains(t, copyError(t, makeFiles(t, map[string]string{".terraform/terraform.tfstate": "-> " + data + "/terraform.tfstate"})), `"s3"`)
	for _, folder := range []string{"", "linked/"} {
		files := map[string]string{folder + ".terraform/terraform.tfstate": `{"backend":{"type":"s3"}}`}
		for i := range maxCopiedFiles { // so many that .terraform or its parent is linked
			files[fmt.Sprint(folder, i)] = ""
		}
		must.ErrorContains(t, copyError(t, makeFiles(t, files)), `"s3"`)
	}
}

// A Terraform data directory outside of the working directory is copied, too.
func TestTerraformDataElsewhere(t *testing.T) {
	data := makeFiles(t, map[string]string{"providers/p": "provider", "terraform.tfstate": `{"backend":{"type":"local"}}`})
	t.Setenv("TF_DATA_DIR", data)
	w := copyWorkspace(t, makeFiles(t, map[string]string{"main.tf": ""}))
	must.Hold(t, slices.Contains(w.environment(nil), "TF_DATA_DIR="+filepath.Join(w.root, "terraform")), w.environment(nil))
	for _, path := range []string{"providers/p", "terraform.tfstate"} {
		info := must.Do(os.Lstat(filepath.Join(w.root, "terraform", path)))(t)
		must.Hold(t, info.Mode().IsRegular(), path, "is not copied")
	}
	t.Setenv("TF_DATA_DIR", makeFiles(t, map[string]string{"terraform.tfstate": `{"backend":{"type":"gcs"}}`}))
	must.ErrorContains(t, copyError(t, t.TempDir()), "gcs")
}

// The scenario has its own home, with links to tools and their settings.
func TestWorkspaceHasAHome(t *testing.T) {
	t.Setenv("HOME", makeFiles(t, map[string]string{
		".terraformrc": "rc", ".terraform.d/plugin-cache/": "", ".local/lib/python/x.py": "x", ".gpucloud/token": "secret", ".cache/client/x": "x",
	}))
	t.Setenv("XDG_CONFIG_HOME", "/somewhere")
	t.Setenv("NO_PROXY", "example.com")
	t.Setenv("GPUCLOUD_SETTING", "of another deployment")
	w := copyWorkspace(t, makeFiles(t, map[string]string{"main.tf": ""}))
	for path, want := range map[string]bool{".terraformrc": true, ".terraform.d/plugin-cache": true, ".local/lib/python/x.py": true, ".gpucloud": false, ".cache": false} {
		_, err := os.Stat(filepath.Join(w.home, path))
		must.Hold(t, (err == nil) == want, path, "must be in the home:", want, err)
	}
	env := w.environment(map[string]string{"GPUCLOUD_API_KEY": "the-key"})
	for _, want := range []string{
		"HOME=" + w.home, "TMPDIR=" + w.temp, "PWD=" + w.dir, "NO_PROXY=example.com,127.0.0.1", "no_proxy=127.0.0.1", "NO_COLOR=1", "CHECKPOINT_DISABLE=1", "GPUCLOUD_API_KEY=the-key",
	} {
		must.Hold(t, slices.Contains(env, want), want, "is not in", env)
	}
	for _, v := range env {
		must.Hold(t, !strings.HasPrefix(v, "XDG_CONFIG_HOME=") && !strings.HasPrefix(v, "GPUCLOUD_SETTING="), "the client's environment has", v)
	}
}

func TestReadOnlyDirectoriesAreRemoved(t *testing.T) {
	w := copyWorkspace(t, makeFiles(t, map[string]string{"main.tf": ""}))
	deep := filepath.Join(w.home, "go-mod", "cache")
	must.Succeed(t, os.MkdirAll(deep, 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(deep, "file"), nil, 0o400))
	for _, dir := range []string{deep, filepath.Dir(deep)} {
		must.Succeed(t, os.Chmod(dir, 0o500))
	}
	must.Succeed(t, removeAll(w.root))
}

// A relative program path refers to the copy, if the copy has the file.
func TestProgramPath(t *testing.T) {
	user := makeFiles(t, map[string]string{"client.sh": "x"})
	w := copyWorkspace(t, user)
	for name, want := range map[string]string{
		"terraform": "terraform", "/bin/sh": "/bin/sh", "./client.sh": "./client.sh", "../../elsewhere/client.sh": filepath.Join(user, "../../elsewhere/client.sh"),
	} {
		must.Equal(t, w.programPath(name, user), want, name)
	}
}
