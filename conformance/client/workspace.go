package client

import (
	"encoding/json"
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

// workspace has the directories of a scenario: a working directory, a home, and one for temporary files.
type workspace struct {
	root            string // the parent of all; "" if the user's own directories are used
	dir, home, temp string
	terraformData   string   // replaces an absolute TF_DATA_DIR
	notes           []string // which files aren't copies of the user's
}

// homeLinks are entries of the user's home that a client needs to run: installed tools,
// their packages and their settings. They are linked into the home of each scenario,
// which has no settings and caches of the client itself.
var homeLinks = []string{
	".terraformrc", ".tofurc", ".terraform.d", ".config/opentofu",
	".local/bin", ".local/lib", ".local/share/mise", ".asdf", ".pyenv", ".rbenv", ".nvm", ".sdkman", ".npmrc",
	"go", ".cache/go-build", "Library/Caches/go-build", ".cargo", ".rustup",
	".gitconfig", ".config/git", ".ssh", ".docker",
}

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
	if w.dir, err = linkParents(work, userDir, repositoryRoot(userDir)); err != nil {
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

// removeAll removes a directory, also a read-only one such as Go's module cache, without following links.
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

// Limits of the copy that each scenario gets. Files and directories beyond them, or on another file system,
// are symbolic links to the user's own. So a scenario also starts fast in a huge directory.
const (
	maxCopiedFileSize = 1 << 20  // bytes of one file
	maxCopiedBytes    = 32 << 20 // of all files
	maxCopiedFiles    = 1000     // files and directories
)

// linkedDirs are directories that tools manage. They are never copied.
var linkedDirs = []string{".git", ".hg", ".svn", "node_modules", ".venv", "venv"}

// repositoryRoot returns the top of the repository above dir, or else the parent of dir.
func repositoryRoot(dir string) string {
	for path := dir; ; path = filepath.Dir(path) {
		_, err := os.Lstat(filepath.Join(path, ".git"))
		switch {
		case err == nil && path != dir:
			return path
		case err == nil, path == filepath.Dir(path):
			return filepath.Dir(dir)
		}
	}
}

// linkParents creates the directories from top down to dir in root, with links to their other
// entries, so that paths such as ../modules work. It returns the path of the new dir.
func linkParents(root, dir, top string) (to string, err error) {
	parent := filepath.Dir(dir)
	entries, err := os.ReadDir(parent)
	if dir == top || dir == parent || err != nil || len(entries) > maxCopiedFiles {
		return root, nil //nolint:nilerr // the copy begins below this directory
	}
	if to, err = linkParents(root, parent, top); err != nil {
		return "", err
	}
	for _, e := range entries {
		if name := e.Name(); name != filepath.Base(dir) {
			if err := os.Symlink(filepath.Join(parent, name), filepath.Join(to, name)); err != nil {
				return "", err
			}
		}
	}
	to = filepath.Join(to, filepath.Base(dir))
	return to, os.Mkdir(to, 0o700)
}

// copier copies a directory breadth first, so that files near its top are copied first.
type copier struct {
	from, to string
	device   uint64 // the file system of from; entries of others are linked and never read
	dataName string // the name of Terraform's data directories
	isData   bool   // whether from is a data directory
	files    int
	bytes    int64
	linked   []string
	states   []string // Terraform states, which aren't copied
}

func newCopier(from, to string) *copier {
	c := &copier{from: from, to: to, dataName: ".terraform"}
	if data := os.Getenv("TF_DATA_DIR"); data != "" && !filepath.IsAbs(data) {
		c.dataName = filepath.Base(data)
	}
	return c
}

func (c *copier) run() error {
	info, err := os.Stat(c.from)
	if err != nil {
		return err
	}
	c.device = deviceOf(info)
	for queue := []string{"."}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		list, err := os.ReadDir(filepath.Join(c.from, dir))
		switch {
		case dir == "." && err != nil:
			return err
		case dir != "." && (err != nil || c.files+len(list) > maxCopiedFiles || slices.Contains(linkedDirs, filepath.Base(dir))):
			if err := c.link(dir); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Join(c.to, dir), 0o700); err != nil {
			return err
		}
		c.files += len(list)
		for _, e := range list {
			info, err := e.Info()
			switch path := filepath.Join(dir, e.Name()); {
			case c.isState(path):
				c.states = append(c.states, path)
			case e.IsDir() && (err != nil || deviceOf(info) == c.device):
				queue = append(queue, path)
			case os.IsNotExist(err): // removed since the directory was read
			default:
				if err := c.copyOrLink(path, info); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// copyOrLink copies or links anything except a directory. info is nil if the file can't be read.
func (c *copier) copyOrLink(path string, info fs.FileInfo) error {
	from := filepath.Join(c.from, path)
	switch {
	case info != nil && info.Mode()&fs.ModeSymlink != 0:
		return c.symlink(path)
	case info == nil || !info.Mode().IsRegular() || info.Size() > maxCopiedFileSize || c.bytes+info.Size() > maxCopiedBytes || c.files > maxCopiedFiles:
		return c.link(path)
	}
	c.bytes += info.Size()
	if err := copyFile(filepath.Join(c.to, path), from, info.Mode().Perm()); !os.IsPermission(err) {
		return errors.Join(err, c.checkBackend(path))
	}
	return c.link(path)
}

// symlink copies a link. A link within the directory leads to the copy; others become absolute.
func (c *copier) symlink(path string) error {
	target, err := os.Readlink(filepath.Join(c.from, path))
	if err != nil {
		return err
	}
	if filepath.IsAbs(target) {
		if relative, err := filepath.Rel(c.from, target); err == nil && filepath.IsLocal(relative) {
			target = filepath.Join(c.to, relative)
		}
	} else if relative := filepath.Join(filepath.Dir(path), target); !filepath.IsLocal(relative) {
		target = filepath.Join(c.from, relative)
	}
	return errors.Join(os.Symlink(target, filepath.Join(c.to, path)), c.checkBackend(path))
}

func (c *copier) link(path string) error {
	if !slices.Contains(linkedDirs, filepath.Base(path)) && !c.inData(path) {
		c.linked = append(c.linked, path)
	}
	return errors.Join(os.Symlink(filepath.Join(c.from, path), filepath.Join(c.to, path)), c.checkBackend(path))
}

// inData reports whether a path is in Terraform's data directory.
func (c *copier) inData(path string) bool {
	if c.isData {
		return true
	}
	return slices.Contains(strings.Split(filepath.Dir(path), string(filepath.Separator)), c.dataName)
}

// isState recognizes Terraform's state, its backups and its lock. In Terraform's data
// directory, a file with the state's name describes the backend instead.
func (c *copier) isState(path string) bool {
	base := filepath.Base(path)
	return strings.Contains(base, ".tfstate") && !strings.HasSuffix(base, ".tf") && !c.inData(path)
}

// maxNotedPaths is how many paths a note contains.
const maxNotedPaths = 5

func (c *copier) notes() (notes []string) {
	if len(c.linked) > 0 {
		notes = append(notes, "linked instead of copied into each scenario's directory: "+joinPaths(c.linked))
	}
	if len(c.states) > 0 {
		notes = append(notes, "each scenario starts without a Terraform state; not copied: "+joinPaths(c.states))
	}
	return notes
}

func joinPaths(paths []string) string {
	if n := len(paths); n > maxNotedPaths {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:maxNotedPaths], ", "), n-maxNotedPaths)
	}
	return strings.Join(paths, ", ")
}

// checkBackend rejects a directory whose Terraform state is elsewhere: every scenario would overwrite it. The file
// that describes the backend is at path or below it.
func (c *copier) checkBackend(path string) error {
	const name = "terraform.tfstate"
	switch base := filepath.Base(path); {
	case base == c.dataName:
		path = filepath.Join(path, name)
	case !c.inData(path):
		path = filepath.Join(path, c.dataName, name)
	case base != name:
		return nil
	}
	path = filepath.Join(c.from, path)
	text, _ := os.ReadFile(path) // without a file, no backend is set
	var record struct {
		Backend struct {
			Type   string
			Config struct{ Path string }
		}
	}
	if json.Unmarshal(text, &record) != nil {
		return nil //nolint:nilerr // Terraform itself rejects the file
	}
	where := ""
	switch b := record.Backend; {
	case b.Type == "local" && filepath.IsAbs(b.Config.Path):
		where = "at " + b.Config.Path
	case b.Type != "" && b.Type != "local":
		where = fmt.Sprintf("in a backend of the type %q", b.Type)
	default:
		return nil
	}
	return fmt.Errorf("the Terraform state of this directory is kept %s (%s), and every scenario would overwrite it: "+
		"use a configuration with a local backend, or --shared-dir if that state may be overwritten", where, path)
}
