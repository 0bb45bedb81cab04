package rawjson_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
)

var texts = []string{
	``, ` `, `{}`, ` { } `, `{"a":1}`, `{"a" : {"b":[1,2,{"c":"}"}]} , "d":null}`, `{"a":1,"a":2}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`,
	`[]`, `[1,]`, `[,1]`, `[1 2]`, `[[[]]]`, `[`, `]`, `[}`, `{]`, `nul`, `null`, `nulll`, `true`, `false`, `True`, `{}{}`, `{} x`,
	`0`, `-0`, `00`, `01`, `-`, `1.`, `.5`, `1.5`, `1e`, `1e5`, `1E+5`, `1e-`, `+1`, `1e5.5`, `0x1`, `NaN`, `--1`,
	`""`, `"`, `"\"`, `"\\"`, `"\x"`, `"\u12"`, `"\u12ag"`, `"\u00e9"`, `"\ud800"`, "\"\t\"", "\"\x7f\"", "\"\xff\"", `"é"`,
	`{"\u0061":1}`, "{\"\xff\":1}", `{"a\"b":1}`, `{"":1}`, "\ufeff{}", `// x`,
	strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
	strings.Repeat(`{"a":`, 9_999) + "1" + strings.Repeat("}", 9_999), strings.Repeat("[", 1_000_000),
	strings.Repeat("[[],", 9_999) + "1" + strings.Repeat("]", 9_999),
}

// What encoding/json takes, and nothing else.
func FuzzLikeEncodingJSON(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := rawjson.Valid(text), json.Valid(text); got != want {
			t.Fatalf("valid: %v, to encoding/json %v: %.80q", got, want, text)
		}
		var want map[string]json.RawMessage
		err := json.Unmarshal(text, &want)
		got, ok := rawjson.Members(text)
		if ok != (err == nil && want != nil) {
			t.Fatalf("an object: %v, to encoding/json %v: %.80q", ok, err, text)
		}
		if ok && !maps.EqualFunc(got, want, slices.Equal[json.RawMessage]) {
			t.Fatalf("%.80q: members %s, to encoding/json %s", text, got, want)
		}
	})
}

// A submission of ten megabytes.
func BenchmarkMembers(b *testing.B) {
	text := []byte(`{"input":{"image":"` + strings.Repeat("x", 10<<20) + `"},"webhook":"https://example.com"}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, ok := rawjson.Members(text); !ok {
			b.Fatal("no object")
		}
	}
}
