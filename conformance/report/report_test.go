package report_test

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// hostileText is a text that attacks the readers of a report. The answers in testdata/sample.json have it, too.
const hostileText = "</script></style>]]>\"'`<script>document.title='owned'</script><img src=\"http://127.0.0.2/x\" onerror=\"document.title='owned'\">{{.}}\x01\x1b[31m\u202e\u2028|*_[a](http://127.0.0.2)\n```\n# no"

// sample is a report with every verdict and every level, of a hostile target.
func sample() *report.Report {
	file, err := os.Open("testdata/sample.json")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	r, err := report.Read(file)
	if err != nil {
		panic(err)
	}
	return r
}

// render returns a report in a format, or as "terminal" shows it.
func render(name string, r *report.Report) string {
	if name == "terminal" {
		var b strings.Builder
		report.Terminal(&b, r, false)
		return b.String()
	}
	for _, f := range report.Formats {
		if f.Name == name {
			var b strings.Builder
			if err := f.Write(&b, r); err != nil {
				return "can't be written: " + err.Error()
			}
			return b.String()
		}
	}
	return "the format " + name + " doesn't exist"
}

// Every format shows the usage of reruns separately from the usage of the run.
func TestRerunsAreSeparate(t *testing.T) {
	r := sample()
	const reruns = "4 cases in 1.5s, 57 requests, 9 jobs"
	for name, want := range map[string]string{
		"terminal": "13510 requests, 308 jobs, 26h0m0s of the target's time; plus reruns of " + reruns,
		"markdown": "13510 requests, 308 jobs; plus reruns of " + reruns,
		"html":     "<dt>Reruns, not counted above</dt><dd>" + reruns,
		"junit":    `<property name="reruns" value="` + reruns,
	} {
		text := render(name, r)
		must.Hold(t, strings.Contains(text, want), name, "lacks", want, text)
	}
	var decoded struct {
		Reruns struct {
			Cases, Requests, Jobs int
			Took                  float64 `json:"took_ms"`
		}
	}
	err := json.Unmarshal([]byte(render("json", r)), &decoded)
	must.Hold(t, err == nil && decoded.Reruns.Cases == 4 && decoded.Reruns.Requests == 57 && decoded.Reruns.Jobs == 9 && decoded.Reruns.Took == 1500, "JSON has", decoded, err)
}

// The usages of the reruns of two runs can be added. Either may be nil.
func TestRerunsAddUp(t *testing.T) {
	some := &report.Usage{Cases: 1, Duration: report.Duration(time.Second), TargetTime: 1, Requests: 10, Jobs: 2}
	var none *report.Usage
	got := none.Add(some)
	must.Hold(t, *got == *some, "the sum is", got)
	got = some.Add(none)
	must.Hold(t, got == some, "the sum is", got)
	got = some.Add(some)
	must.Hold(t, got.Cases == 2 && got.Requests == 20 && got.Jobs == 4 && time.Duration(got.Duration) == 2*time.Second && got.TargetTime == 2, "the sum is", got)
	must.Hold(t, none.Add(nil) == nil, "the sum of no reruns isn't nil")
}

// The formats that show failures in full have the whole script of each and a link.
func TestFailuresCanBeRepeated(t *testing.T) {
	r := sample()
	for _, name := range []string{"terminal", "markdown", "html", "junit", "json"} {
		plain := strings.NewReplacer("&#34;", `"`, "&#39;", "'", `\"`, `"`, "&#xA;", "\n", `\n`, "\n", "&amp;", "&").Replace(render(name, r))
		for _, want := range []string{"ID=$(curl -sS -i https://gpus.example.com/v2/abc)", "sleep 9", `"Authorization: Bearer $GPUCLOUD_API_KEY"`, "https://repository.example.com/docs/reference/clauses.md#job-02"} {
			must.Hold(t, strings.Contains(plain, want), name, "lacks", want)
		}
	}
}

func keyPair(t *testing.T) (private, public []byte) {
	t.Helper()
	publicKey, privateKey, err := ed25519.GenerateKey(nil)
	must.Succeed(t, err)
	privateDER := must.Do(x509.MarshalPKCS8PrivateKey(privateKey))(t)
	publicDER := must.Do(x509.MarshalPKIXPublicKey(publicKey))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
}

