package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Same compares two values as JSON: 1 equals 1.0, the order of members is irrelevant, and
// strings are compared character by character.
func Same(a, b any) bool { return Difference(a, b) == "" }

// Difference names the first place at which got differs from want, with both values, or returns "".
func Difference(want, got any) string {
	w, err := normalize(want)
	if err != nil {
		return err.Error()
	}
	g, err := normalize(got)
	if err != nil {
		return err.Error()
	}
	return difference("", w, g)
}

// normalize converts a value to decoded JSON with exact numbers.
func normalize(v any) (out any, err error) {
	switch v.(type) { // decoded JSON already
	case nil, string, bool, json.Number:
		return v, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return wire.Decode(text)
}

func difference(path string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return describeDifference(path, want, got)
		}
		for _, name := range slices.Sorted(maps.Keys(w)) {
			value, exists := g[name]
			if !exists {
				return fmt.Sprintf("%s: the member %s is missing", describePlace(path), JSONText(name))
			}
			if d := difference(path+"["+JSONText(name)+"]", w[name], value); d != "" {
				return d
			}
		}
		for _, name := range slices.Sorted(maps.Keys(g)) {
			if _, exists := w[name]; !exists {
				return fmt.Sprintf("%s: a further member %s", describePlace(path), JSONText(name))
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok {
			return describeDifference(path, want, got)
		}
		if len(g) != len(w) {
			return fmt.Sprintf("%s: %d elements, not %d", describePlace(path), len(g), len(w))
		}
		for i := range w {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), w[i], g[i]); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		if g, ok := got.(json.Number); !ok || !sameNumber(w.String(), g.String()) {
			return describeDifference(path, want, got)
		}
		return ""
	}
	if want != got {
		return describeDifference(path, want, got)
	}
	return ""
}

func describePlace(path string) string {
	if path == "" {
		return "the value"
	}
	return excerpt(path, 0)
}

// describeDifference shows two values, or for long texts the part around the first difference.
func describeDifference(path string, want, got any) string {
	from := 0
	w, wantsText := want.(string)
	g, isText := got.(string)
	for wantsText && isText && from < min(len(w), len(g)) && w[from] == g[from] {
		from++
	}
	text := fmt.Sprintf("%s = %s, not %s", describePlace(path), excerptOf(got, from), excerptOf(want, from))
	if from > 40 {
		text += fmt.Sprintf(" (from byte %d on; %d bytes, not %d)", from, len(g), len(w))
	}
	return text
}

func excerptOf(v any, from int) string {
	if s, ok := v.(string); ok {
		// Escaped, so that similar characters can be distinguished.
		return strconv.QuoteToASCII(excerpt(s, from))
	}
	return excerpt(JSONText(v), 0)
}

// maxExcerpt is the longest text, in bytes, that a failure shows in full.
const maxExcerpt = 100

// excerpt returns the part of a text that begins shortly before byte from.
func excerpt(s string, from int) string {
	const before = 20
	if from > before {
		from -= before
		for from < len(s) && !utf8.RuneStart(s[from]) {
			from--
		}
		s = "…" + s[min(from, len(s)):]
	}
	if len(s) <= maxExcerpt {
		return s
	}
	end := maxExcerpt
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// sameNumber compares two JSON numbers exactly: 2^53 and 2^53+1 differ. Programs print a double in
// its shortest form, with 17 digits, or with all digits. These texts are equal.
func sameNumber(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, secondOK := new(big.Rat).SetString(b)
	if !ok || !secondOK { // an exponent is beyond a million
		return a == b
	}
	f, err := strconv.ParseFloat(a, 64)
	g, secondErr := strconv.ParseFloat(b, 64)
	return x.Cmp(y) == 0 || err == nil && secondErr == nil && f == g && isPrintedAs(f, x) && isPrintedAs(f, y)
}

// isPrintedAs reports whether a program may print f as a text with this value.
func isPrintedAs(f float64, value *big.Rat) bool {
	const all = 770 // digits of any double
	return slices.ContainsFunc([]int{-1, 16, all}, func(digits int) bool {
		printed, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', digits, 64))
		return printed.Cmp(value) == 0
	})
}
