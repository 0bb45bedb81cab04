package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// watch looks at files that a handler may be made of: those beside it and below
// its folder that have its suffix, and what the user names.
type watch struct {
	file  string   // the handler
	more  []string // files, folders and patterns
	stamp map[string]string
}

// watchMost bounds the files that are looked at, each several times a second.
const watchMost = 2000

// notSource are folders with what others wrote. So are those whose name begins
// with a dot, and virtual environments.
var notSource = []string{"__pycache__", "node_modules", "site-packages", "target", "dist", "build"}

// newWatch remembers how the files are now. The error says that there are too
// many; then the handler and what the user named are watched alone.
func newWatch(file string, more []string) (*watch, error) {
	w := &watch{file: file, more: more}
	var err error
	w.stamp, err = w.look()
	return w, err
}

// changed names the files that are not as they were at the last call, the newest
// state of which is remembered.
func (w *watch) changed() (names []string) {
	now, _ := w.look() // that there are too many was said
	for file, stamp := range now {
		if w.stamp[file] != stamp {
			names = append(names, w.name(file))
		}
	}
	for file := range w.stamp {
		if _, there := now[file]; !there && file != w.file { // editors take a file away for a moment
			names = append(names, w.name(file))
		}
	}
	if _, there := now[w.file]; !there {
		if len(names) == 0 {
			return nil
		}
		now[w.file] = w.stamp[w.file]
	}
	w.stamp = now
	slices.Sort(names)
	return names
}

// name is a file's as seen from the handler's folder.
func (w *watch) name(file string) string {
	if short, err := filepath.Rel(filepath.Dir(w.file), file); err == nil {
		return short
	}
	return file
}

func (w *watch) look() (stamps map[string]string, err error) {
	stamps = map[string]string{}
	note(stamps, w.file)
	for _, pattern := range w.more {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return stamps, fmt.Errorf("--watch %s is no pattern: %w", pattern, err)
		}
		for _, path := range matches {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				if err := walk(path, "", stamps); err != nil {
					return stamps, fmt.Errorf("--watch %s: %w", pattern, err)
				}
				continue
			}
			note(stamps, path)
		}
	}
	beside := map[string]string{}
	if err := walk(filepath.Dir(w.file), filepath.Ext(w.file), beside); err != nil {
		return stamps, fmt.Errorf("beside %s: %w; only the file itself is watched, and what --watch names", filepath.Base(w.file), err)
	}
	for file, stamp := range beside {
		stamps[file] = stamp
	}
	return stamps, nil
}

// walk notes the files below a folder that have a suffix, "" for all.
func walk(folder, suffix string, stamps map[string]string) error {
	n := 0
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil: // it is gone, or may not be read
			return nil //nolint:nilerr // what can't be read can't be watched
		case entry.IsDir():
			if path != folder && isForeignFolder(path, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		case strings.HasPrefix(entry.Name(), "."), suffix != "" && filepath.Ext(path) != suffix, !entry.Type().IsRegular() && entry.Type()&fs.ModeSymlink == 0:
			return nil
		}
		if n++; n > watchMost {
			return fmt.Errorf("there are more than %d files", watchMost)
		}
		note(stamps, path)
		return nil
	})
}

func isForeignFolder(path, name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains(notSource, name) || exists(filepath.Join(path, "pyvenv.cfg")) || exists(filepath.Join(path, "conda-meta"))
}

// note remembers how a file is: another text after each change.
func note(stamps map[string]string, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
		stamps[file] = fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
	}
}
