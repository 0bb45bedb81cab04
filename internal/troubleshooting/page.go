package main

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed head.txt
var head string

// write returns the page.
func write(sections []section) string {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range sections {
		if s.Subject == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| error | what it means | what to do |\n|---|---|---|\n", s.Subject)
		for _, r := range s.Rows {
			var texts []string
			for _, text := range r.found {
				texts = append(texts, code(text))
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(texts, "<br>"), r.Means, r.Do)
		}
	}
	return b.String()
}

// code is a text as Markdown's code in a table.
func code(text string) string {
	text = strings.ReplaceAll(text, "|", `\|`)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}
