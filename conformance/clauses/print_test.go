package clauses_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"text/template"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

//go:generate go test . -run ^TestPageIsCurrent$ -update

var update = flag.Bool("update", false, "rewrite docs/reference/clauses.md")

const document = "../../" + clauses.Page

// markdown returns the text of the document.
func markdown(t *testing.T) string {
	t.Helper()
	functions := template.FuncMap{
		"areas": func() []report.Area { return report.Areas }, "clauses": clauses.All,
		"anchor": func(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }, "plain": strings.NewReplacer(`\`, `\\`, "<", "&lt;", "*", `\*`, "[", `\[`, "`", "\\`").Replace, // escapes markup
	}
	var b strings.Builder
	must.Succeed(t, must.Do(template.New("clauses.md.tmpl").Funcs(functions).ParseFiles("clauses.md.tmpl"))(t).Execute(&b, nil))
	return b.String()
}

func TestPageIsCurrent(t *testing.T) {
	want := markdown(t)
	if *update {
		must.Succeed(t, os.WriteFile(document, []byte(want), 0o644))
	}
	got, err := os.ReadFile(document)
	must.Require(t, err == nil && string(got) == want, clauses.Page, "is outdated", err, "run go generate ./conformance/clauses")
}

// Each clause has one heading on the page, and its link leads there.
func TestLinksLeadToHeadings(t *testing.T) {
	module := string(must.ReadFile(t, "../../go.mod"))
	path, _, _ := strings.Cut(strings.TrimPrefix(module, "module "), "\n")
	page := markdown(t)
	for _, c := range clauses.All() {
		address, anchor, _ := strings.Cut(c.Link(), "#")
		must.Require(t, address == "https://"+path+"/blob/main/"+clauses.Page, "the link of", c.ID, "is", c.Link())
		heading := "\n### " + c.ID + "\n"
		must.Hold(t, strings.ToLower(c.ID) == anchor && strings.Count(page, heading) == 1, c.ID, "has", strings.Count(page, heading), "headings, and its link leads to #", anchor)
	}
}
