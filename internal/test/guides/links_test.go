package guides

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// repository is the address of the project on the code host.
const repository = "https://github.com/gpucloud/terraform-provider-gpucloud/"

var (
	link      = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	fullLink  = regexp.MustCompile(`^` + regexp.QuoteMeta(repository) + `(?:blob|tree)/main/(.+)$`)
	published = regexp.MustCompile(`^docs/(index\.md|(guides|resources|data-sources|ephemeral-resources|list-resources|actions|functions)(/.*)?)$`)
)

// Links to the project's files, also full addresses, lead to existing files and headings.
// Relative links stay in docs/; on pages that the Terraform registry publishes, they lead to
// published pages.
func TestLinks(t *testing.T) {
	linked := map[string]bool{}
	for _, document := range documents(t) {
		text := string(must.ReadFile(t, filepath.Join(root, document)))
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			path := filepath.ToSlash(filepath.Join(filepath.Dir(document), found[1]))
			if full := fullLink.FindStringSubmatch(found[1]); full != nil {
				path = full[1]
			} else if strings.Contains(found[1], ":") { // elsewhere on the web
				continue
			} else if found[1] == "" {
				path = document
			} else if fault := whyMisplaced(document, path); fault != "" {
				t.Errorf("%s links %s, %s: write %sblob/main/%s", document, found[1], fault, repository, path)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links %s, which does not exist", document, found[1])
			} else if found[2] != "" && filepath.Ext(path) == ".md" && !anchors(t, path)[found[2]] {
				t.Errorf("%s links %s, which has no heading #%s", document, path, found[2])
			}
			if document == "docs/index.md" {
				linked[path] = true
			}
		}
	}
	for _, document := range documents(t) {
		if (strings.HasPrefix(document, "docs/guides/") || strings.HasPrefix(document, "docs/start/")) && !linked[document] {
			t.Errorf("docs/index.md does not link %s: add it to templates/index.md.tmpl, and run make docs", document)
		}
	}
}

// whyMisplaced returns why a page can't have a relative link to a path, or "".
func whyMisplaced(document, path string) string {
	switch {
	case !strings.HasPrefix(document, "docs/"):
	case !strings.HasPrefix(path, "docs/"):
		return "which is outside docs/"
	case published.MatchString(document) && !published.MatchString(path):
		return "which the Terraform registry doesn't publish"
	}
	return ""
}

func TestMisplaced(t *testing.T) {
	for _, c := range []struct {
		document, path string
		ok             bool
	}{
		{"docs/index.md", "docs/guides/costs.md", true},
		{"docs/index.md", "docs/reference/gpu.md", false},
		{"docs/guides/costs.md", "docs/resources", true},
		{"docs/guides/costs.md", "docs/images/job.gif", false},
		{"docs/reference/gpu.md", "docs/guides/costs.md", true},
		{"docs/reference/gpu.md", "examples/README.md", false},
		{"README.md", "examples/README.md", true},
	} {
		must.Equal(t, whyMisplaced(c.document, c.path) == "", c.ok, c.document, "may link", c.path)
	}
}

var frontMatter = regexp.MustCompile(`(?s)\A---\n(.*?)\n---\n`)

// Pages that the Terraform registry publishes have a title and a description, and no legacy field.
func TestFrontMatter(t *testing.T) {
	for _, document := range documents(t) {
		if !published.MatchString(document) {
			continue
		}
		text := must.ReadFile(t, filepath.Join(root, document))
		var fields map[string]string
		if found := frontMatter.FindSubmatch(text); found == nil {
			t.Errorf("%s has no front matter", document)
			continue
		} else if err := yaml.Unmarshal(found[1], &fields); err != nil {
			t.Errorf("%s: %s", document, err)
		}
		for name := range fields {
			must.Hold(t, slices.Contains([]string{"page_title", "description", "subcategory"}, name), document, "the registry has no field", name)
		}
		must.Hold(t, fields["page_title"] != "" && strings.TrimSpace(fields["description"]) != "", document, "lacks page_title or description")
	}
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	heading  = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	explicit = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	unlinked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the anchors of a document. The code host makes them from headings: lower
// case, without punctuation, with hyphens for spaces.
func anchors(t *testing.T, document string) map[string]bool {
	t.Helper()
	text := string(must.ReadFile(t, filepath.Join(root, document)))
	all := map[string]bool{}
	for _, found := range explicit.FindAllStringSubmatch(text, -1) {
		all[found[1]] = true
	}
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := dropped.ReplaceAllString(unlinked.ReplaceAllString(strings.ToLower(found[1]), "$1"), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
