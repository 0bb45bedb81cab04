package logline

import (
	"strings"
	"unicode/utf8"
)

// Tail returns the end of a text, at most maxBytes: whole lines, unless the last line is longer. An
// ellipsis marks the omission.
func Tail(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	end := text[len(text)-max(0, maxBytes-len(ellipsis)):]
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	if i := strings.IndexByte(end, '\n'); i >= 0 && i < len(end)-1 {
		return ellipsis + end[i:]
	}
	return ellipsis + end
}

// Shorten omits the middle of a text that is longer than maxBytes: the start usually names the failed
// operation, and the end its cause.
func Shorten(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	head := text[:maxBytes/4]
	for len(head) > 0 && !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	return head + Tail(text[len(head):], maxBytes-len(head))
}

const ellipsis = "…"

// End returns the end of a log in at most maxLines and maxBytes: without debug lines, JSON as text,
// truncated at the front.
func End(lines []string, maxLines, maxBytes int) string {
	var messages []string
	for i := len(lines) - 1; i >= 0 && maxLines > 0; i-- {
		l := Parse(lines[i])
		if l.Debug() || strings.TrimSpace(l.Text) == "" {
			continue
		}
		messageLines := strings.Split(l.Text, "\n")
		maxLines -= len(messageLines)
		messages = append(messages, l.Text)
	}
	var b strings.Builder
	for i := len(messages) - 1; i >= 0; i-- {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(messages[i])
	}
	return Tail(b.String(), maxBytes)
}
