package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Each part of a split value is a string within the limit, and the joined parts are the value
// or its JSON text.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.IntRange(14, 40).Draw(r, "limit") // two escapes and the quotes
		raw := json.RawMessage(rapid.SampledFrom([]string{
			`"` + strings.Repeat(`a`, 100) + `"`, `"` + strings.Repeat(`ü€𝄞`, 20) + `"`, `"` + strings.Repeat(`\ud834\uDD1E`, 20) + `"`,
			`"` + strings.Repeat(`\n\"\\\u00fcx`, 20) + `"`, `"\ud834` + strings.Repeat(`\u0041`, 20) + `"`,
			`{"a": [1, 2, {"b": "ü\n"}],` + "\n\t" + `"c": "` + strings.Repeat(`\"`, 30) + `"}`, `[` + strings.Repeat(`1.50, `, 30) + `null]`, `12345678901234567890123456789012345678901`,
		}).Draw(r, "value"))
		joined := ""
		for _, part := range split(raw, limit) {
			var text string
			if err := json.Unmarshal(part, &text); err != nil || len(part) > limit || !utf8.Valid(part) {
				r.Fatalf("part %s of %d bytes: %v", part, len(part), err)
			}
			joined += text
		}
		want := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &want); err != nil {
				r.Fatal(err)
			}
		}
		if joined != want {
			r.Fatalf("joined to %s, want %s", joined, want)
		}
	})
}

func TestSplitOnlyLargeValues(t *testing.T) {
	for _, n := range []int{2, 99, 100, 101, 198, 199} {
		value := []byte(`"` + strings.Repeat("x", n-2) + `"`)
		parts := split(value, 100)
		want := max(1, (n-2+97)/98)
		must.Hold(t, len(parts) == want && (want != 1 || string(parts[0]) == string(value)), n, "bytes make", len(parts), "parts, want", want)
	}
}

// A worker can't crash the jobrunner with invalid JSON.
func TestSplitOfInvalidJSON(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.SliceOfN(rapid.SampledFrom([]byte(`\u"dD8b{x`+"\xff\xc3\n")), 0, 200).Draw(r, "value")
		for _, part := range split(value, 16) {
			if len(part) > 16 {
				r.Fatalf("part of %d bytes", len(part))
			}
		}
	})
}

func TestChunks(t *testing.T) {
	for _, c := range []struct{ output, metrics, want string }{
		{`{"a": 1}`, ``, `{"output":{"a": 1}}`},
		{`"x"`, `{"pending":1}`, `{"output":"x","metrics":{"pending":1}}`},
		{``, ``, `{"output":null}`},
	} {
		got := chunks([]byte(c.output), []byte(c.metrics))
		must.Hold(t, len(got) == 1 && string(got[0]) == c.want, c.output, c.metrics, got)
	}
	got := chunks([]byte(`"`+strings.Repeat("x", MaxChunk-1)+`"`), []byte(`{"a":1}`))
	if len(got) != 2 || strings.Contains(string(got[0]), "metrics") || !strings.HasSuffix(string(got[1]), `,"metrics":{"a":1}}`) {
		t.Errorf("a value one byte above the limit makes %d chunks", len(got))
	}
}
