package logline

import (
	"strconv"
	"strings"
)

// unquoteList joins the strings of a list in Python's syntax: ['a\n', "b's\n"]. It reads a truncated
// list to its end, and keeps text outside of quotes unchanged.
func unquoteList(list string) string {
	var b strings.Builder
	rest := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(list), "["), "]")
	for rest != "" {
		if quote := rest[0]; quote == '\'' || quote == '"' {
			end := closing(rest, quote)
			b.WriteString(unescape(rest[1:end]))
			rest = strings.TrimPrefix(rest[min(end+1, len(rest)):], ", ")
			continue
		}
		next := strings.IndexAny(rest, `'"`)
		if next < 0 {
			next = len(rest)
		}
		b.WriteString(unescape(rest[:next]))
		rest = rest[next:]
	}
	return b.String()
}

// closing returns the index of a string's closing quote, or the length of s without one.
func closing(s string, quote byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return i
		}
	}
	return len(s)
}

// unescape resolves the escapes of Python's strings.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for s != "" {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			break
		}
		if after == "" {
			return b.String()
		}
		var width int
		switch after[0] {
		case 'n':
			b.WriteByte('\n')
			width = 1
		case 't':
			b.WriteByte('\t')
			width = 1
		case 'r':
			width = 1
		case '\\', '\'', '"':
			b.WriteByte(after[0])
			width = 1
		case 'x', 'u', 'U':
			digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[after[0]]
			if len(after) > digits {
				if n, err := strconv.ParseUint(after[1:1+digits], 16, 32); err == nil {
					b.WriteRune(rune(n))
					width = 1 + digits
				}
			}
		}
		if width == 0 {
			b.WriteByte('\\')
		}
		s = after[width:]
	}
	return b.String()
}
