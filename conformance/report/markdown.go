package report

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"text/template"
)

// Bounds of the summary, since GitHub accepts at most a megabyte.
const (
	markdownResults = 100
	markdownText    = 12_000 // runes of one result
	markdownBytes   = 800_000
)

var markdownTemplate = template.Must(template.New("report.md.tmpl").Funcs(template.FuncMap{
	"mark": func(r *Report) string {
		return map[string]string{"good": "✅", "bad": "❌", "unsure": "⚠️"}[exitTone(r)]
	},
	"conclusion": conclusion, "usage": (*Report).usage, "implementation": implementationText, "documents": (*Report).documents,
	"plain": markdownPlain, "fence": markdownFence, "link": markdownLink, "text": Text, "gaps": (*Report).gaps,
	"notes": func(r *Report) []string { return slices.Concat(r.Notes, r.Stale) },
	"columns": func(r *Report) []Verdict {
		return slices.DeleteFunc(slices.Clone(Verdicts), func(v Verdict) bool { return r.Counts[v] == 0 })
	},
	"details": markdownDetails, "more": func(r *Report) int { return len(r.Attention()) - len(markdownDetails(r)) },
	"blocked": func(r *Report) []Result {
		return slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool { return x.Verdict != Blocked })
	},
	"count": func(n int) string { return Count(n, "clause") },
}).ParseFS(assets, "assets/report.md.tmpl"))

// WriteMarkdown writes a CI job's summary: the verdict, sums by level, and results that need attention.
func WriteMarkdown(w io.Writer, r *Report) error { return markdownTemplate.Execute(w, r) }

func markdownDetails(r *Report) (list []Result) {
	bytes := 0
	for _, x := range r.Attention() {
		if bytes += len(markdownFence(Text(x))); len(list) == markdownResults || bytes >= markdownBytes {
			break
		}
		list = append(list, x)
	}
	return list
}

var markdownEscapes = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "\\", "&#92;", "`", "&#96;", "*", "&#42;", "_", "&#95;", "[", "&#91;", "]", "&#93;",
	"|", "&#124;", "~", "&#126;", "@", "&#64;", "#", "&#35;", "!", "&#33;", "://", "&#58;//", "\r", " ", "\n", " ",
)

// markdownPlain escapes a text that must not contain markup, for use in one line.
func markdownPlain(text string) string { return markdownEscapes.Replace(truncate(text, markdownText)) }

func markdownLink(x Result) string {
	if x.Link == "" {
		return x.Clause
	}
	return fmt.Sprintf("<a href=%q>%s</a>", html.EscapeString(x.Link), x.Clause)
}

// markdownFence returns a code block whose fence does not occur in the text.
func markdownFence(text string) string {
	text = truncate(Printable(text), markdownText)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + "\n" + fence
}
