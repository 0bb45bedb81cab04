package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Encode returns a JSON text of a value, with random white space, order of members and escapes. ASCII
// letters and digits are escaped only if escapeASCII is set. If it isn't, ids can be found in the text.
func Encode(random *rand.Rand, v any, escapeASCII bool) string {
	var b strings.Builder
	encoder{random, escapeASCII}.encodeTo(&b, v)
	return b.String()
}

type encoder struct {
	*rand.Rand
	escapeASCII bool
}

func (e encoder) encodeTo(b *strings.Builder, v any) {
	switch x := v.(type) {
	case map[string]any:
		b.WriteString("{" + e.whitespace())
		order := slices.Sorted(maps.Keys(x)) // the same order for the same seed
		e.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, name := range order {
			if i > 0 {
				b.WriteString("," + e.whitespace())
			}
			e.quote(b, name)
			b.WriteString(":" + e.whitespace())
			e.encodeTo(b, x[name])
		}
		b.WriteString("}" + e.whitespace())
	case []any:
		b.WriteString("[" + e.whitespace())
		for i, element := range x {
			if i > 0 {
				b.WriteString("," + e.whitespace())
			}
			e.encodeTo(b, element)
		}
		b.WriteString("]" + e.whitespace())
	case string:
		e.quote(b, x)
	default:
		text, _ := json.Marshal(x) // a number, a boolean or null
		b.Write(text)
	}
}

func (e encoder) whitespace() string {
	if e.IntN(20) > 0 {
		return ""
	}
	return []string{" ", "\n", "\t", "\r\n  "}[e.IntN(4)]
}

func (e encoder) quote(b *strings.Builder, text string) {
	shortEscapes := map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '"': `\"`, '\\': `\\`}
	b.WriteByte('"')
	for _, r := range text {
		switch escaped, isControl := shortEscapes[r], r < ' '; {
		case escaped != "" && e.IntN(2) == 0:
			b.WriteString(escaped)
		case r == '/' && e.IntN(2) == 0:
			b.WriteString(`\/`)
		case r > 0xffff && e.IntN(4) == 0:
			fmt.Fprintf(b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case isControl || escaped != "" || (e.escapeASCII || r > '~') && r <= 0xffff && e.IntN(20) == 0:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
