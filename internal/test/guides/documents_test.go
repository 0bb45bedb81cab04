//go:build unix

package guides

import (
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// followedDocuments are the documents that TestDocuments follows from top to bottom.
var followedDocuments = []string{
	"docs/start/first-endpoint.md",
	"docs/guides/secrets.md",
	"docs/guides/batch.md",
	"docs/guides/blue-green.md",
	"docs/guides/module-tests.md",
	"docs/start/conformance.md",
	"examples/README.md",
}

// sampledDocuments are the documents that a run with -short checks.
var sampledDocuments = []string{"docs/start/first-endpoint.md", "docs/reference/catalog.md", "docs/reference/architecture.md", "CONTRIBUTING.md"}

// The commands of each document succeed in their order and print the output that it shows.
func TestDocuments(t *testing.T) {
	python.Need(t)
	bin := must.Do(filepath.EvalSymlinks(t.TempDir()))(t)
	must.Succeed(t, gobuild.Programs(t.Context(), bin, root, root+"/cmd/jobrunner", root+"/cmd/conformance"))
	cli := must.Do(tfcli.Default(t.Context()))(t)
	t.Run("each", func(t *testing.T) { // ends before bin is removed
		for _, document := range documents(t) {
			if !slices.Contains(followedDocuments, document) && checks[document] == nil || testing.Short() && !slices.Contains(sampledDocuments, document) {
				continue
			}
			t.Run(strings.ReplaceAll(strings.TrimSuffix(document, ".md"), "/", "-"), func(t *testing.T) {
				t.Parallel()
				s := newSession(t, bin, cli)
				s.runsConformance = document == "docs/start/conformance.md"
				if slices.Contains(followedDocuments[1:], document) { // they require the installation of the first one
					s.mustRun("make install")
				}
				for _, b := range readBlocks(t, document) {
					if check := checks[document][b.language]; check != nil {
						check(s, b)
					} else {
						s.follow(b)
					}
				}
			})
		}
	})
}

// follow runs the commands of a block or writes its file.
func (s *session) follow(b block) {
	s.t.Helper()
	if b.language == "console" {
		s.typeAll(b)
		return
	}
	if first, _, _ := strings.Cut(b.text, "\n"); !fileName.MatchString(first) {
		s.expectPart(b)
	} else {
		s.write(b)
		for _, config := range configSetting.FindAllStringSubmatch(b.text, -1) {
			must.Succeed(s.t, must.Err(os.Stat(filepath.Join(s.dir, config[1]))), b)
		}
	}
}

// configSetting finds the jobrunner.yaml that a workflow names.
var configSetting = regexp.MustCompile(`\bconfig: ([\w./-]+)`)

// expectPart checks that a block without a file name is part of a file that the reader has.
func (s *session) expectPart(b block) {
	s.t.Helper()
	for _, file := range must.Do(filepath.Glob(filepath.Join(s.dir, "*.*")))(s.t) {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), b.text) {
			return
		}
	}
	s.t.Errorf("%s: expected a first line that names the file, such as \"# main.tf\", or a part of a file in %s", b, s.dir)
}

// Pages that are read from top to bottom stay short.
func TestWords(t *testing.T) {
	total := 0
	for _, document := range documents(t) {
		text := must.ReadFile(t, filepath.Join(root, document))
		words, limit := len(strings.Fields(string(text))), 0
		switch {
		case document == "docs/guides/troubleshooting.md":
			limit = 1000
		case strings.HasPrefix(document, "docs/start/"):
			limit = 800
		case strings.HasPrefix(document, "docs/guides/"):
			limit = 1500
		}
		must.Hold(t, limit <= 0 || words <= limit, document, "has", words, "words, expected at most", limit)
		if strings.HasPrefix(document, "docs/") {
			total += words
		}
	}
	must.Hold(t, total <= 60_000, "docs/ has", total, "words, expected at most 60,000")
}

// repository is the address of the project on the code host.
const repository = "https://github.com/gpucloud/terraform-provider-gpucloud/"