// A signature is valid for one report and one key.
func TestSignature(t *testing.T) {
	private, public := keyPair(t)
	_, other := keyPair(t)
	text := []byte(render("json", sample()))
	signature := must.Do(report.Sign(text, private))(t)
	changed := []byte(strings.Replace(string(text), `"FAIL"`, `"PASS"`, 1))
	for name, c := range map[string]struct {
		text, signature, key []byte
		valid                bool
	}{
		"the report":       {text, signature, public, true},
		"a changed report": {changed, signature, public, false},
		"another key":      {text, signature, other, false},
		"no signature":     {text, nil, public, false},
		"no key":           {text, signature, []byte("key"), false},
		"the private key":  {text, signature, private, false},
	} {
		err := report.Verify(c.text, c.signature, c.key)
		must.Hold(t, (err == nil) == c.valid, name, "must be valid:", c.valid, err)
	}
	for _, key := range [][]byte{nil, public, []byte("key")} {
		must.Hold(t, must.Err(report.Sign(text, key)) != nil, "signed with", string(key))
	}
}

// A comparison has a column for each report, marks differences, and escapes texts of the target.
func TestComparison(t *testing.T) {
	first, other := sample(), sample()
	first.Implementation = &report.Implementation{Name: "one " + hostileText, Version: "3.4"}
	other.Results = other.Results[1:]
	other.Results[0].Verdict, other.Results[0].Failure = report.Pass, nil
	var b strings.Builder
	must.Succeed(t, report.WriteComparison(&b, []*report.Report{first, other}))
	page := b.String()
	must.Contain(t, page, "3.4", "gpus.example.com", "not in the report", "JOB-02", "FAIL", "PASS", "2026-03-04")
	n := strings.Count(page, `<tr class="differ">`)
	must.Hold(t, n == 2 && !strings.Contains(page, "<script>") && !strings.Contains(page, "<img"), n, "rows differ, or the page has markup of the target", page)
}

// CTRF counts each clause once.
func TestCTRF(t *testing.T) {
	r := sample()
	var got struct {
		ReportFormat string
		Results      struct {
			Summary map[string]int64
			Tests   []struct{ Name, Status string }
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(render("ctrf", r)), &got))
	s := got.Results.Summary
	must.Hold(t, got.ReportFormat == "CTRF" && len(got.Results.Tests) == len(r.Results) &&
		s["passed"]+s["failed"]+s["skipped"]+s["pending"]+s["other"] == s["tests"] && s["failed"] == 3 && s["stop"] > s["start"], got)
}

// A report that can be read is written in every format, and its JSON is read back unchanged.
func FuzzRead(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text []byte) {
		r, err := report.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		must.Succeed(t, report.WriteJSON(&first, r), string(text))
		reread, err := report.Read(bytes.NewReader(first.Bytes()))
		must.Require(t, err == nil, string(text), "is written as", &first, "which can't be read", err)
		if err := report.WriteJSON(&second, reread); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%q is written as\n%s\nand then as\n%s, %v", text, first.Bytes(), second.Bytes(), err)
		}
		for _, format := range report.Formats {
			must.Equal(t, format.Write(io.Discard, r), nil, string(text), "in the format", format.Name)
		}
		clauses := map[string]bool{} // only a report that repeats a clause, unlike the suite's, may differ from itself
		for _, x := range r.Results {
			clauses[x.Clause] = true
		}
		d := report.Compare(r, reread)
		must.Hold(t, len(d.Changes) == 0 || len(clauses) != len(r.Results), string(text), "differs from itself", d.Changes)
	}, fuzz.Seed{must.ReadFile(f, "testdata/sample.json")}, fuzz.Seed{[]byte(`{"schema":"` + report.Schema + `"}`)}, fuzz.Seed{[]byte(`{"schema":"other"}`)})
}

func reportOf(x *report.Result) *report.Report {
	r := &report.Report{Schema: report.Schema}
	if x != nil {
		x.Clause, x.Statement = "JOB-01", "It holds."
		x.Level = cmp.Or(x.Level, "MUST")
		r.Results = []report.Result{*x}
	}
	return r
}

