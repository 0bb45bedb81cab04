package engine

import (
	"encoding/json"
	"unicode/utf8"
)

// newChunks splits an output into chunks {"output": …} of at most MaxChunk bytes. The last chunk has the metrics,
// which are dropped if they would fill half of it.
func newChunks(output, metrics []byte) [][]byte {
	if len(output) == 0 {
		output = []byte("null")
	}
	if len(metrics) > MaxChunk/2 {
		metrics = nil
	}
	parts := split(output, MaxChunk-len(`{"output":,"metrics":}`)-len(metrics))
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

// numberedChunk is one or more chunks, separated by commas, with the sequence number of the first chunk.
type numberedChunk struct {
	seq   int64
	chunk []byte
}

// numberChunks joins small chunks, and numbers the results. lastSeq is the sequence number of the last chunk.
func numberChunks(chunks [][]byte, lastSeq int64) (all []numberedChunk) {
	for i := 0; i < len(chunks); {
		n := numberedChunk{lastSeq - int64(len(chunks)-1-i), chunks[i]}
		for i++; i < len(chunks) && len(n.chunk)+len(chunks[i]) < maxChunkRow; i++ {
			n.chunk = append(append(n.chunk, ','), chunks[i]...)
		}
		all = append(all, n)
	}
	return all
}

// split splits a JSON value of more than limit bytes into JSON strings of at most limit
// bytes, between characters. The strings concatenate to the value if it is a string, and
// otherwise to its JSON text.
func split(value []byte, limit int) [][]byte {
	if len(value) <= limit {
		return [][]byte{value}
	}
	text := value
	if value[0] != '"' {
		text, _ = json.Marshal(string(value)) // never fails for a string
	}
	text = text[1 : len(text)-1]
	var parts [][]byte
	for start := 0; start < len(text); {
		end := start
		for end < len(text) {
			next := end + characterSize(text[end:])
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

// characterSize returns the length of the first character of a JSON string's text. An escape
// sequence counts as one character, and so does an escaped surrogate pair.
func characterSize(text []byte) int {
	switch {
	case text[0] != '\\':
		_, n := utf8.DecodeRune(text)
		return n
	case !isUnicodeEscape(text):
		return min(2, len(text))
	case (text[2]|0x20) == 'd' && text[3]|0x20 >= '8' && text[3]|0x20 <= 'b' && isUnicodeEscape(text[6:]): // \ud800 to \udbff
		return 12
	}
	return 6
}

// isUnicodeEscape reports whether a text begins with an escape of six bytes, such as \u00e9.
func isUnicodeEscape(text []byte) bool { return len(text) >= 6 && text[0] == '\\' && text[1] == 'u' }