var (
	link          = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	fullLink      = regexp.MustCompile(`^` + regexp.QuoteMeta(repository) + `(?:blob|tree)/main/(.+)$`)
	publishedPage = regexp.MustCompile(`^docs/(index\.md|(guides|resources|data-sources|ephemeral-resources|list-resources|actions|functions)(/.*)?)$`)
)

// Links to the project's files, also full addresses, lead to existing files and headings. Relative links of
// pages in docs/ stay there; on pages that the Terraform registry publishes, they lead to published pages.
func TestLinks(t *testing.T) {
	linked := map[string]bool{}
	for _, document := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(string(must.ReadFile(t, filepath.Join(root, document))), -1) {
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
		must.Hold(t, !strings.HasPrefix(document, "docs/guides/") && !strings.HasPrefix(document, "docs/start/") || linked[document],
			"docs/index.md does not link", document, "add it to templates/index.md.tmpl, and run make docs")
	}
}

// whyMisplaced returns why a page can't have a relative link to a path, or "".
func whyMisplaced(document, path string) string {
	switch {
	case !strings.HasPrefix(document, "docs/"):
	case !strings.HasPrefix(path, "docs/"):
		return "which is outside docs/"
	case publishedPage.MatchString(document) && !publishedPage.MatchString(path):
		return "which the Terraform registry doesn't publish"
	}
	return ""
}

func TestMisplaced(t *testing.T) {
	for _, c := range []struct {
		document, path string
		allowed        bool
	}{
		{"docs/index.md", "docs/guides/costs.md", true},
		{"docs/index.md", "docs/reference/gpu.md", false},
		{"docs/guides/costs.md", "docs/resources", true},
		{"docs/guides/costs.md", "docs/images/job.gif", false},
		{"docs/reference/gpu.md", "docs/guides/costs.md", true},
		{"docs/reference/gpu.md", "examples/README.md", false},
		{"README.md", "examples/README.md", true},
	} {
		must.Equal(t, whyMisplaced(c.document, c.path) == "", c.allowed, c.document, "may link", c.path)
	}
}

var frontMatter = regexp.MustCompile(`(?s)\A---\n(.*?)\n---\n`)

// Pages that the Terraform registry publishes have a title and a description, and only the registry's fields.
func TestFrontMatter(t *testing.T) {
	for _, document := range documents(t) {
		if !publishedPage.MatchString(document) {
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
			must.Hold(t, slices.Contains([]string{"page_title", "description", "subcategory"}, name), document, "has the field", name, "which the registry lacks")
		}
		must.Hold(t, fields["page_title"] != "" && strings.TrimSpace(fields["description"]) != "", document, "lacks page_title or description")
	}
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^```.*?^```")
	heading     = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	anchorTag   = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	inlineLink  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	punctuation = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the anchors that the code host makes from headings: lower case, hyphens for spaces.
func anchors(t *testing.T, document string) map[string]bool {
	t.Helper()
	text := string(must.ReadFile(t, filepath.Join(root, document)))
	all := map[string]bool{}
	for _, found := range anchorTag.FindAllStringSubmatch(text, -1) {
		all[found[1]] = true
	}
	for _, found := range heading.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		name := punctuation.ReplaceAllString(inlineLink.ReplaceAllString(strings.ToLower(found[1]), "$1"), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}

var (
	errorText = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .+ \\|$")
	verb      = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?(\d+|\*)?(\.\d+)?[a-zA-Z]`)
	spaces    = regexp.MustCompile(`\s+`)
)

// Each error in the reference occurs in the source; `…` stands for inserted text. No error has two rows.
func TestErrorReference(t *testing.T) {
	source := literals(t)
	page := string(must.ReadFile(t, filepath.Join(root, "docs/reference/errors.md")))
	entries := map[string]bool{}
	for _, entry := range errorText.FindAllStringSubmatch(page, -1) {
		must.Hold(t, !entries[entry[1]], entry[1], "has two entries")
		entries[entry[1]] = true
		for part := range strings.SplitSeq(entry[1], "…") {
			part = strings.TrimSpace(part)
			must.Hold(t, strings.Contains(source, part), "the source has no text", part, "of the entry", entry[1])
		}
	}
	must.Equal(t, len(entries), strings.Count(page, "\n| ")-strings.Count(page, "\n|---"), "entries that were read, expected one per row")
}

// literals returns the product's string literals, with … for format verbs. A concatenation is one text.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"main.go", "provider", "resources", "datasources", "internal", "cmd", "jobrunner", "conformance"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			var s scanner.Scanner
			s.Init(token.NewFileSet().AddFile(path, -1, len(text)), text, nil, 0)
			for joined := false; ; {
				_, kind, literal := s.Scan()
				if kind == token.EOF {
					return err
				}
				if value, err := strconv.Unquote(literal); kind == token.STRING && err == nil {
					if !joined {
						all.WriteString("\n")
					}
					all.WriteString(spaces.ReplaceAllString(strings.ReplaceAll(verb.ReplaceAllString(value, "…"), "%%", "%"), " "))
				}
				joined = kind == token.ADD || kind == token.STRING
			}
		})
		must.Succeed(t, err)
	}
	return all.String()
}

// The README of the module lists its inputs and outputs, as registries show them.
func TestModuleReadme(t *testing.T) {
	dir := filepath.Join(root, "examples/module")
	readme := string(must.ReadFile(t, filepath.Join(dir, "README.md")))
	rows := 0
	for _, name := range []string{"variables.tf", "outputs.tf"} {
		source := must.ReadFile(t, filepath.Join(dir, name))
		file, diags := hclparse.NewParser().ParseHCL(source, name)
		must.Require(t, !diags.HasErrors(), "parsing", name, "failed:", diags)
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			text := func(attribute string) string {
				a, ok := b.Body.Attributes[attribute]
				if !ok {
					return ""
				}
				if v, diags := a.Expr.Value(nil); !diags.HasErrors() && attribute == "description" {
					return v.AsString()
				}
				return "`" + string(a.Expr.Range().SliceBytes(source)) + "`"
			}
			row := fmt.Sprintf("| `%s` | %s |", b.Labels[0], text("description"))
			if b.Type == "variable" {
				row += fmt.Sprintf(" %s | %s |", text("type"), cmp.Or(text("default"), "required"))
			}
			rows++
			must.Hold(t, strings.Contains(readme, "\n"+row+"\n"), "examples/module/README.md lacks the row", row)
		}
	}
	must.Equal(t, strings.Count(readme, "\n| `"), rows, "rows of examples/module/README.md, expected one per input and output")
}

// examples/blue-green contains the files that its guide shows.
func TestBlueGreenFolder(t *testing.T) {
	var names []string
	for _, b := range readBlocks(t, "docs/guides/blue-green.md") {
		first, text, _ := strings.Cut(b.text, "\n")
		found := fileName.FindStringSubmatch(first)
		if found == nil || found[1] == "terraform.tfvars" {
			continue
		}
		names = append(names, found[1])
		file, err := os.ReadFile(filepath.Join(root, "examples/blue-green", found[1]))
		must.Hold(t, err == nil && string(file) == text, b, "differs from examples/blue-green/", found[1], err)
	}
	slices.Sort(names)
	must.Equal(t, names, []string{"jobrunner.yaml", "main.tf", "worker.py"}, "files that the guide shows")
}

func TestEveryExampleIsListed(t *testing.T) {
	readme := string(must.ReadFile(t, filepath.Join(root, "examples/README.md")))
	for _, e := range must.Do(os.ReadDir(filepath.Join(root, "examples")))(t) {
		listed := strings.Contains(readme, "| ["+e.Name()+"](") || strings.Contains(readme, "`"+e.Name()+"`")
		must.Hold(t, !e.IsDir() || listed, "examples/README.md does not list", e.Name())
	}
}
