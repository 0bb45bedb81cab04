package wirefault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// recodings are changes that a program makes by mistake to JSON that it should preserve.
// Each is applied to every value, innermost values first.
var recodings = map[Recoding]func(v any) any{
	"double": recodeNumbers(func(f float64) string {
		text, err := json.Marshal(f)
		if err != nil {
			return ""
		}
		return string(text)
	}),
	"float":    recodeNumbers(func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 32) }),
	"digits":   recodeNumbers(func(f float64) string { return strconv.FormatFloat(f, 'g', 15, 64) }),
	"fixed":    recodeNumbers(func(f float64) string { return strconv.FormatFloat(f, 'f', 6, 64) }),
	"composed": recodeStrings(strings.NewReplacer("e\u0301", "\u00e9").Replace),
	"trimmed":  recodeStrings(strings.TrimSpace),
	"lines":    recodeStrings(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace),
	"cut":      recodeStrings(func(s string) string { return s[:min(len(s), 65536)] }),
	"no-nul":   recodeStrings(strings.NewReplacer("\x00", "").Replace),
	"no-mark":  recodeStrings(strings.NewReplacer("\ufeff", "").Replace),
	"no-emoji": recodeStrings(func(s string) string {
		return strings.Map(func(r rune) rune {
			if r > 0xffff {
				return '\ufffd'
			}
			return r
		}, s)
	}),
	"html":        recodeStrings(strings.NewReplacer("<", "&lt;", "&", "&amp;").Replace),
	"plus":        recodeStrings(strings.NewReplacer("+", " ").Replace),
	"slash":       recodeStrings(strings.NewReplacer(`\`, `/`).Replace),
	"lower-names": recodeObjects(func(name string, v any, result map[string]any) { result[strings.ToLower(name)] = v }),
	"composed-names": recodeObjects(func(name string, v any, result map[string]any) {
		result[strings.ReplaceAll(name, "e\u0301", "\u00e9")] = v
	}),
	"dots": recodeObjects(func(name string, v any, result map[string]any) {
		first, rest, dotted := strings.Cut(name, ".")
		if !dotted {
			result[name] = v
			return
		}
		nested, ok := result[first].(map[string]any)
		if !ok {
			nested = map[string]any{}
		}
		nested[rest], result[first] = v, nested
	}),
	"no-dollars":    recodeObjects(dropMembers(func(name string, _ any) bool { return strings.HasPrefix(name, "$") })),
	"no-prototypes": recodeObjects(dropMembers(func(name string, _ any) bool { return name == "__proto__" || name == "constructor" })),
	"no-empty-name": recodeObjects(dropMembers(func(name string, _ any) bool { return name == "" })),
	"seconds": recodeObjects(func(name string, v any, result map[string]any) { // job times in seconds
		if n, ok := v.(json.Number); ok && (name == "delayTime" || name == "executionTime") {
			ms, _ := n.Int64() // the value is an integer
			v = json.Number(strconv.FormatInt(ms/1000, 10))
		}
		result[name] = v
	}),
	"no-nulls": recodeObjects(dropMembers(func(_ string, v any) bool { return v == nil })),
	"no-empties": recodeObjects(dropMembers(func(_ string, v any) bool { // only empty lists
		list, isList := v.([]any)
		return isList && len(list) == 0
	})),
	"thousand": recodeAll(func(list []any) any { return list[:min(len(list), 1000)] }),
	"first":    recodeAll(func(list []any) any { return list[:min(len(list), 1)] }),
	"one-is-all": recodeAll(func(list []any) any { // replaces a list of one element by the element
		if len(list) == 1 {
			return list[0]
		}
		return list
	}),
	"no-null-elements": recodeAll(func(list []any) any {
		return slices.DeleteFunc(slices.Clone(list), func(e any) bool { return e == nil })
	}),
	"no-empty": func(v any) any { return v }, // drops the member at the path if isDropped
	"number-texts": recodeAll(func(s string) any { // makes "1" the number 1
		if _, err := strconv.Atoi(s); err == nil && s == strings.TrimLeft(s, "+0") {
			return json.Number(s)
		}
		return s
	}),
}

// isDropped reports whether a recoding drops the member that an Edit applies it to.
func isDropped(v any, coding Recoding) bool {
	text, err := json.Marshal(v)
	return coding == "no-empty" && err == nil && slices.Contains([]string{"null", `""`, "{}", "[]", "0"}, string(text))
}

func recodeAll[T any](change func(T) any) func(any) any {
	return func(v any) any {
		if x, ok := v.(T); ok {
			return change(x)
		}
		return v
	}
}

func recodeNumbers(print func(float64) string) func(any) any {
	return recodeAll(func(n json.Number) any {
		if f, err := n.Float64(); err == nil {
			if text := json.Number(print(f)); json.Valid([]byte(text)) {
				return text
			}
		}
		return n
	})
}

func recodeStrings(change func(string) string) func(any) any {
	return recodeAll(func(s string) any { return change(s) })
}

func recodeObjects(put func(name string, v any, result map[string]any)) func(any) any {
	return recodeAll(func(members map[string]any) any {
		result := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			put(name, members[name], result)
		}
		return result
	})
}

func dropMembers(drop func(name string, v any) bool) func(string, any, map[string]any) {
	return func(name string, v any, result map[string]any) {
		if !drop(name, v) {
			result[name] = v
		}
	}
}

// recode applies a recoding to a value and to all values within it.
func recode(v any, coding Recoding) any {
	switch x := v.(type) {
	case map[string]any:
		for name := range x {
			x[name] = recode(x[name], coding)
		}
	case []any:
		for i := range x {
			x[i] = recode(x[i], coding)
		}
	}
	return recodings[coding](v)
}

func Recode(text []byte, coding Recoding) []byte {
	v, err := wire.Decode(text)
	if err != nil {
		return text
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(recode(v, coding)) != nil {
		return text
	}
	return bytes.TrimSpace(out.Bytes())
}

type Recoding string

func (r *Recoding) UnmarshalText(text []byte) error {
	if *r = Recoding(text); recodings[*r] == nil {
		return fmt.Errorf("expected a recoding of conformance/wirefault/recode.go, got %q", text)
	}
	return nil
}
