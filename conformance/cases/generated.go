package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// generator generates JSON values and encodes them in any form that JSON allows. Every JSON
// implementation preserves these values: strings, names, doubles, and integers that a
// double can represent.
type generator struct{ *rand.Rand }

// texts has strings that an implementation may misread or change.
var texts = []string{
	"", " ", "  two  ", "\t", "line\nline\r\nline\r", "\x00", "\x01\x1f\x7f", "\u0085\u00a0", "\u2028\u2029", "\ufeff", "\ufffd\uffff", "\U0010ffff",
	"é", "e\u0301", "Å", "\u212b", "ﬁ", "İi", "ß", "ǆ", "한", "\u1112\u1161\u11ab", "👩\u200d💻🏳\ufe0f\u200d🌈", "𝒳", "שלום", "\u202eabc",
	"null", "true", "1", "1e5", "-0", "NaN", "0x10", "007", "2026-11-15", "2026-11-15T00:00:00Z", "{}", "[1]", `{"a":1}`, `"quoted"`,
	`back\slash`, `\n`, `\u0041`, "/", "</script>&amp;<b>", "'; --", "%20%", "a+b", "${HOME} $1 $$", "{{x}}", "a,b;c", "data:text/plain;base64,QQ==", "=1+1", "*", "..", "CON",
}

// names has names of members that an implementation may misread or change.
var names = append([]string{
	"__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "length", "a.b", "a..b", ".a", "a[0]", "$ref", "$set", "$", "@type", "#text", "a/b", "~1", "a b",
	"Key", "key", "KEY", "snake_case", "camelCase", "kebab-case", "0", "1", "01", "-1", "id", "status", "error", "output", "input", "null", strings.Repeat("long", 100),
}, texts...)

// numbers has numbers at the limits of doubles and integers.
var numbers = []string{
	"0", "-0", "-0.0", "1.0", "1", "-1", "1e2", "1E+2", "15e-1", "1.50", "100000000000000000000", "0.1", "0.30000000000000004", "3.141592653589793", "1e-7", "1.5E-07", "1e21", "123456789012345680000",
	"2147483647", "2147483648", "-2147483649", "4294967295", "4294967296", "9007199254740991", "-9007199254740991", "9007199254740992", "1e16",
	"1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "0.1e1", "1000000.5", "16777217",
}

// value returns a random value with at most depth nested levels.
func (g generator) value(depth int) any {
	switch kind := g.IntN(12); {
	case kind < 3 && depth > 0:
		o := suite.M{}
		for range g.IntN(6) {
			o[g.name()] = g.value(depth - 1)
		}
		return o
	case kind < 5 && depth > 0:
		list := make([]any, g.IntN(6))
		for i := range list {
			list[i] = g.value(depth - 1)
		}
		return list
	case kind < 8:
		return g.number()
	case kind == 8:
		return g.IntN(2) == 0
	case kind == 9:
		return nil
	}
	return g.text()
}

func (g generator) name() string {
	if g.IntN(4) == 0 {
		return g.text()
	}
	return names[g.IntN(len(names))]
}

func (g generator) text() string {
	if g.IntN(3) > 0 {
		return texts[g.IntN(len(texts))]
	}
	return g.longText(g.IntN(40))
}

// longText returns a random text of one- to four-byte characters in UTF-8.
func (g generator) longText(characters int) string {
	var b strings.Builder
	for range characters {
		r := rune(g.IntN(0x80))
		switch g.IntN(4) {
		case 1:
			r = rune(0x80 + g.IntN(0x780))
		case 2:
			r = rune(0x800 + g.IntN(0xd000))
		case 3:
			r = rune(0x10000 + g.IntN(0x100000))
		}
		b.WriteRune(r)
	}
	return b.String()
}

// number returns a random number that a double can represent.
func (g generator) number() json.Number {
	switch g.IntN(3) {
	case 0:
		return json.Number(strconv.FormatInt(g.Int64N(1<<54)-1<<53, 10))
	case 1:
		f := math.Float64frombits(g.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = g.NormFloat64()
		}
		return json.Number(strconv.FormatFloat(f, "eg"[g.IntN(2)], -1, 64))
	}
	return json.Number(numbers[g.IntN(len(numbers))])
}

// allValues returns an object with all texts, names and numbers, and with nested and random values.
func (g generator) allValues() suite.M {
	namedValues, allTexts, allNumbers := suite.M{}, []any{}, []any{}
	for i, name := range names {
		namedValues[name] = i
	}
	for _, text := range texts {
		allTexts = append(allTexts, text)
	}
	for _, number := range numbers {
		allNumbers = append(allNumbers, json.Number(number))
	}
	var nested any = []any{}
	for range 32 {
		nested = suite.M{"": []any{nested}}
	}
	thousands := make([]any, 5000)
	for i := range thousands {
		thousands[i] = g.IntN(1 << 30)
	}
	return suite.M{
		"names": namedValues, "texts": allTexts, "numbers": allNumbers, "nested": nested, "thousands": thousands, "some": g.value(6), "more": []any{g.value(4), g.value(4), g.value(4)},
		"nothing": []any{nil, suite.M{"null": nil}, []any{}, suite.M{}, []any{nil}, []any{[]any{}}, suite.M{"": suite.M{}}, "", 0, false},
	}
}

// encode returns a JSON text of a value, with random whitespace and escapes.
func (g generator) encode(v any) string {
	var b strings.Builder
	g.encodeTo(&b, v)
	return b.String()
}

func (g generator) encodeTo(b *strings.Builder, v any) {
	switch x := v.(type) {
	case suite.M:
		b.WriteString("{" + g.whitespace())
		order := slices.Sorted(maps.Keys(x)) // the same order for the same seed
		g.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, name := range order {
			if i > 0 {
				b.WriteString("," + g.whitespace())
			}
			g.quote(b, name)
			b.WriteString(":" + g.whitespace())
			g.encodeTo(b, x[name])
		}
		b.WriteString("}" + g.whitespace())
	case []any:
		b.WriteString("[" + g.whitespace())
		for i, element := range x {
			if i > 0 {
				b.WriteString("," + g.whitespace())
			}
			g.encodeTo(b, element)
		}
		b.WriteString("]" + g.whitespace())
	case string:
		g.quote(b, x)
	default:
		b.WriteString(suite.JSONText(x))
	}
}

func (g generator) whitespace() string {
	if g.IntN(20) > 0 {
		return ""
	}
	return []string{" ", "\n", "\t", "\r\n  "}[g.IntN(4)]
}

func (g generator) quote(b *strings.Builder, text string) {
	short := map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '"': `\"`, '\\': `\\`}
	b.WriteByte('"')
	for _, r := range text {
		switch escaped, must := short[r], r < ' '; {
		case escaped != "" && g.IntN(2) == 0:
			b.WriteString(escaped)
		case r == '/' && g.IntN(2) == 0:
			b.WriteString(`\/`)
		case r > 0xffff && g.IntN(4) == 0:
			fmt.Fprintf(b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case must || escaped != "" || r <= 0xffff && g.IntN(20) == 0:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
