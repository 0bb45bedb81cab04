package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// recodings are what a program may do to JSON that it should pass on: to each
// value, from the innermost to the whole.
var recodings = map[string]func(v any) any{
	"double": numbers(func(f float64) string {
		text, err := json.Marshal(f)
		if err != nil {
			return ""
		}
		return string(text)
	}),
	"float":    numbers(func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 32) }),
	"digits":   numbers(func(f float64) string { return strconv.FormatFloat(f, 'g', 15, 64) }),
	"fixed":    numbers(func(f float64) string { return strconv.FormatFloat(f, 'f', 6, 64) }),
	"composed": texts(strings.NewReplacer("e\u0301", "\u00e9").Replace),
	"trimmed":  texts(strings.TrimSpace),
	"lines":    texts(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace),
	"cut":      texts(func(s string) string { return s[:min(len(s), 65536)] }),
	"no-nul":   texts(strings.NewReplacer("\x00", "").Replace),
	"no-mark":  texts(strings.NewReplacer("\ufeff", "").Replace),
	"no-emoji": texts(func(s string) string {
		return strings.Map(func(r rune) rune {
			if r > 0xffff {
				return '\ufffd'
			}
			return r
		}, s)
	}),
	"html":        texts(strings.NewReplacer("<", "&lt;", "&", "&amp;").Replace),
	"plus":        texts(strings.NewReplacer("+", " ").Replace),
	"slash":       texts(strings.NewReplacer(`\`, `/`).Replace),
	"lower-names": objects(func(name string, v any, into map[string]any) { into[strings.ToLower(name)] = v }),
	"composed-names": objects(func(name string, v any, into map[string]any) {
		into[strings.ReplaceAll(name, "e\u0301", "\u00e9")] = v
	}),
	"dots": objects(func(name string, v any, into map[string]any) {
		first, rest, two := strings.Cut(name, ".")
		if !two {
			into[name] = v
			return
		}
		below, ok := into[first].(map[string]any)
		if !ok {
			below = map[string]any{}
		}
		below[rest], into[first] = v, below
	}),
	"no-dollars":    objects(without(func(name string, _ any) bool { return strings.HasPrefix(name, "$") })),
	"no-prototypes": objects(without(func(name string, _ any) bool { return name == "__proto__" || name == "constructor" })),
	"no-empty-name": objects(without(func(name string, _ any) bool { return name == "" })),
	"seconds": objects(func(name string, v any, into map[string]any) { // of a job's times
		if n, ok := v.(json.Number); ok && (name == "delayTime" || name == "executionTime") {
			ms, _ := n.Int64() // an integer
			v = json.Number(strconv.FormatInt(ms/1000, 10))
		}
		into[name] = v
	}),
	"no-nulls": objects(without(func(_ string, v any) bool { return v == nil })),
	"no-empties": objects(without(func(_ string, v any) bool {
		list, is := v.([]any)
		return is && len(list) == 0
	})),
	"thousand": func(v any) any {
		if list, ok := v.([]any); ok {
			return list[:min(len(list), 1000)]
		}
		return v
	},
	"one-is-all": func(v any) any { // a list of one is its element
		if list, ok := v.([]any); ok && len(list) == 1 {
			return list[0]
		}
		return v
	},
	"no-null-elements": func(v any) any {
		if list, ok := v.([]any); ok {
			return slices.DeleteFunc(slices.Clone(list), func(e any) bool { return e == nil })
		}
		return v
	},
	"first": func(v any) any {
		if list, ok := v.([]any); ok {
			return list[:min(len(list), 1)]
		}
		return v
	},
	"no-empty": func(v any) any { return v }, // of a member: see emptied
	"number-texts": func(v any) any { // "1" is 1
		if s, ok := v.(string); ok {
			if _, err := strconv.Atoi(s); err == nil && s == strings.TrimLeft(s, "+0") {
				return json.Number(s)
			}
		}
		return v
	},
}

// emptied tells whether a recoding leaves a member out.
func emptied(v any, as string) bool {
	text, err := json.Marshal(v)
	return as == "no-empty" && err == nil && slices.Contains([]string{"null", `""`, "{}", "[]", "0"}, string(text))
}

func numbers(print func(float64) string) func(any) any {
	return func(v any) any {
		if n, ok := v.(json.Number); ok {
			if f, err := n.Float64(); err == nil {
				if text := json.Number(print(f)); json.Valid([]byte(text)) {
					return text
				}
			}
		}
		return v
	}
}

func texts(change func(string) string) func(any) any {
	return func(v any) any {
		if s, ok := v.(string); ok {
			return change(s)
		}
		return v
	}
}

func objects(put func(name string, v any, into map[string]any)) func(any) any {
	return func(v any) any {
		o, ok := v.(map[string]any)
		if !ok {
			return v
		}
		into := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(o)) {
			put(name, o[name], into)
		}
		return into
	}
}

func without(drop func(name string, v any) bool) func(string, any, map[string]any) {
	return func(name string, v any, into map[string]any) {
		if !drop(name, v) {
			into[name] = v
		}
	}
}

// recode changes a value and all that is in it.
func recode(v any, as string) any {
	switch x := v.(type) {
	case map[string]any:
		for name := range x {
			x[name] = recode(x[name], as)
		}
	case []any:
		for i := range x {
			x[i] = recode(x[i], as)
		}
	}
	return recodings[as](v)
}

// recoded is a JSON text, recoded.
func recoded(text []byte, as string) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(recode(v, as)) != nil {
		return text
	}
	return bytes.TrimSpace(out.Bytes())
}

// checkRecodings answers an error where a fault has a recoding that there is not.
func (f *fault) checkRecodings() error {
	all := map[string]string{}
	if f.Data != "" {
		all[f.Data] = f.As
	}
	if f.Wire != nil {
		maps.Copy(all, f.Wire.Request.Recode)
		maps.Copy(all, f.Wire.Answer.Recode)
	}
	for _, as := range all {
		if recodings[as] == nil {
			return fmt.Errorf("GPUCLOUD_FAULT: there is no recoding %q", as)
		}
	}
	return nil
}

// Data is JSON at a place of the code, or what the chosen faults make of it.
func Data(place string, text []byte) []byte {
	for _, f := range chosen {
		if f.Data == place && len(text) > 0 {
			text = recoded(text, f.As)
		}
	}
	return text
}
