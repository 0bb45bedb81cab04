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
	suite.Must: "a deployment that breaks it isn't conformant", suite.Should: "a deployment that breaks it gets a warning",
	suite.May: "optional; a deployment without it gets a warning", suite.Unspec: "left open by the description; the suite reports what the deployment does",
}

// Markdown returns the text of Page.
func Markdown() string {
	var b strings.Builder
	b.WriteString("<!-- Printed from conformance/clauses; to renew it: go generate ./conformance/clauses -->\n# Clauses\n\n" +
		"The [conformance suite](https://github.com/gpucloud/terraform-provider-gpucloud/blob/main/conformance/README.md) judges each checkable statement of the service description as one clause.\n" +
		"`conformance explain ID` prints its source and how it is judged. A clause without a level is a MUST.\n\n")
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
	level := ""
	if c.Level != suite.Must {
		level = string(c.Level) + ": "
	}
	fmt.Fprintf(b, "\n### %s\n\n%s%s\n", c.ID, level, escapeMarkup(c.Statement))
	if c.Untestable != "" {
		fmt.Fprintf(b, "No case judges it: %s.\n", escapeMarkup(strings.TrimSuffix(c.Untestable, ".")))
	}
	if c.Live.Level != "" {
		fmt.Fprintf(b, "If the suite uses the job API as the public SDKs expect it (--dialect live): %s, because %s.\n", c.Live.Level, escapeMarkup(strings.TrimSuffix(c.Live.Why, ".")))
	}
}

// escapeMarkup escapes a text so that none of it is markup.
func escapeMarkup(text string) string {
	return strings.NewReplacer(`\`, `\\`, "<", "&lt;", "*", `\*`, "[", `\[`, "`", "\\`").Replace(text)
}

// headingAnchor is the anchor of a heading.
func headingAnchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }
