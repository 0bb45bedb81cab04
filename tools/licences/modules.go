package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The released programs, and the platforms whose modules may differ.
var (
	programs  = []string{"provider .", "jobrunner ./cmd/jobrunner", "conformance ./cmd/conformance"}
	platforms = []string{"linux", "darwin", "windows", "freebsd"}
)

type module struct {
	Path, Version, Dir string

	programs []string
}

// released returns the modules of the released programs, sorted by name.
func released() ([]module, error) {
	found := map[string]*module{}
	for _, p := range programs {
		name, path, _ := strings.Cut(p, " ")
		for _, system := range platforms {
			// A program has all its modules when it is built with cgo.
			cmd := exec.Command("go", "list", "-deps", "-json=Module", path) //nolint:noctx,gosec // ends by itself; our own packages
			cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=1")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("listing the packages of %s: %w", path, err)
			}
			if err := add(found, name, out); err != nil {
				return nil, err
			}
		}
	}
	modules := make([]module, 0, len(found))
	for _, m := range slices.SortedFunc(maps.Values(found), func(a, b *module) int { return cmp.Compare(a.Path, b.Path) }) {
		modules = append(modules, *m)
	}
	return modules, nil
}

func add(found map[string]*module, program string, list []byte) error {
	decoder := json.NewDecoder(strings.NewReader(string(list)))
	for {
		var p struct {
			Module *struct {
				module

				Main bool
			}
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &p.Module.module
			found[m.Path] = m
		}
		if !slices.Contains(m.programs, program) {
			m.programs = append(m.programs, program)
		}
	}
}

type file struct {
	name string
	text []byte
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// licence returns the names of a module's licences and the files with their texts.
func (m module) licence() (string, []file, error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return "", nil, err
	}
	var files []file
	ids := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
		if err != nil {
			return "", nil, err
		}
		if found := forbidden.Find(separators.ReplaceAll(text, []byte(" "))); found != nil {
			return "", nil, fmt.Errorf("%s is released under the %s: do without the module", m.Path, found)
		}
		files = append(files, file{e.Name(), text})
		for _, id := range recognize(string(text)) {
			ids[id] = true
		}
	}
	if len(ids) == 0 {
		return "", nil, fmt.Errorf("%s: no known licence in its folder %s", m.Path, m.Dir)
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), ", "), files, nil
}
