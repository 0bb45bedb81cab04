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

// Limits of what every scenario gets as a copy. Whatever exceeds them, or is on
// another file system, is a symbolic link to the user's own file or directory,
// so that a scenario in a huge directory starts as fast as one in a small one.
const (
	maxCopiedFile  = 1 << 20  // bytes of one file
	maxCopiedBytes = 32 << 20 // of all files
	maxCopiedFiles = 1000     // files and directories
)

// linkedDirs are directories that tools manage and that are never copied.
var linkedDirs = []string{".git", ".hg", ".svn", "node_modules", ".venv", "venv"}

// layout is what the working directory of each scenario consists of. It is read
// once, before any scenario writes something.
type layout struct {
	dir     string // the user's working directory
	entries []entry
	parents []parentLevel // from the top down to the parent of dir
	// terraformData is what an absolute TF_DATA_DIR holds.
	terraformData []entry
	notes         []string
}

// entry is a file or directory of a layout.
type entry struct {
	path   string // relative to the layout's directory
	kind   entryKind
	mode   fs.FileMode
	target string // of a link
}

type entryKind int

const (
	directory entryKind = iota
	copiedFile
	link
)

// parentLevel is a directory above the working directory: its other entries are linked
// in the copy, so that a path such as ../modules leads somewhere.
type parentLevel struct {
	name     string // of the next directory on the way down
	dir      string
	siblings []string
}

// newLayout reads the directory.
func newLayout(dir string) (*layout, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	l := &layout{dir: dir}
	scan := newScanner(dir)
	if l.entries, err = scan.run(); err != nil {
		return nil, err
	}
	l.notes = scan.notes()
	if data := os.Getenv("TF_DATA_DIR"); filepath.IsAbs(data) {
		scan := newScanner(data)
		scan.isData = true
		l.terraformData, err = scan.run()
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
	l.parents = parentsOf(dir)
	return l, nil
}

// parentsOf lists the directories above dir: up to the top of the repository
// that it is in, and one where it is in none.
func parentsOf(dir string) (levels []parentLevel) {
	top := filepath.Dir(dir)
	for at := top; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			top = at
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		top = filepath.Dir(dir)
	}
	for at := dir; at != top && at != filepath.Dir(at); {
		name := filepath.Base(at)
		at = filepath.Dir(at)
		list, err := os.ReadDir(at)
		if err != nil || len(list) > maxCopiedFiles {
			break // the copy begins below it
		}
		l := parentLevel{name: name, dir: at}
		for _, e := range list {
			if e.Name() != name {
				l.siblings = append(l.siblings, e.Name())
			}
		}
		levels = append(levels, l)
	}
	slices.Reverse(levels)
	return levels
}

// scanner reads a directory breadth first: what is near its top is copied first.
type scanner struct {
	dir      string
	device   uint64 // of dir: other file systems are linked, and never read
	dataName string // of a directory of Terraform's data
	isData   bool   // dir is such a directory
	files    int
	bytes    int64
	entries  []entry
	linked   []string
	states   []string
}

func newScanner(dir string) *scanner {
	s := &scanner{dir: dir, dataName: ".terraform"}
	if data := os.Getenv("TF_DATA_DIR"); data != "" && !filepath.IsAbs(data) {
		s.dataName = filepath.Base(data)
	}
	return s
}

func (s *scanner) run() ([]entry, error) {
	info, err := os.Stat(s.dir)
	if err != nil {
		return nil, err
	}
	s.device = deviceOf(info)
	for queue := []string{"."}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		list, err := os.ReadDir(filepath.Join(s.dir, at))
		if at == "." && err != nil {
			return nil, err
		}
		if at != "." {
			if err != nil || s.files+len(list) > maxCopiedFiles || slices.Contains(linkedDirs, filepath.Base(at)) {
				s.link(at)
				continue
			}
			s.entries = append(s.entries, entry{path: at, kind: directory})
		}
		s.files += len(list)
		for _, e := range list {
			path := filepath.Join(at, e.Name())
			switch isState := s.isState(path); {
			case isState:
				s.states = append(s.states, path)
			case e.IsDir():
				if info, err := e.Info(); err == nil && deviceOf(info) != s.device {
					s.link(path)
					continue
				}
				queue = append(queue, path)
			default:
				if err := s.file(path, e); err != nil {
					return nil, err
				}
			}
		}
	}
	return s.entries, nil
}

// file decides on whatever is not a directory.
func (s *scanner) file(path string, e fs.DirEntry) error {
	info, err := e.Info()
	switch {
	case os.IsNotExist(err): // removed since the directory was read
	case err == nil && e.Type()&fs.ModeSymlink != 0:
		return s.symlink(path)
	case err != nil || !info.Mode().IsRegular() || info.Size() > maxCopiedFile || s.bytes+info.Size() > maxCopiedBytes || s.files > maxCopiedFiles || !isReadable(filepath.Join(s.dir, path)):
		s.link(path)
	default:
		s.bytes += info.Size()
		s.entries = append(s.entries, entry{path: path, kind: copiedFile, mode: info.Mode().Perm()})
		if s.inData(path) && filepath.Base(path) == "terraform.tfstate" {
			return checkBackend(filepath.Join(s.dir, path))
		}
	}
	return nil
}

// symlink keeps a link within the directory as it is, so that it leads to the
// copy, and makes others absolute.
func (s *scanner) symlink(path string) error {
	target, err := os.Readlink(filepath.Join(s.dir, path))
	if err != nil {
		return err
	}
	if !filepath.IsAbs(target) {
		if within := filepath.Join(filepath.Dir(path), target); !filepath.IsLocal(within) {
			target = filepath.Join(s.dir, within)
		}
	}
	s.entries = append(s.entries, entry{path: path, kind: link, target: target})
	return nil
}

func (s *scanner) link(path string) {
	s.entries = append(s.entries, entry{path: path, kind: link, target: filepath.Join(s.dir, path)})
	if !slices.Contains(linkedDirs, filepath.Base(path)) && !s.inData(filepath.Dir(path)) {
		s.linked = append(s.linked, path)
	}
}

// inData tells whether a path is in a directory of Terraform's data.
func (s *scanner) inData(path string) bool {
	if s.isData {
		return true
	}
	return slices.Contains(strings.Split(filepath.Dir(path), string(filepath.Separator)), s.dataName)
}

// isState recognizes Terraform's state, its backups and its lock. The file of
// that name in Terraform's data directory describes the backend instead.
func (s *scanner) isState(path string) bool {
	base := filepath.Base(path)
	return strings.Contains(base, ".tfstate") && !strings.HasSuffix(base, ".tf") && !s.inData(path)
}

// maxNoted is how many paths a note names.
const maxNoted = 5

func (s *scanner) notes() (notes []string) {
	if len(s.linked) > 0 {
		notes = append(notes, "linked in each scenario's directory, and not copied, because of size or number: "+nameSome(s.linked))
	}
	if len(s.states) > 0 {
		notes = append(notes, "each scenario begins without a Terraform state; left out: "+nameSome(s.states))
	}
	return notes
}

func nameSome(paths []string) string {
	if n := len(paths); n > maxNoted {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:maxNoted], ", "), n-maxNoted)
	}
	return strings.Join(paths, ", ")
}

func isReadable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// checkBackend refuses a directory whose Terraform state is kept elsewhere: every
// scenario would overwrite it.
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
		return nil //nolint:nilerr // Terraform refuses it itself
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
