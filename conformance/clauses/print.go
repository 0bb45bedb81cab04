package clauses

import (
	"fmt"
	"strings"
)

//go:generate go test . -run ^TestPageIsCurrent$ -update

// areas are the subjects of the areas, in the order of the registry.
var areas = []struct{ id, title string }{
	{"JOB", "Jobs and their states"}, {"SUB", "Submission"}, {"OPS", "Operations of the job API"}, {"LIM", "Limits"}, {"RAT", "Rates"},
	{"AUT", "Authentication"}, {"ERR", "Errors"}, {"WEB", "Webhooks"}, {"T", "Templates"}, {"V", "Network volumes"}, {"R", "Registry credentials"},
	{"P", "Endpoints"}, {"M", "Version 1 at large"}, {"VER", "Version 2 and versions"}, {"CLI", "Clients"},
	{"DAT", "Data of jobs"}, {"STO", "Stored objects"},
}

// Title is the subject of an area; an area that has none is shown by its id.
func Title(area string) string {
	for _, a := range areas {
		if a.id == area {
			return a.title
		}
	}
	return area
}

// levels say what each of them is to a deployment.
var levels = map[Level]string{
	Must: "stated flatly: a deployment that does not keep it is not conformant", Should: "said so, or following from two statements: a warning",
	May: "optional: a warning", Unspec: "left open: what a deployment does is observed, and judged by nobody",
}

// Markdown is Page.
func Markdown() string {
	var b strings.Builder
	b.WriteString("<!-- Printed from conformance/clauses; to renew it: go generate ./conformance/clauses -->\n# Clauses\n\n" +
		"What the [conformance suite](../conformance/README.md) judges: one clause to each checkable statement of the service description, in the suite's own\n" +
		"words, with the section and row of the description that it comes from. The fields and operations themselves are in [contract.md](contract.md).\n" +
		"`conformance explain ID` says what judges a clause.\n\n")
	for _, level := range Levels {
		fmt.Fprintf(&b, "- %s: %s\n", level, levels[level])
	}
	b.WriteString("\n")
	for _, area := range areas {
		fmt.Fprintf(&b, "- [%s](#%s)\n", area.title, heading(area.title))
	}
	for _, area := range areas {
		fmt.Fprintf(&b, "\n## %s\n", area.title)
		for _, c := range All() {
			if c.Area() == area.id {
				entry(&b, c)
			}
		}
	}
	return b.String()
}

func entry(b *strings.Builder, c Clause) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n%s. Source: %s.\n", c.ID, plain(c.Statement), c.Level, plain(strings.TrimSuffix(c.Source, ".")))
	if reason := c.Untestable(); reason != "" {
		fmt.Fprintf(b, "No case judges it: %s.\n", plain(strings.TrimSuffix(reason, ".")))
	} else if c.Note != "" {
		fmt.Fprintf(b, "Note: %s.\n", plain(strings.TrimSuffix(c.Note, ".")))
	}
	if live := c.Live(); live != c {
		fmt.Fprintf(b, "In the dialect of the public SDKs: %s, because %s.\n", live.Level, plain(strings.TrimSuffix(live.Note, ".")))
	}
}

// plain is a text in which nothing is markup.
func plain(text string) string {
	return strings.NewReplacer(`\`, `\\`, "<", "&lt;", "*", `\*`, "[", `\[`, "`", "\\`").Replace(text)
}

// heading is the anchor of a heading.
func heading(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }
