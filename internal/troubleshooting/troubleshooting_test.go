package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// Every error text of the source has a row, every row has a text, and the page is
// current: a search of it finds each of them.
func TestEveryErrorIsExplained(t *testing.T) {
	page, problems, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	got, err := os.ReadFile(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page {
		t.Error(pagePath + " is not current: run go generate ./internal/troubleshooting")
	}
	sections, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		for _, r := range s.Rows {
			if r.Means == "" || r.Do == "" || len(r.Texts) == 0 {
				t.Errorf("%s: a row without a text, a meaning or a remedy: %+v", s.Subject, r)
			}
		}
	}
}

// Texts are found in each form that the source has them in.
func TestCollect(t *testing.T) {
	dir := t.TempDir()
	code := `package p
const why = "a constant " + "text"
func f(name string) error {
	summary := "a variable text " + name
	diags.AddError(summary, "detail")
	diags.AddAttributeError(at, "an attribute's " + why, "")
	c.Error("attribute", "a check's text", "format")
	log.Error("a log line")
	x.Fail("attribute", fmt.Sprintf("could not %s the %q", a, b), err)
	e.Detail = "a member's text"
	_ = &SettingError{"api_key", "a setting's text"}
	if name == "" {
		return errors.New("a plain text")
	}
	return fmt.Errorf("a wrapped text of %s: %w", name, err)
}
type e struct{}
func (e) Error() string { return "a method's text: " + cause }
`
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	if err := collectPackage(dir, dir, all); err != nil {
		t.Fatal(err)
	}
	for _, want := range strings.Split("a variable text …|an attribute's a constant text|a check's text|could not … the …|a member's text|a setting's text|a plain text|a wrapped text of …|a method's text", "|") {
		if all[want] == "" {
			t.Errorf("%q was not found", want)
		}
		delete(all, want)
	}
	if len(all) > 0 {
		t.Errorf("found too much: %q", all)
	}
}
