package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileWatcher detects changes of files with the handler's suffix in and below its folder, and of files that users name.
type fileWatcher struct {
	file     string            // the handler
	patterns []string          // files, folders and patterns of the user
	stamps   map[string]string // state of each file, see recordStamp
	problem  error             // of the last scan
	away     bool              // the last scan didn't find the handler
}

// maxWatchedFiles limits the watched files below one folder, because each is checked several times a second.
const maxWatchedFiles = 2000

// ignoredFolders contain third-party or generated files. Virtual environments, and folders whose
// name begins with a dot, are ignored, too.
var ignoredFolders = []string{"__pycache__", "node_modules", "site-packages", "target", "dist", "build"}

// newFileWatcher records the current state of the files. If there are too many, it returns an error and watches
// only the handler and the user's files. A pattern without files is an error, too, but is watched.
func newFileWatcher(file string, patterns []string) (*fileWatcher, error) {
	w := &fileWatcher{file: file, patterns: patterns}
	w.stamps, w.problem = w.scan()
	err := w.problem
	for _, pattern := range patterns {
		if len(matches(pattern)) == 0 {
			err = errors.Join(err, fmt.Errorf("--watch %s: no file or folder has this name yet", pattern))
		}
	}
	return w, err
}

// changed lists the files that have changed since the last call.
func (w *fileWatcher) changed() (names []string) {
	var current map[string]string
	current, w.problem = w.scan()
	for file, stamp := range current {
		if w.stamps[file] != stamp {
			names = append(names, w.name(file))
		}
	}
	for file := range w.stamps {
		if _, present := current[file]; !present {
			names = append(names, w.name(file))
		}
	}
	wasAway := w.away
	if w.away = current[w.file] == ""; w.away && !wasAway { // some editors remove a file for a moment
		return nil
	}
	w.stamps = current
	slices.Sort(names)
	return names
}

// name returns the path of a file relative to the handler's folder.
func (w *fileWatcher) name(file string) string {
	if relative, err := filepath.Rel(filepath.Dir(w.file), file); err == nil {
		return relative
	}
	return file
}

// scan records the state of all files. An error of one folder doesn't stop the watch of the others.
func (w *fileWatcher) scan() (stamps map[string]string, err error) {
	stamps = map[string]string{}
	recordStamp(stamps, w.file)
	for _, pattern := range w.patterns {
		for _, path := range matches(pattern) {
			if info, statErr := os.Stat(path); statErr != nil || !info.IsDir() {
				recordStamp(stamps, path)
			} else if walkErr := walk(path, "*", stamps); walkErr != nil {
				err = errors.Join(err, fmt.Errorf("--watch %s: %w; the rest of this folder isn't watched", pattern, walkErr))
			}
		}
	}
	siblings := map[string]string{}
	for _, folder := range foldersOf(w.file) {
		if walkErr := walk(folder, filepath.Ext(w.file), siblings); walkErr != nil {
			return stamps, errors.Join(err, fmt.Errorf("next to %s: %w; only the file itself and the files of --watch are watched", filepath.Base(w.file), walkErr))
		}
	}
	maps.Copy(stamps, siblings)
	return stamps, err
}

// foldersOf returns the folder of a handler. If the handler is a symbolic link, it also returns the folder
// of the link's target, where Python looks for the modules that the handler imports.
func foldersOf(handler string) []string {
	folder := filepath.Dir(handler)
	target, err := filepath.EvalSymlinks(handler)
	realFolder, folderErr := filepath.EvalSymlinks(folder)
	if err == nil && folderErr == nil && filepath.Dir(target) != realFolder {
		return []string{folder, filepath.Dir(target)}
	}
	return []string{folder}
}

// matches returns the file or folder with this name, or else the files and folders that match the pattern.
func matches(pattern string) []string {
	if exists(pattern) { // a file's name may look like a pattern: data[1]
		return []string{pattern}
	}
	paths, _ := filepath.Glob(pattern) // checkWatch reported an invalid pattern
	return paths
}

// checkWatch rejects a name that neither exists nor is a valid pattern.
func checkWatch(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := filepath.Match(pattern, ""); err != nil && !exists(pattern) {
			return usageErrorf("invalid --watch %s: expected a file, folder or pattern: %s", pattern, err)
		}
	}
	return nil
}

// walk records the files below a folder that have a suffix, which may be "", or all files for the suffix "*".
func walk(folder, suffix string, stamps map[string]string) error {
	n := 0
	folder += string(filepath.Separator) // without it, WalkDir doesn't enter a folder that is a symbolic link
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil: // the file was removed, or can't be read
			return nil //nolint:nilerr // it can't be watched
		case entry.IsDir():
			if name := entry.Name(); path != folder && (strings.HasPrefix(name, ".") || slices.Contains(ignoredFolders, name) || isEnvironment(path)) {
				return fs.SkipDir
			}
			return nil
		case strings.HasPrefix(entry.Name(), "."), suffix != "*" && filepath.Ext(path) != suffix, !entry.Type().IsRegular() && entry.Type()&fs.ModeSymlink == 0:
			return nil
		}
		if n++; n > maxWatchedFiles {
			return fmt.Errorf("too many files: expected at most %d", maxWatchedFiles)
		}
		recordStamp(stamps, path)
		return nil
	})
}

// recordStamp records the modification time, size and mode of a file.
func recordStamp(stamps map[string]string, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
		stamps[file] = fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
	}
}
