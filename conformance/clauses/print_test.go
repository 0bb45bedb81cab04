package clauses_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var update = flag.Bool("update", false, "rewrite docs/reference/clauses.md")

const document = "../../" + clauses.Page

func TestPageIsCurrent(t *testing.T) {
	want := clauses.Markdown()
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
	page := clauses.Markdown()
	for _, c := range clauses.All() {
		address, anchor, _ := strings.Cut(c.Link(), "#")
		must.Require(t, address == "https://"+path+"/blob/main/"+clauses.Page, "the link of", c.ID, "is", c.Link())
		heading := "\n### " + c.ID + "\n"
		must.Hold(t, strings.ToLower(c.ID) == anchor && strings.Count(page, heading) == 1, c.ID, "has", strings.Count(page, heading), "headings, and its link leads to #", anchor)
	}
}
