package client

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of the copy that each scenario gets. Files and directories beyond them, or on another
// file system, are symbolic links to the user's own. So a scenario also starts fast in a huge
// directory.
const (
	maxCopiedFile  = 1 << 20  // bytes of one file
	maxCopiedBytes = 32 << 20 // of all files
	maxCopiedFiles = 1000     // files and directories
)

// linkedDirs are directories that tools manage. They are never copied.
var linkedDirs = []string{".git", ".hg", ".svn", "node_modules", ".venv", "venv"}

// topOf returns the top of the repository above dir, or the parent of dir if dir is the top
// or in no repository.
func topOf(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		_, err := os.Lstat(filepath.Join(at, ".git"))
		switch {
		case err == nil && at != dir:
			return at
		case err == nil, at == filepath.Dir(at):
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
		at := queue[0]
		list, err := os.ReadDir(filepath.Join(c.from, at))
		switch {
		case at == "." && err != nil:
			return err
		case at != "." && (err != nil || c.files+len(list) > maxCopiedFiles || slices.Contains(linkedDirs, filepath.Base(at))):
			if err := c.link(at); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Join(c.to, at), 0o700); err != nil {
			return err
		}
		c.files += len(list)
		for _, e := range list {
			info, err := e.Info()
			switch path := filepath.Join(at, e.Name()); {
			case c.isState(path):
				c.states = append(c.states, path)
			case e.IsDir() && (err != nil || deviceOf(info) == c.device):
				queue = append(queue, path)
			case os.IsNotExist(err): // removed since the directory was read
			default:
				if err := c.file(path, info); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// file copies or links anything except a directory. info is nil if the file can't be read.
func (c *copier) file(path string, info fs.FileInfo) error {
	from := filepath.Join(c.from, path)
	switch {
	case info != nil && info.Mode()&fs.ModeSymlink != 0:
		return c.symlink(path)
	case info == nil || !info.Mode().IsRegular() || info.Size() > maxCopiedFile || c.bytes+info.Size() > maxCopiedBytes || c.files > maxCopiedFiles:
		return c.link(path)
	}
	c.bytes += info.Size()
	err := copyFile(filepath.Join(c.to, path), from, info.Mode().Perm())
	switch {
	case os.IsPermission(err):
		return c.link(path)
	case err == nil && c.inData(path) && filepath.Base(path) == "terraform.tfstate":
		return checkBackend(from)
	}
	return err
}

// symlink copies a link. A link within the directory leads to the copy; others become
// absolute.
func (c *copier) symlink(path string) error {
	target, err := os.Readlink(filepath.Join(c.from, path))
	if err != nil {
		return err
	}
	if !filepath.IsAbs(target) {
		if within := filepath.Join(filepath.Dir(path), target); !filepath.IsLocal(within) {
			target = filepath.Join(c.from, within)
		}
	}
	return os.Symlink(target, filepath.Join(c.to, path))
}

func (c *copier) link(path string) error {
	if !slices.Contains(linkedDirs, filepath.Base(path)) && !c.inData(filepath.Dir(path)) {
		c.linked = append(c.linked, path)
	}
	return os.Symlink(filepath.Join(c.from, path), filepath.Join(c.to, path))
}

// inData tells whether a path is in Terraform's data directory.
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

// maxNoted is how many paths a note contains.
const maxNoted = 5

func (c *copier) notes() (notes []string) {
	if len(c.linked) > 0 {
		notes = append(notes, "linked instead of copied into each scenario's directory because of size or number: "+joinPaths(c.linked))
	}
	if len(c.states) > 0 {
		notes = append(notes, "each scenario starts without a Terraform state; not copied: "+joinPaths(c.states))
	}
	return notes
}

func joinPaths(paths []string) string {
	if n := len(paths); n > maxNoted {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:maxNoted], ", "), n-maxNoted)
	}
	return strings.Join(paths, ", ")
}

// checkBackend rejects a directory whose Terraform state is elsewhere, since every scenario
// would overwrite it.
func checkBackend(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
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