// The direction of a change depends on the verdicts, on why a clause was skipped, and on what was observed.
func TestDirections(t *testing.T) {
	type x = report.Result
	mandatory := func(v report.Verdict) *x { return &x{Verdict: v} }
	should := func(v report.Verdict) *x { return &x{Verdict: v, Level: "SHOULD"} }
	skip := func(code string) *x { return &x{Verdict: report.Skip, Code: code} }
	const worse, better, other, same = report.Worse, report.Better, report.Other, report.Direction("same")
	for _, c := range []struct {
		before, after *x
		want          report.Direction
	}{
		{mandatory(report.Pass), mandatory(report.Pass), same},
		{mandatory(report.Pass), mandatory(report.Fail), worse},
		{mandatory(report.Fail), mandatory(report.Pass), better},
		{mandatory(report.Pass), mandatory(report.Known), worse},
		{mandatory(report.Fail), mandatory(report.Known), other},
		{mandatory(report.Known), mandatory(report.Unexpected), better},
		{mandatory(report.Pass), mandatory(report.Blocked), worse},
		{mandatory(report.Pass), mandatory(report.Inconclusive), worse},
		{mandatory(report.Pass), mandatory(report.Error), worse},
		{mandatory(report.Fail), mandatory(report.Blocked), other},
		{mandatory(report.Blocked), mandatory(report.Pass), better},
		{mandatory(report.Blocked), mandatory(report.Fail), worse},
		{mandatory(report.Blocked), mandatory(report.Inconclusive), other},
		{should(report.Pass), should(report.Warn), worse},
		{should(report.Warn), should(report.Known), other},
		{should(report.Warn), should(report.Pass), better},
		{mandatory(report.Pass), skip(report.SkipFeature), worse},
		{mandatory(report.Pass), skip(report.SkipUntestable), worse},
		{mandatory(report.Pass), skip(report.SkipAllow), other},
		{mandatory(report.Pass), skip(report.SkipBudget), other},
		{mandatory(report.Pass), skip(report.SkipDeferred), other},
		{skip(report.SkipFeature), mandatory(report.Pass), better},
		{skip(report.SkipFeature), mandatory(report.Fail), worse},
		{skip(report.SkipFeature), skip(report.SkipAllow), other},
		{mandatory(report.Pass), nil, other},
		{nil, mandatory(report.Fail), worse},
		{nil, mandatory(report.Pass), better},
		{nil, mandatory(report.Blocked), other},
		{&x{Verdict: report.Observed, Observed: "404"}, &x{Verdict: report.Observed, Observed: "204"}, other},
		{&x{Verdict: report.Observed, Observed: "404"}, &x{Verdict: report.Observed, Observed: "404"}, same},
		{&x{Verdict: report.Observed, Level: "UNSPEC"}, &x{Verdict: report.Warn, Level: "UNSPEC"}, worse},
	} {
		d := report.Compare(reportOf(c.before), reportOf(c.after))
		got := same
		if len(d.Changes) > 0 {
			got = d.Changes[0].Direction
		}
		must.Hold(t, got == c.want && d.GotWorse() == (c.want == worse) && len(d.Changes)+d.Same == 1, c.before, "then", c.after, "is", got, "not", c.want)
	}
}

// A gate fails if nothing is judged, or if a client fails in the scenario without faults, unless it did before.
func TestFailedRunIsWorse(t *testing.T) {
	works, fails := reportOf(nil), reportOf(nil)
	fails.OtherFailures = []string{"in the scenario works, it failed"}
	for _, failed := range []*report.Report{{Preflight: "unreachable"}, fails} {
		must.Hold(t, report.Compare(works, failed).GotWorse() && !report.Compare(failed, failed).GotWorse() && !report.Compare(failed, works).GotWorse(),
			"only a change to", failed, "must be worse")
	}
	var b strings.Builder
	err := report.WriteDiff(&b, report.Compare(works, fails), false)
	must.Hold(t, err == nil && strings.Contains(b.String(), "FAILED in the scenario works"), err, &b)
}

// The text has broken clauses before the clauses that they block, and other differences.
func TestDiffText(t *testing.T) {
	before, after := sample(), sample()
	after.Dialect = "live\x1b"
	set := func(r *report.Report, clause string, change func(*report.Result)) {
		for i := range r.Results {
			if r.Results[i].Clause == clause {
				change(&r.Results[i])
			}
		}
	}
	set(before, "JOB-06", func(x *report.Result) { x.Verdict = report.Pass })
	set(before, "JOB-02", func(x *report.Result) { x.Verdict = report.Pass })
	set(after, "JOB-03", func(x *report.Result) { x.Verdict = report.Pass })
	set(after, "JOB-04", func(x *report.Result) { x.Observed, x.Statement = "204", "\x1b[31m" })
	var b strings.Builder
	must.Succeed(t, report.WriteDiff(&b, report.Compare(before, after), false))
	offset := 0
	for _, want := range []string{
		"dialect: described, now live\\x1b", "WORSE JOB-02 MUST  PASS → FAIL  Statement JOB-02 holds.", "accepted: 200", "WORSE JOB-06 MUST  PASS → BLOCKED",
		"BETTER JOB-03 SHOULD  WARN → PASS", "OTHER JOB-04 UNSPEC  OBSERVED → OBSERVED", "now       204", "2 worse, 1 better, 1 otherwise changed, 7 as before",
	} {
		i := strings.Index(b.String()[offset:], want)
		must.Require(t, i >= 0, want, "is missing or not in order in", &b)
		offset += i
	}
	must.Hold(t, !strings.Contains(b.String(), "\x1b"), "the text has colours")
}

// A file that isn't a report is rejected.
func TestRead(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"schema": "gpucloud-conformance/99"}`, `{"schema": "` + report.Schema + `"} {}`} {
		r, err := report.Read(strings.NewReader(text))
		must.Hold(t, err != nil, text, "is", r)
	}
}
