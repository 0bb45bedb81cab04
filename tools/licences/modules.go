package main

import (
	"cmp"
	"fmt"
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

// moduleTemplate makes go list print the module of each package of a program.
const moduleTemplate = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"

// releasedModules returns the modules of the released programs, sorted by name.
func releasedModules() ([]*module, error) {
	found := map[string]*module{}
	for _, p := range programs {
		name, path, _ := strings.Cut(p, " ")
		for _, system := range platforms {
			// Some modules, such as go-nvml, are used only with cgo.
			cmd := exec.Command("go", "list", "-deps", "-f", moduleTemplate, path) //nolint:noctx,gosec // ends by itself; our own packages
			cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=1")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("listing the packages of %s: %w", path, err)
			}
			for line := range strings.Lines(string(out)) {
				fields := strings.Split(strings.TrimSpace(line), "\t")
				if len(fields) < 3 { // a package of this module or of the standard library
					continue
				}
				m := cmp.Or(found[fields[0]], &module{Path: fields[0], Version: fields[1], Dir: fields[2]})
				if found[m.Path] = m; !slices.Contains(m.programs, name) {
					m.programs = append(m.programs, name)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *module) int { return cmp.Compare(a.Path, b.Path) }), nil
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

// sentences identify licences. BSD-3-Clause also contains the sentence of BSD-2-Clause.
var sentences = []struct {
	id   string
	text *regexp.Regexp
}{
	{"Apache-2.0", regexp.MustCompile(`Apache License,? Version 2\.0`)},
	{"MIT", regexp.MustCompile(`Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files`)},
	{"BSD-3-Clause", regexp.MustCompile(`Redistributions in binary form must .* (Neither the name|The names? of|may be used to endorse)`)},
	{"BSD-2-Clause", regexp.MustCompile(`Redistributions in binary form must `)},
	{"MPL-2.0", regexp.MustCompile(`Mozilla Public License,? [Vv]ersion 2\.0`)},
	{"ISC", regexp.MustCompile(`Permission to use, copy, modify,? and(/or)? distribute this software for any purpose with or without fee`)},
	{"CC0-1.0", regexp.MustCompile(`CC0 1\.0 Universal`)},
	{"Unlicense", regexp.MustCompile(`This is free and unencumbered software released into the public domain`)},
	{"Zlib", regexp.MustCompile(`This software is provided 'as-is', without any express or implied warranty`)},
}

// forbidden matches licences that the released programs must not contain.
var forbidden = regexp.MustCompile(`GNU (AFFERO |LESSER |LIBRARY )?GENERAL PUBLIC LICENSE|Business Source License|Server Side Public License`)

var separators = regexp.MustCompile(`(\s|\*|#|//)+`)

func recognize(text string) (ids []string) {
	text = strings.NewReplacer("‘", "'", "’", "'").Replace(separators.ReplaceAllString(text, " "))
	for _, s := range sentences {
		if s.text.MatchString(text) && !(s.id == "BSD-2-Clause" && slices.Contains(ids, "BSD-3-Clause")) {
			ids = append(ids, s.id)
		}
	}
	return ids
}
