package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release is a version with its notes.
type release struct {
	version string
	date    string // such as January 2, 2006; Unreleased for the next one
	text    string // without the heading
}

const unreleased = "Unreleased"

// sections are those of a release, in their order.
var sections = []string{"BREAKING CHANGES", "NOTES", "FEATURES", "ENHANCEMENTS", "BUG FIXES"}

// subjects are what an entry begins with.
var subjects = []string{"Provider", "Jobrunner", "Conformance", "Docs", "Project"}

var (
	heading = regexp.MustCompile(`^## (\d+\.\d+\.\d+(?:-[0-9a-z.]+)?) \((.+)\)$`)
	section = regexp.MustCompile(`^([A-Z ]+):$`)
	entry   = regexp.MustCompile(`^- ([A-Z][a-z]+)(?: and ([a-z]+))?: \S`)
)

// parse reads a changelog in the form that Terraform's providers have.
func parse(text string) (releases []release, err error) {
	current := "" // section
	for i, line := range strings.Split(text, "\n") {
		wrong := func(expected string) error {
			return fmt.Errorf("CHANGELOG.md, line %d: expected %s, got %q", i+1, expected, line)
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			if _, err := time.Parse("January 2, 2006", found[2]); err != nil && (found[2] != unreleased || len(releases) > 0) {
				return nil, wrong("a date such as January 2, 2006, or Unreleased in the first heading alone")
			}
			if len(releases) > 0 {
				if err := checkText(releases[len(releases)-1]); err != nil {
					return nil, err
				}
			}
			releases, current = append(releases, release{version: found[1], date: found[2]}), ""
			continue
		}
		found := section.FindStringSubmatch(line)
		switch {
		case i == 0:
			if line != "# Changelog" {
				return nil, wrong("# Changelog")
			}
			continue
		case line == "":
		case len(releases) == 0:
			return nil, wrong("a heading such as ## 1.2.3 (Unreleased)")
		case found != nil:
			if slices.Index(sections, found[1]) <= slices.Index(sections, current) {
				return nil, wrong(fmt.Sprintf("each of %s at most once, in this order", strings.Join(sections, ", ")))
			}
			current = found[1]
		case current == "":
			return nil, wrong("a section such as FEATURES:")
		default:
			of := entry.FindStringSubmatch(line)
			if of == nil || !slices.Contains(subjects, of[1]) {
				return nil, wrong(fmt.Sprintf("an entry such as `- %s: text`, with one of %s", subjects[0], strings.Join(subjects, ", ")))
			}
		}
		if n := len(releases); n > 0 {
			releases[n-1].text += line + "\n"
		}
	}
	if len(releases) == 0 {
		return nil, fmt.Errorf("CHANGELOG.md has no version")
	}
	return releases, checkText(releases[len(releases)-1])
}

func checkText(r release) error {
	if strings.TrimSpace(r.text) == "" {
		return fmt.Errorf("CHANGELOG.md says nothing of %s", r.version)
	}
	return nil
}

// find returns the notes of a version that has been released.
func find(releases []release, version string) (string, error) {
	i := slices.IndexFunc(releases, func(r release) bool { return r.version == version })
	switch {
	case i < 0:
		return "", fmt.Errorf("CHANGELOG.md has no heading ## %s (…)", version)
	case releases[i].date == unreleased:
		return "", fmt.Errorf("CHANGELOG.md says that %s is unreleased: write the date there first", version)
	}
	return strings.TrimSpace(releases[i].text) + "\n", nil
}
