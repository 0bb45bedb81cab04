package report

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// Bounds of the summary, since GitHub accepts at most a megabyte.
const (
	markdownResults = 100
	markdownText    = 12_000 // runes of one result
	markdownBytes   = 800_000
)

// WriteMarkdown writes the summary of a CI job: the verdict, the sums by level, and the
// results that need attention.
func WriteMarkdown(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s Conformance: %s\n\n", markdownMarks[verdictTone(r)], conclusion(r))
	if address := r.Target.Address(); address != "" {
		fmt.Fprintf(&b, "Target <code>%s</code>, ", markdownPlain(address))
	}
	b.WriteString(effort(len(r.Results), "clause", r.Duration, r.Requests, r.Jobs))
	if r.Reruns != nil {
		fmt.Fprintf(&b, "; beside that, reruns of %s", r.Reruns)
	}
	if r.Dialect != "" {
		fmt.Fprintf(&b, ", dialect %s, seed %d", r.Dialect, r.Seed)
	}
	b.WriteString(".\n\n")
	if r.Implementation != nil {
		fmt.Fprintf(&b, "Implementation: %s. Suite %s, documents: %s.\n\n", markdownPlain(implementationText(r.Implementation)), markdownPlain(r.Version), markdownPlain(r.documents()))
	}
	if r.Preflight != "" {
		fmt.Fprintf(&b, "**%s**\n", markdownPlain(r.Preflight))
		_, err := io.WriteString(w, b.String())
		return err
	}
	for _, note := range append(append([]string(nil), r.Notes...), r.Stale...) {
		fmt.Fprintf(&b, "> %s\n\n", markdownPlain(note))
	}
	for _, leak := range r.Leaked {
		fmt.Fprintf(&b, "> **Not deleted:** %s\n\n", markdownPlain(leak))
	}
	for _, text := range r.Failed {
		fmt.Fprintf(&b, "**Failed:**\n\n%s\n\n", markdownFence(truncate(stripControls(text), markdownText)))
	}
	markdownSums(&b, r)
	markdownAttention(&b, r)
	markdownGaps(&b, r.gaps(), "Not judged, so not counted as kept: "+Count(len(r.NotJudged), "clause"))
	markdownGaps(&b, r.partGaps(), "Partly judged, since some cases did not run: "+Count(len(r.PartlyJudged), "clause"))
	_, err := io.WriteString(w, b.String())
	return err
}

var markdownMarks = map[string]string{"good": "✅", "bad": "❌", "unsure": "⚠️"}

// markdownSums writes a table of levels and verdicts, without empty columns.
func markdownSums(b *strings.Builder, r *Report) {
	heads := slices.DeleteFunc(slices.Clone(Verdicts), func(v Verdict) bool { return r.Counts[v] == 0 })
	if len(heads) == 0 {
		return
	}
	b.WriteString("| |")
	for _, v := range heads {
		fmt.Fprintf(b, " %s |", v)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(heads)) + "\n")
	for _, row := range r.Sums() {
		fmt.Fprintf(b, "| %s |", row.Level)
		for _, v := range heads {
			cell := ""
			if n := row.Counts[v]; n > 0 {
				cell = fmt.Sprint(n)
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// markdownGaps lists clauses by the reason why they were not judged, or only partly. Blocked clauses
// are also listed above.
func markdownGaps(b *strings.Builder, gaps []gap, title string) {
	if len(gaps) == 0 {
		return
	}
	fmt.Fprintf(b, "<details><summary>%s</summary>\n\n", title)
	for _, g := range gaps {
		fmt.Fprintf(b, "- %s\n", markdownPlain(g.String()))
	}
	b.WriteString("\n</details>\n")
}

func markdownAttention(b *strings.Builder, r *Report) {
	var list, blocked []Result
	for _, x := range r.Attention() {
		if x.Verdict == Blocked {
			blocked = append(blocked, x)
		} else {
			list = append(list, x)
		}
	}
	for i, x := range list {
		if i == markdownResults || b.Len() > markdownBytes {
			fmt.Fprintf(b, "\n… and %d more.\n\n", len(list)-i)
			break
		}
		// HTML, so that Markdown from the target isn't rendered.
		fmt.Fprintf(b, "<details%s><summary><b>%s</b> %s (%s): %s</summary>\n\n%s\n\n</details>\n",
			map[bool]string{true: " open"}[x.Verdict == Fail && i < 5], x.Verdict, markdownLink(x), x.Level, markdownPlain(x.Statement), markdownFence(truncate(Text(x), markdownText)))
	}
	if len(blocked) == 0 {
		return
	}
	fmt.Fprintf(b, "<details><summary><b>%s</b> %s, by others</summary>\n\n", Blocked, Count(len(blocked), "clause"))
	for _, x := range blocked {
		fmt.Fprintf(b, "- %s (%s), by %s: %s\n", x.Clause, x.Level, markdownPlain(cmp.Or(x.By, "another clause")), markdownPlain(x.Statement))
	}
	b.WriteString("\n</details>\n")
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
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + "\n" + fence
}
