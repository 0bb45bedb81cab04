package report_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A report that can be read is written in every form, and its JSON is read back unchanged.
func FuzzRead(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text []byte) {
		r, err := report.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := report.WriteJSON(&first, r); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		reread, err := report.Read(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatalf("%q is written as %s, which can't be read: %v", text, first.Bytes(), err)
		}
		if err := report.WriteJSON(&second, reread); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%q is written as\n%s\nand then as\n%s, %v", text, first.Bytes(), second.Bytes(), err)
		}
		for _, form := range report.Forms {
			err := form.Write(io.Discard, r)
			must.Hold(t, err == nil, string(text), "in the form", form.Name, err)
		}
		clauses := map[string]bool{} // a report of the suite has each clause once
		for _, x := range r.Results {
			clauses[x.Clause] = true
		}
		d := report.Compare(r, reread)
		must.Hold(t, len(d.Changes) == 0 || len(clauses) != len(r.Results), string(text), "differs from itself", d.Changes)
	}, seeds(f)...)
}

func seeds(f *testing.F) []fuzz.Seed {
	f.Helper()
	text := must.Do(json.Marshal(map[string]any{
		"schema": report.Schema, "version": "1", "target": map[string]any{"base_url": "http://x"}, "started": "2026-01-01T00:00:00Z", "took_ms": 1.5, "seed": 1, "counts": map[string]int{"pass": 1, "fail": 1},
		"results": []any{map[string]any{"clause": "JOB-05", "verdict": "fail", "reason": "x"}, map[string]any{"clause": "JOB-17", "verdict": "pass"}}, "not_judged": []string{"JOB-01"}, "leaked": []string{"x"},
	}))(f)
	return []fuzz.Seed{{text}, {[]byte(`{"schema":"` + report.Schema + `"}`)}, {[]byte(`{"schema":"other"}`)}}
}
