package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The project's own changelog has the form that Terraform's providers have.
func TestForm(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse(string(text)); err != nil {
		t.Error(err)
	}
}

const sample = `# Changelog

## 1.3.0 (Unreleased)

FEATURES:

- Provider: a.

BUG FIXES:

- Jobrunner and conformance: b.

## 1.2.0 (November 2, 2026)

NOTES:

- Docs: c.
`

func TestFind(t *testing.T) {
	releases, err := parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := find(releases, "1.2.0"); err != nil || got != "NOTES:\n\n- Docs: c.\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, version := range []string{"1.3.0", "1.1.0", ""} {
		if got, err := find(releases, version); err == nil {
			t.Errorf("%s: got %q", version, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"# Changelog", "Changes", "line 1"},
		{"## 1.3.0", "## Next", "line 3"},
		{"(November 2, 2026)", "(2026-11-02)", "a date such as"},
		{"(November 2, 2026)", "(Unreleased)", "the first heading alone"},
		{"FEATURES:", "Added:", "a section such as"},
		{"BUG FIXES:", "NOTES:", "in this order"},
		{"- Provider: a.", "- a.", "an entry such as"},
		{"- Provider: a.", "* Provider: a.", "an entry such as"},
		{"NOTES:\n\n- Docs: c.\n", "", "says nothing of 1.2.0"},
	} {
		if _, err := parse(strings.Replace(sample, c.from, c.to, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in place of %q: got %v, want %q", c.to, c.from, err, c.want)
		}
	}
}
