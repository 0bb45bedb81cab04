package logline

import (
	"strings"
	"unicode/utf8"
)

// Tail is the end of a text of at most so many bytes: whole lines where the last
// one fits. What is left out is marked.
func Tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := text[len(text)-max(0, most-len(omitted)):]
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	if i := strings.IndexByte(end, '\n'); i >= 0 && i < len(end)-1 {
		return omitted + end[i:]
	}
	return omitted + end
}

// Shorten leaves out the middle of a text of more than so many bytes: what
// failed stands in front, and why at the end.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := text[:most/4]
	for len(head) > 0 && !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	return head + Tail(text[len(head):], most-len(head))
}

const omitted = "…"

// End is the end of a log, in at most so many lines and bytes: without debug
// lines, JSON as text, cut at the front.
func End(lines []string, count, most int) string {
	var kept []string
	for i := len(lines) - 1; i >= 0 && count > 0; i-- {
		l := Parse(lines[i])
		if l.Quiet() || strings.TrimSpace(l.Text) == "" {
			continue
		}
		own := strings.Split(l.Text, "\n")
		count -= len(own)
		kept = append(kept, l.Text)
	}
	var b strings.Builder
	for i := len(kept) - 1; i >= 0; i-- {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(kept[i])
	}
	return Tail(b.String(), most)
}
