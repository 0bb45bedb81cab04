package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed table.yaml
var source []byte

// section is a subject of the page.
type section struct {
	Subject string
	Rows    []*row
	Parts   []string // texts that are only seen in others
}

// row is a cause.
type row struct {
	Texts []string
	Means string
	Do    string

	found []string // texts of the source
}

// readTable reads the table of causes.
func readTable() (sections []section, err error) {
	return sections, yaml.UnmarshalWithOptions(source, &sections, yaml.Strict())
}

// pattern is a text of a row, or a part that has none.
type pattern struct {
	text    string
	matches *regexp.Regexp
	row     *row
	used    bool
}

func newPattern(text string, r *row) *pattern {
	return &pattern{text: text, row: r, matches: regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), placeholder, ".*") + "$")}
}

// assign gives each text to the row that matches it best, and returns what does not fit.
func assign(sections []section, texts []text) (problems []string) {
	var patterns []*pattern
	for _, s := range sections {
		for _, r := range s.Rows {
			for _, text := range r.Texts {
				patterns = append(patterns, newPattern(text, r))
			}
		}
		for _, text := range s.Parts {
			patterns = append(patterns, newPattern(text, nil))
		}
	}
	slices.SortStableFunc(patterns, func(a, b *pattern) int { return len(b.text) - len(a.text) })
	for _, t := range texts {
		i := slices.IndexFunc(patterns, func(p *pattern) bool { return p.matches.MatchString(t.says) })
		if i < 0 {
			problems = append(problems, fmt.Sprintf("%s: no row of internal/troubleshooting/table.yaml has the text %q", t.position, t.says))
			continue
		}
		patterns[i].used = true
		if r := patterns[i].row; r != nil {
			r.found = append(r.found, t.says)
		}
	}
	for _, p := range patterns {
		if !p.used {
			problems = append(problems, fmt.Sprintf("internal/troubleshooting/table.yaml has %q, and the source has no such text for it", p.text))
		}
	}
	return problems
}
