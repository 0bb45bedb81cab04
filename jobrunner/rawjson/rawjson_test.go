package rawjson_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
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

// The package accepts exactly the texts that encoding/json accepts, and Fault finds a fault in all others. Count
// returns at least the number of a text's values, without the outermost value.
func FuzzLikeEncodingJSON(f *testing.F) {
	var seeds []fuzz.Seed
	for _, text := range texts {
		seeds = append(seeds, fuzz.Seed{[]byte(text)})
	}
	fuzz.Run(f, func(t *testing.T, text []byte) {
		if got, want := rawjson.Valid(text), json.Valid(text); got != want {
			t.Fatalf("%.80q is valid: %v, to encoding/json: %v", text, got, want)
		}
		var want map[string]json.RawMessage
		err := json.Unmarshal(text, &want)
		got, ok := rawjson.Members(text, slices.Collect(maps.Keys(want))...)
		if ok != (err == nil && want != nil) {
			t.Fatalf("%.80q is an object: %v; the error of encoding/json is %v", text, ok, err)
		}
		if ok && !maps.EqualFunc(got, want, slices.Equal[json.RawMessage]) {
			t.Fatalf("%.80q: members %s, to encoding/json %s", text, got, want)
		}
		if fault := rawjson.Fault(text); (fault == nil) != json.Valid(text) {
			t.Fatalf("%.80q: the fault is %v", text, fault)
		}
		var tree any
		if d := json.NewDecoder(bytes.NewReader(text)); json.Valid(text) {
			d.UseNumber()
			must.Succeed(t, d.Decode(&tree))
			if n := rawjson.Count(text, math.MaxInt); countValues(tree) > n+1 {
				t.Fatalf("%.80q has more than %d values", text, n+1)
			}
		}
	}, seeds...)
}

// countValues counts the values of a decoded tree. Of several members with the same name, the tree has the last.
func countValues(tree any) (n int) {
	switch tree := tree.(type) {
	case []any:
		for _, v := range tree {
			n += countValues(v)
		}
	case map[string]any:
		for _, v := range tree {
			n += countValues(v)
		}
	}
	return n + 1
}

// BenchmarkMembers reads the members of a submission of ten megabytes.
func BenchmarkMembers(b *testing.B) {
	text := []byte(`{"input":{"image":"` + strings.Repeat("x", 10<<20) + `"},"webhook":"https://example.com"}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, ok := rawjson.Members(text, "input", "webhook")
		must.Require(b, ok, "no object")
	}
}

// Members that aren't requested cost nothing.
func TestMembersCost(t *testing.T) {
	for name, member := range map[string]string{"distinct": `"k%d":1,`, "equal": `"k":1,`, "nested": `"k%d":{"a":[]},`} {
		var text strings.Builder
		text.WriteString(`{"input":{},`)
		for i := range 100_000 {
			text.WriteString(strings.Replace(member, "%d", strconv.Itoa(i), 1))
		}
		text.WriteString(`"webhook":"x"}`)
		body := []byte(text.String())
		allocations := testing.AllocsPerRun(1, func() {
			members, ok := rawjson.Members(body, "input", "webhook")
			must.Require(t, ok && string(members["input"]) == "{}" && string(members["webhook"]) == `"x"`, "the members are", members)
		})
		must.Hold(t, allocations <= 10, name, allocations, "allocations")
		n := rawjson.Count(body, 1<<30)
		must.Hold(t, n >= 100_000 && n <= 300_003, name, n, "values")
	}
	must.Equal(t, rawjson.Count([]byte(`["a,b,{", "c\",,,", {"d":[1,2]}]`), 1<<30), 6, "the number of values")
	must.Equal(t, rawjson.Count([]byte(strings.Repeat("[", 1000)), 10), 10, "the number of values, at most 10")
}
