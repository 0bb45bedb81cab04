package main

import (
	"regexp"
	"strings"
)

// sentences identify licences. Each occurs in one licence only, except that BSD-3-Clause contains the
// sentence of BSD-2-Clause.
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

// recognize returns the licences in the text of a file.
func recognize(text string) (ids []string) {
	text = strings.NewReplacer("‘", "'", "’", "'", "Mozilla Public License Version", "Mozilla Public License, version").Replace(separators.ReplaceAllString(text, " "))
	for _, s := range sentences {
		if s.id == "BSD-2-Clause" && strings.Contains(strings.Join(ids, " "), "BSD-3-Clause") {
			continue // BSD-3-Clause contains the sentences of BSD-2-Clause
		}
		if s.text.MatchString(text) {
			ids = append(ids, s.id)
		}
	}
	return ids
}
