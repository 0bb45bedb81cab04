package guides

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)

// No link to a file of the project is dead, and the provider's first page links every
// guide.
func TestLinks(t *testing.T) {
	linked := map[string]bool{}
	for _, document := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(found[1], ":") { // of the web
				continue
			}
			path := filepath.Join(filepath.Dir(document), found[1])
			if found[1] == "" {
				path = document
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links %s, which does not exist", document, found[1])
			} else if found[2] != "" && filepath.Ext(path) == ".md" && !anchors(t, path)[found[2]] {
				t.Errorf("%s links %s, which has no heading #%s", document, path, found[2])
			}
			if document == "docs/index.md" {
				linked[filepath.ToSlash(path)] = true
			}
		}
	}
	for _, document := range documents(t) {
		if strings.HasPrefix(document, "docs/guides/") && !linked[document] {
			t.Errorf("docs/index.md does not link %s: add it to templates/index.md.tmpl, and run make docs", document)
		}
	}
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	heading  = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	explicit = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	unlinked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are those of a document, by the rule of the code host: the heading in lower case,
// without punctuation, with hyphens for spaces.
func anchors(t *testing.T, document string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, found := range explicit.FindAllStringSubmatch(string(text), -1) {
		all[found[1]] = true
	}
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		name := dropped.ReplaceAllString(unlinked.ReplaceAllString(strings.ToLower(found[1]), "$1"), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
