package clauses

import (
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

//go:generate go test . -run ^TestPageIsCurrent$ -update

// levels explain what each level means for a deployment.
var levels = map[suite.Level]string{
	suite.Must: "stated flatly: a deployment that does not keep it is not conformant", suite.Should: "said so, or following from two statements: a warning",
	suite.May: "optional: a warning", suite.Unspec: "left open: what a deployment does is observed, and judged by nobody",
}

// Markdown returns the text of Page.
func Markdown() string {
	var b strings.Builder
	b.WriteString("<!-- Printed from conformance/clauses; to renew it: go generate ./conformance/clauses -->\n# Clauses\n\n" +
		"What the [conformance suite](https://github.com/gpucloud/terraform-provider-gpucloud/blob/main/conformance/README.md) judges: one clause to each checkable statement of the service description, in the suite's own\n" +
		"words, with the section and row of the description that it comes from. The fields and operations themselves are in [contract.md](contract.md).\n" +
		"`conformance explain ID` says what judges a clause.\n\n")
	for _, level := range suite.Levels {
		fmt.Fprintf(&b, "- %s: %s\n", level, levels[level])
	}
	b.WriteString("\n")
	for _, area := range report.Areas {
		fmt.Fprintf(&b, "- [%s](#%s)\n", area.Title, headingAnchor(area.Title))
	}
	for _, area := range report.Areas {
		fmt.Fprintf(&b, "\n## %s\n", area.Title)
		for _, c := range All() {
			if c.Area() == area.ID {
				writeEntry(&b, c)
			}
		}
	}
	return b.String()
}

func writeEntry(b *strings.Builder, c Clause) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n%s. Source: %s.\n", c.ID, escapeMarkup(c.Statement), c.Level, escapeMarkup(strings.TrimSuffix(c.Source, ".")))
	if c.Untestable != "" {
		fmt.Fprintf(b, "No case judges it: %s.\n", escapeMarkup(strings.TrimSuffix(c.Untestable, ".")))
	} else if c.Note != "" {
		fmt.Fprintf(b, "Note: %s.\n", escapeMarkup(strings.TrimSuffix(c.Note, ".")))
	}
	if c.Live.Level != "" {
		fmt.Fprintf(b, "In the dialect of the public SDKs: %s, because %s.\n", c.Live.Level, escapeMarkup(strings.TrimSuffix(c.Live.Why, ".")))
	}
}

// escapeMarkup escapes a text so that none of it is markup.
func escapeMarkup(text string) string {
	return strings.NewReplacer(`\`, `\\`, "<", "&lt;", "*", `\*`, "[", `\[`, "`", "\\`").Replace(text)
}

// headingAnchor is the anchor of a heading.
func headingAnchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }
