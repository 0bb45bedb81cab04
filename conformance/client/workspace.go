package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// workspace has the directories of a scenario: a working directory, a home, and one for
// temporary files.
type workspace struct {
	root            string // the parent of all; "" if the user's own directories are used
	dir, home, temp string
	terraformData   string   // replaces an absolute TF_DATA_DIR
	notes           []string // which files aren't copies of the user's
}

// homeLinks are entries of the user's home that a client needs to run: installed tools,
// their packages and their settings. They are linked into the home of each scenario.
// That home has nothing else, such as the client's own settings and caches.
var homeLinks = []string{
	".terraformrc", ".tofurc", ".terraform.d", ".config/opentofu",
	".local/bin", ".local/lib", ".local/share/mise", ".asdf", ".pyenv", ".rbenv", ".nvm", ".sdkman", ".npmrc",
	"go", ".cache/go-build", "Library/Caches/go-build", ".cargo", ".rustup",
	".gitconfig", ".config/git", ".ssh", ".docker",
}

// newWorkspace creates the directories of a scenario.
func newWorkspace(root, userDir string) (w *workspace, err error) {
	w = &workspace{root: root, home: filepath.Join(root, "home"), temp: filepath.Join(root, "tmp")}
	defer func() {
		if err != nil {
			err = fmt.Errorf("creating a directory for the scenario: %w", errors.Join(err, removeAll(root)))
		}
	}()
	if userDir, err = filepath.EvalSymlinks(userDir); err != nil {
		return w, err
	}
	work := filepath.Join(root, "work")
	for _, dir := range []string{w.home, w.temp, work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return w, err
		}
	}
	if w.dir, err = linkParents(work, userDir, topOf(userDir)); err != nil {
		return w, err
	}
	c := newCopier(userDir, w.dir)
	err = c.run()
	w.notes = c.notes()
	if data := os.Getenv("TF_DATA_DIR"); err == nil && filepath.IsAbs(data) {
		w.terraformData = filepath.Join(root, "terraform")
		c := newCopier(data, w.terraformData)
		c.isData = true
		if err = c.run(); os.IsNotExist(err) {
			err = os.Mkdir(w.terraformData, 0o700)
		}
	}
	return w, errors.Join(err, w.linkTools())
}

// linkTools links the tools of the user's home.
func (w *workspace) linkTools() error {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil //nolint:nilerr // without a home, there is nothing to link
	}
	for _, path := range homeLinks {
		from, to := filepath.Join(home, path), filepath.Join(w.home, path)
		if _, err := os.Stat(from); err != nil {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Symlink(from, to)); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file. It prevents forks while the copy is open: the new process would
// inherit the open file, and a program that is open for writing can't be run.
func copyFile(to, from string, mode fs.FileMode) (err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		if os.IsNotExist(err) {
			return nil // removed since the directory was read
		}
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, maxCopiedBytes)) // the file may grow
	return errors.Join(err, out.Close())
}

// removeAll removes a directory without following links. It also removes read-only
// directories, such as Go's module cache.
func removeAll(root string) error {
	if err := os.RemoveAll(root); err == nil {
		return nil
	}
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) // RemoveAll reports errors
		}
		return nil
	})
	return os.RemoveAll(root)
}

// environment returns this process's environment with the variables of the deployment and
// with the directories of the scenario. Settings of other deployments are removed.
func (w *workspace) environment(deployment map[string]string) []string {
	// The client must not contact other services, and its output must have no colours.
	env := map[string]string{"CHECKPOINT_DISABLE": "1", "NO_COLOR": "1"}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "GPUCLOUD_") {
			env[name] = value
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		env[name] = strings.TrimPrefix(env[name]+",127.0.0.1", ",")
	}
	if w.root != "" {
		w.redirectHome(env)
	}
	maps.Copy(env, deployment)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// redirectHome replaces the user's directories with the scenario's.
func (w *workspace) redirectHome(env map[string]string) {
	for _, name := range []string{"OLDPWD", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"} {
		delete(env, name)
	}
	env["PWD"], env["HOME"], env["TMPDIR"] = w.dir, w.home, w.temp
	if runtime.GOOS == "windows" {
		env["USERPROFILE"], env["TMP"], env["TEMP"] = w.home, w.temp, w.temp
	}
	if w.terraformData != "" {
		env["TF_DATA_DIR"] = w.terraformData
	}
}

// programPath returns the path of the command's program. A relative path refers to the
// workspace if the file was copied, and otherwise to the user's own file.
func (w *workspace) programPath(name, userDir string) string {
	if !strings.ContainsRune(filepath.ToSlash(name), '/') || filepath.IsAbs(name) {
		return name
	}
	if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
		return name
	}
	return filepath.Join(userDir, name)
}
