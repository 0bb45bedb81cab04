package report_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// hostile is what a target may answer to whoever reads a report of it.
const hostile = "</script></style>]]>\"'`<script>document.title='owned'</script><img src=\"http://127.0.0.2/x\" onerror=\"document.title='owned'\">{{.}}\x01\x1b[31m\u2028|*_[a](http://127.0.0.2)\n```\n# no"

// sample has every verdict and every level, and a target that means ill.
func sample() *report.Report {
	start := time.Date(2026, 3, 4, 5, 6, 7, 890123456, time.UTC)
	r := &report.Report{
		Schema: report.Schema, Version: "1.2.3", Target: report.Target{BaseURL: "https://gpus.example.com"}, Started: start,
		Duration: report.Duration(12345 * time.Millisecond), TargetTime: report.Duration(26 * time.Hour), Dialect: "described", Seed: 42, Requests: 13510, Jobs: 308, Exit: 1,
		Reruns: &report.Reruns{Cases: 4, Duration: report.Duration(1500 * time.Millisecond), TargetTime: report.Duration(2 * time.Hour), Requests: 57, Jobs: 9},
		Notes:  []string{"the clock can't be advanced " + hostile}, Stale: []string{"JOB-08 is kept: take it out of the list"}, Leaked: []string{"networkvolumes/abc"},
	}
	trace := []report.Exchange{
		{
			At: report.Duration(time.Millisecond), Took: report.Duration(2500 * time.Microsecond), Method: "POST", URL: "https://gpus.example.com/v2/abc/run?webhook=a%20b&x",
			Sent: map[string][]string{"Authorization": {"Bearer $GPUCLOUD_API_KEY"}, "Content-Type": {"application/json"}}, Body: `{"input":{"op":"echo"}}`, BodySize: 23,
			Status: 200, Header: map[string][]string{"Content-Type": {"application/json"}}, Answer: `{"id":"j1","status":"RUNNING"}`, Size: 30, Started: start.Add(time.Second),
		},
		{Method: "GET", URL: "https://gpus.example.com/" + hostile, Answer: hostile, Header: map[string][]string{"X-" + hostile: {hostile}}, Status: 500, Started: start, Size: len(hostile)},
		{Method: "GET", URL: "https://gpus.example.com/none", Failed: "connection reset", Started: start.Add(2 * time.Second)},
	}
	for i, x := range []report.Result{
		{Verdict: report.Pass, Level: "MUST"},
		{Verdict: report.Fail, Level: "MUST", Repeats: "3/3"},
		{Verdict: report.Warn, Level: "SHOULD"},
		{Verdict: report.Observed, Level: "UNSPEC", Observed: "404 " + hostile},
		{Verdict: report.Skip, Level: "MUST", Code: report.SkipFeature, Reason: "there is no endpoint"},
		{Verdict: report.Blocked, Level: "MUST", By: "JOB-02", Reason: "status 500"},
		{Verdict: report.Inconclusive, Level: "MUST", Reason: "it failed once and then did not"},
		{Verdict: report.Unexpected, Level: "MUST", Reason: "listed, and kept"},
		{Verdict: report.Error, Level: "MUST", Reason: "panic: " + hostile},
		{Verdict: report.Known, Level: "MAY", Reason: "known until 2999-01-01: " + hostile},
	} {
		x.Area, x.Clause, x.Source = "JOB", fmt.Sprintf("JOB-%02d", i+1), "States and transitions, POST /run"
		x.Case, x.Duration, x.Requests = x.Clause, report.Duration(time.Duration(i)*time.Millisecond), 2
		x.Statement = "Statement " + x.Clause + " holds."
		x.Link = "https://repository.example.com/docs/reference/clauses.md#" + strings.ToLower(x.Clause)
		switch x.Verdict {
		case report.Fail, report.Warn, report.Blocked, report.Inconclusive, report.Known:
			x.Failure = &report.Failure{
				Steps: "POST /v2/abc/run", Statement: x.Statement + " (" + x.Source + ")", Accepted: []string{"200", "201 " + hostile}, Actual: "500 " + hostile,
				Curl: "ID=$(curl -sS -i https://gpus.example.com/v2/abc)\nsleep 9\n" + `curl -sS -i -H "Authorization: Bearer $GPUCLOUD_API_KEY" 'https://gpus.example.com/v2/abc/run'`,
			}
			x.Trace = trace
		}
		r.Results = append(r.Results, x)
	}
	r.Results = append(r.Results, report.Result{
		Area: "T", Clause: "T-01", Level: "SHOULD", Source: "Template, id", Statement: "A template has an id.", Verdict: report.Pass, Case: "T-01",
	})
	r.Count()
	return r
}

// written is a report in a form.
func written(name string, r *report.Report) string {
	for _, f := range report.Forms {
		if f.Name == name {
			var b strings.Builder
			if err := f.Write(&b, r); err != nil {
				return "can't be written: " + err.Error()
			}
			return b.String()
		}
	}
	return "there is no form " + name
}
