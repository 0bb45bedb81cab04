package engine

import (
	"unicode/utf8"
)

// chunks splits an output into chunks {"output": …}. The last chunk has the metrics.
func chunks(output, metrics []byte) [][]byte {
	if len(output) == 0 {
		output = []byte("null")
	}
	parts := split(output, MaxChunk)
	all := make([][]byte, len(parts))
	for i, part := range parts {
		c := make([]byte, 0, len(part)+len(metrics)+32)
		c = append(append(c, `{"output":`...), part...)
		if i == len(parts)-1 && len(metrics) > 0 {
			c = append(append(c, `,"metrics":`...), metrics...)
		}
		all[i] = append(c, '}')
	}
	return all
}

// numberedChunk is one or more chunks, separated by commas, with the number of the first.
type numberedChunk struct {
	seq   int64
	chunk []byte
}

// numbered joins small chunks, the last of which has the number last.
func numbered(chunks [][]byte, last int64) (all []numberedChunk) {
	for i := 0; i < len(chunks); {
		n := numberedChunk{last - int64(len(chunks)-1-i), chunks[i]}
		for i++; i < len(chunks) && len(n.chunk)+len(chunks[i]) < maxChunkRow; i++ {
			n.chunk = append(append(n.chunk, ','), chunks[i]...)
		}
		all = append(all, n)
	}
	return all
}

// split splits a JSON value of more than limit bytes into JSON strings of at most limit
// bytes, between characters. If the value is a string, the parts concatenate to it, and
// otherwise to its JSON text.
func split(value []byte, limit int) [][]byte {
	if len(value) <= limit {
		return [][]byte{value}
	}
	text := value
	if value[0] == '"' {
		text = value[1 : len(value)-1]
	} else {
		text = escape(text)
	}
	var parts [][]byte
	for start := 0; start < len(text); {
		end := start
		for end < len(text) {
			next := end + character(text[end:])
			if next-start > limit-len(`""`) && end > start {
				break
			}
			end = next
		}
		part := make([]byte, 0, end-start+2)
		part = append(append(append(part, '"'), text[start:end]...), '"')
		parts = append(parts, part)
		start = end
	}
	return parts
}

// character returns the length of the first character of a JSON string's text. An escape
// sequence counts as one character, and so does an escaped surrogate pair.
func character(text []byte) int {
	if n := escaped(text); n > 0 {
		if n == 6 && (text[2]|0x20) == 'd' && text[3]|0x20 >= '8' && text[3]|0x20 <= 'b' && isUnicode(text[n:]) { // \ud800 to \udbff
			n += 6
		}
		return min(n, len(text))
	}
	_, n := utf8.DecodeRune(text)
	return n
}

// escaped returns the length of the escape sequence at the start of text, or 0.
func escaped(text []byte) int {
	switch {
	case text[0] != '\\':
		return 0
	case isUnicode(text):
		return 6
	}
	return 2
}

func isUnicode(text []byte) bool { return len(text) >= 6 && text[0] == '\\' && text[1] == 'u' }

// escape returns the JSON text of a string.
func escape(b []byte) []byte {
	const hex = "0123456789abcdef"
	text := make([]byte, 0, len(b)+len(b)/8)
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			text = append(text, '\\', c)
		case c < ' ':
			text = append(text, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			text = append(text, c)
		}
	}
	return text
}
