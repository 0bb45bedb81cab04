package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// element is any element of an XML document.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// junitElements are the attributes and children that CI servers' schema allows. A required attribute ends with !.
var junitElements = map[string]struct{ attrs, children string }{
	"testsuites": {"name time tests failures errors", "testsuite"},
	"testsuite":  {"name! tests! failures! errors! group time skipped timestamp hostname id package file log url", "testsuite properties testcase system-out system-err"},
	"properties": {"", "property"},
	"property":   {"name! value!", ""},
	"testcase":   {"name! time classname group", "skipped error failure system-out system-err"},
	"failure":    {"type message", ""},
	"error":      {"type message", ""},
	"skipped":    {"type message", ""},
	"system-out": {"", ""},
}

var junitTime = regexp.MustCompile(`^\d{1,3}(\.\d*)?$`)

// checkSchema checks an element against junitElements.
func (e element) checkSchema(t *testing.T) {
	t.Helper()
	rule, ok := junitElements[e.XMLName.Local]
	must.Hold(t, ok, "the schema has no element", e.XMLName.Local)
	allowed := strings.Fields(rule.attrs)
	for _, a := range e.Attrs {
		must.Hold(t, slices.Contains(allowed, a.Name.Local) || slices.Contains(allowed, a.Name.Local+"!"), e.XMLName.Local, "has no attribute", a.Name.Local)
		must.Hold(t, a.Name.Local != "time" || junitTime.MatchString(a.Value), "the time", a.Value)
	}
	for _, name := range allowed {
		if required, ok := strings.CutSuffix(name, "!"); ok && !slices.ContainsFunc(e.Attrs, func(a xml.Attr) bool { return a.Name.Local == required }) {
			t.Errorf("%s lacks %s", e.XMLName.Local, required)
		}
	}
	for _, c := range e.Children {
		must.Hold(t, slices.Contains(strings.Fields(rule.children), c.XMLName.Local), e.XMLName.Local, "can't contain", c.XMLName.Local)
		c.checkSchema(t)
	}
}

// CI servers show the same counts as the terminal, and texts of the target are escaped.
func TestJUnit(t *testing.T) {
	r := sample()
	var root element
	must.Succeed(t, xml.Unmarshal([]byte(render("junit", r)), &root))
	root.checkSchema(t)
	sums, cases := map[string]int{}, map[string]element{}
	for _, suite := range root.Children {
		counts := map[string]int{}
		for _, c := range suite.Children {
			if c.XMLName.Local != "testcase" {
				continue
			}
			must.Equal(t, c.attr("classname"), suite.attr("name"), "the classname of a test case in the suite")
			counts["tests"]++
			for _, x := range c.Children {
				counts[map[string]string{"failure": "failures", "error": "errors", "skipped": "skipped"}[x.XMLName.Local]]++
			}
			id, _, _ := strings.Cut(c.attr("name"), ":")
			cases[id] = c
		}
		for _, name := range []string{"tests", "failures", "errors", "skipped"} {
			must.Equal(t, suite.attr(name), strconv.Itoa(counts[name]), suite.attr("name"), "has", counts[name], name, "but its attribute is")
			if suite.attr("name") != "run" {
				sums[name] += counts[name]
			}
		}
	}
	n := r.Counts
	want := map[string]int{
		"tests": len(r.Results), "failures": n[report.Fail] + n[report.Unexpected], "errors": n[report.Error] + n[report.Inconclusive],
		"skipped": n[report.Skip] + n[report.Blocked] + n[report.Known],
	}
	must.Equal(t, sums, want, "the suites", "the report")
	for id, child := range map[string]string{
		"JOB-01": "", "JOB-02": "failure", "JOB-03": "system-out", "JOB-04": "system-out", "JOB-05": "skipped", "JOB-06": "skipped", "JOB-07": "error",
		"JOB-08": "failure", "JOB-09": "error", "JOB-10": "skipped", "the list of known deviations is up to date": "failure", "all objects of the suite are deleted": "error",
	} {
		got := ""
		if c := cases[id]; len(c.Children) > 0 {
			got = c.Children[0].XMLName.Local
		}
		must.Equal(t, got, child, id)
	}
	fail := cases["JOB-02"].Children[0]
	must.Hold(t, strings.Contains(fail.Text, "curl -sS -i") && strings.Contains(fail.Text, "States and transitions, POST /run") &&
		fail.attr("type") == "FAIL" && strings.Contains(fail.attr("message"), "accepted: 200"), "the failure is", fail)
	c := cases["JOB-02"]
	must.Hold(t, c.attr("classname") == "JOB" && c.attr("name") == "JOB-02: Statement JOB-02 holds." && c.attr("time") == "0.001", "the case is", c.Attrs)
}

// An archive has the elements that version 1.2 requires, and only clauses that deviate or have no verdict.
func TestHAR(t *testing.T) {
	type pair struct{ Name, Value *string }
	var har struct {
		Log *struct {
			Version string
			Creator *struct{ Name, Version *string }
			Pages   []struct {
				StartedDateTime time.Time
				ID, Title       string
				PageTimings     *struct{}
			}
			Entries []struct {
				Pageref         string
				StartedDateTime time.Time
				Time            *float64
				Request         *struct {
					Method, URL, HTTPVersion string
					Cookies, Headers         []pair
					QueryString              []pair
					HeadersSize, BodySize    *int
					PostData                 *struct{ MimeType, Text *string }
				}
				Response *struct {
					Status           int
					StatusText       *string
					HTTPVersion      string
					Cookies, Headers []pair
					Content          *struct {
						Size           *int
						MimeType, Text *string
					}
					RedirectURL           *string
					HeadersSize, BodySize *int
				}
				Cache   *struct{}
				Timings *struct{ Send, Wait, Receive *float64 }
				Comment string
			}
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(render("har", sample())), &har))
	log := har.Log
	must.Require(t, log != nil && log.Version == "1.2" && log.Creator != nil && log.Creator.Name != nil && log.Creator.Version != nil,
		"the log is", log)
	pages := map[string]int{}
	for _, p := range log.Pages {
		pages[p.ID] = 0
		must.Hold(t, p.PageTimings != nil && !p.StartedDateTime.IsZero() && p.Title != "", "the page", p)
	}
	var last time.Time
	comments := 0
	for _, e := range log.Entries {
		pages[e.Pageref]++
		q, s := e.Request, e.Response
		if e.Time == nil || q == nil || s == nil || e.Cache == nil || e.Timings == nil || e.Timings.Send == nil || e.Timings.Wait == nil || e.Timings.Receive == nil ||
			q.Cookies == nil || q.Headers == nil || q.QueryString == nil || q.HeadersSize == nil || q.BodySize == nil || q.HTTPVersion == "" ||
			s.Cookies == nil || s.Headers == nil || s.Content == nil || s.Content.Size == nil || s.Content.MimeType == nil || s.StatusText == nil ||
			s.RedirectURL == nil || s.HeadersSize == nil || s.BodySize == nil || s.HTTPVersion == "" {
			t.Fatalf("an entry lacks something: %+v", e)
		}
		must.Hold(t, *e.Timings.Send+*e.Timings.Wait+*e.Timings.Receive == *e.Time, "the times", *e.Timings.Wait, "are not", *e.Time)
		must.Hold(t, !e.StartedDateTime.Before(last), "the entries are not in the order of time")
		last = e.StartedDateTime
		if e.Comment != "" {
			comments++
		}
		must.Hold(t, q.PostData == nil || *q.PostData.MimeType == "application/json" &&
			fmt.Sprint(*q.QueryString[0].Name, "=", *q.QueryString[0].Value) == "webhook=a b", "the request is", q)
	}
	want := map[string]int{"JOB-02": 3, "JOB-03": 3, "JOB-07": 3, "JOB-10": 3}
	must.Hold(t, maps.Equal(pages, want) && comments == 4, "the pages have", pages, "entries, not", want, comments, "comments")
}

// A badge claims no more than the report.
func TestBadge(t *testing.T) {
	results := func(verdicts ...report.Verdict) *report.Report {
		r := &report.Report{}
		for _, v := range verdicts {
			r.Results = append(r.Results, report.Result{Level: "MUST", Verdict: v})
		}
		r.Results = append(r.Results, report.Result{Level: "SHOULD", Verdict: report.Warn})
		r.SetCounts()
		return r
	}
	withExit := func(exit int, r *report.Report) *report.Report { r.Exit = exit; return r }
	for _, c := range []struct {
		r               *report.Report
		message, colour string
		inSVG           string
	}{
		{withExit(0, results(report.Pass, report.Pass)), "2 of 2 MUST", "brightgreen", "#1a7f37"},
		{withExit(0, results(report.Pass, report.Skip, report.Known)), "1 of 3 MUST", "brightgreen", "#1a7f37"},
		{withExit(1, results(report.Pass, report.Fail, report.Inconclusive)), "1 MUST broken", "red", "#c5281c"},
		{withExit(1, results(report.Pass, report.Unexpected)), "the list of known deviations is stale", "red", "#c5281c"},
		{withExit(3, results(report.Pass, report.Inconclusive)), "inconclusive", "yellow", "#8a6100"},
		{withExit(0, results(report.Skip, report.Skip)), "not judged", "lightgrey", "#6b7280"},
		{&report.Report{Preflight: "unreachable", Exit: 3}, "not judged", "lightgrey", "#6b7280"},
	} {
		var shield struct {
			SchemaVersion         int
			Label, Message, Color string
			IsError               bool
		}
		must.Succeed(t, json.Unmarshal([]byte(render("shield", c.r)), &shield))
		must.Hold(t, shield.SchemaVersion == 1 && shield.Label == "conformance" && shield.Message == c.message && shield.Color == c.colour &&
			shield.IsError == (c.r.Exit != 0), "with the verdicts", c.r.Counts, "the badge is", shield, "not", c.message)
		svg := render("badge", c.r)
		var root element
		err := xml.Unmarshal([]byte(svg), &root)
		must.Hold(t, err == nil && root.attr("aria-label") == "conformance: "+c.message && strings.Contains(svg, c.inSVG), "expected an SVG with", c.message, c.inSVG, "got", svg, err)
	}
}

// A summary shows the broken clauses, escapes texts of the target, and isn't larger than CI servers accept.
func TestMarkdown(t *testing.T) {
	r := sample()
	text := render("markdown", r)
	must.Contain(t, text, "❌ Conformance: not conformant", "| MUST | 1 | 1 | 1 | 1 |", `<b>FAIL</b> <a href="https://repository.example.com/docs/reference/clauses.md#job-02">JOB-02</a> (MUST): Statement JOB-02 holds.`, "networkvolumes/abc", "curl -sS -i", "- JOB-06 (MUST), by JOB-02")
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch mark := strings.TrimRight(line, "tex"); {
		case fence == "" && strings.HasPrefix(mark, "```"):
			fence = mark
		case line == fence:
			fence = ""
		case fence == "" && (strings.Contains(line, "<script") || strings.Contains(line, "<img") || strings.Contains(line, "](") || strings.HasPrefix(line, "# ")):
			t.Errorf("the target's markup isn't escaped: %s", line)
		}
	}
	must.Equal(t, fence, "", "a block of code does not end", text)
	for range 3000 {
		x := r.Results[1]
		x.Failure = &report.Failure{Actual: strings.Repeat("é`", 20000)}
		r.Results = append(r.Results, x)
	}
	r.SetCounts()
	text = render("markdown", r)
	must.Hold(t, len(text) <= 1<<20 && strings.Contains(text, "… and "), "a summary of", len(text), "bytes")
	text = render("markdown", &report.Report{Dialect: "described"}) // a client's report has no seed
	must.Hold(t, strings.Contains(text, "dialect described.") && !strings.Contains(text, "seed"), "a summary without a seed:", text)
}

// Every format names the clauses that are not or partly judged, with the reasons. A badge only counts them.
func TestPartlyJudged(t *testing.T) {
	omissions := []report.Omission{{"JOB-01-load", report.SkipAllow, "it would send many requests"}, {"JOB-01-load-again", report.SkipAllow, "it would send many requests"}}
	r := &report.Report{Results: []report.Result{
		{Clause: "JOB-01", Area: "JOB", Level: "MUST", Verdict: report.Pass, LeftOut: omissions},
		{Clause: "JOB-02", Area: "JOB", Level: "MUST", Verdict: report.Pass},
		{Clause: "JOB-03", Area: "JOB", Level: "MUST", Verdict: report.Skip, Code: report.SkipAllow, Reason: "not allowed", LeftOut: omissions},
	}}
	r.SetCounts()
	must.Equal(t, r.PartlyJudged, []string{"JOB-01"}, "partly judged")
	for _, f := range report.Formats {
		text := render(f.Name, r)
		want := []string{"it would send many requests", "JOB-01", "partly", "not allowed", "JOB-03"}
		if f.Name == "badge" || f.Name == "shield" {
			want = []string{"1 of 3 MUST, 1 partly"}
		}
		for _, w := range want {
			must.Hold(t, strings.Contains(text, w), f.Name, "lacks", w, text)
		}
	}
	withoutOmissions := *r
	withoutOmissions.Results = []report.Result{{Clause: "JOB-01", Area: "JOB", Level: "MUST", Verdict: report.Pass}}
	withoutOmissions.SetCounts()
	d := report.Compare(&withoutOmissions, r)
	must.Hold(t, len(d.Changes) == 3, "the changes are", d.Changes)
}

// Errors of writing are returned.
func TestFullDisk(t *testing.T) {
	for _, f := range report.Formats {
		must.ErrorIs(t, f.Write(fullDisk{}, sample()), errFull, f.Name)
	}
	must.ErrorIs(t, report.WriteDiff(fullDisk{}, report.Compare(sample(), sample()), false), errFull, "diff")
}

var errFull = errors.New("no space is left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// If the exit code isn't 0, a CI server shows a failure, even if no clause has failed.
func TestJUnitOfTheRun(t *testing.T) {
	type counts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	skipped := []report.Result{{Clause: "CLI-03", Area: "CLI", Verdict: report.Skip, Reason: "no webhook"}}
	for _, c := range []struct {
		r    report.Report
		want counts
	}{
		{report.Report{Results: []report.Result{{Clause: "CLI-01", Area: "CLI", Verdict: report.Pass}}}, counts{1, 0, 0}},
		{report.Report{Results: skipped, Exit: 3}, counts{2, 0, 1}},
		{report.Report{Preflight: "unreachable", Exit: 3}, counts{1, 0, 1}},
		{report.Report{Results: []report.Result{{Clause: "CLI-01", Area: "CLI", Verdict: report.Pass}}, Exit: 1, OtherFailures: []string{"it\nfailed"}}, counts{2, 1, 0}},
	} {
		c.r.SetCounts()
		var got counts
		err := xml.Unmarshal([]byte(render("junit", &c.r)), &got)
		must.Hold(t, err == nil && got == c.want, "the counts are", got, "not", c.want, err)
	}
}

// The page says why nothing could be judged.
func TestPreflightPage(t *testing.T) {
	r := &report.Report{Schema: report.Schema, Preflight: "unreachable: GET http://127.0.0.1:1/: connection refused", Exit: 3}
	text := render("html", r)
	must.Contain(t, text, "Nothing could be judged", "connection refused")
}

// The page shows the status of an answer whose body was cut off.
func TestPageOfCutAnswer(t *testing.T) {
	text := render("html", &report.Report{Results: []report.Result{{Trace: []report.Exchange{{Status: 207, Error: "unexpected EOF"}}}}})
	must.Hold(t, strings.Contains(text, `s2">207<`) && !strings.Contains(text, "no answer"), "expected the status 207, got", text)
}

// Every area of the registry has a title.
func TestAreas(t *testing.T) {
	for _, c := range clauses.All() {
		r := &report.Report{Results: []report.Result{{Clause: c.ID, Area: c.Area(), Level: string(c.Level), Verdict: report.Pass}}}
		must.Require(t, !strings.Contains(render("html", r), "<h2>"+c.Area()+" "),
			"the area", c.Area(), "has no title in report/report.go")
	}
}

// Answers can't move the terminal's cursor or command a CI server.
func TestTerminalIsHarmless(t *testing.T) {
	must.Contain(t, report.Text(report.Result{Reason: "\n ::error::x ##[error] ##vso[y] a::b"}), ` :\:error::x #\#[error] #\#vso[y] a::b`)
	text := render("terminal", sample())
	must.Hold(t, !strings.ContainsAny(text, "\x1b\x01\u202e") && strings.Contains(text, `\x1b[31m`), "the terminal is sent", text)
	junit := render("junit", &report.Report{Preflight: "::error::x", Leaked: []string{"##[error]"}, Stale: []string{"\u202e"}})
	must.Hold(t, !strings.Contains(junit, "::error") && !strings.ContainsAny(junit, "\u202e") && !strings.Contains(junit, "##["), "JUnit has", junit)
}

// A conclusion claims no more than the results show.
func TestConclusion(t *testing.T) {
	for want, c := range map[string]struct {
		exit     int
		failed   []string
		verdicts []report.Verdict
	}{
		"conformant": {0, nil, []report.Verdict{report.Pass, report.Observed}},
		"conformant in the judged clauses: 1 of 3 clauses":                               {0, nil, []report.Verdict{report.Pass, report.Skip, report.Blocked}},
		"conformant except for known deviations (1); 1 SHOULD or MAY clause is not kept": {0, nil, []report.Verdict{report.Pass, report.Known, report.Warn}},
		"not conformant": {1, []string{"it failed"}, []report.Verdict{report.Pass, report.Fail}},
		"not conformant: the client fails even when no fault is injected": {1, []string{"it failed"}, []report.Verdict{report.Pass}},
		"the list of known deviations is stale":                           {1, nil, []report.Verdict{report.Unexpected}},
		"inconclusive":                                                    {3, nil, []report.Verdict{report.Pass, report.Inconclusive}},
		"inconclusive: nothing was judged":                                {3, nil, []report.Verdict{report.Skip, report.Inconclusive}},
		"an object of the suite was not deleted: run conformance sweep":   {4, nil, []report.Verdict{report.Pass}},
		"interrupted": {130, nil, []report.Verdict{report.Pass}},
	} {
		r := &report.Report{Exit: c.exit, OtherFailures: c.failed}
		for _, v := range c.verdicts {
			r.Results = append(r.Results, report.Result{Verdict: v, Reason: "the reason"})
		}
		r.SetCounts()
		lines := strings.Split(strings.TrimSpace(render("terminal", r)), "\n")
		must.Hold(t, lines[len(lines)-1] == want, c.verdicts, "with exit code", c.exit, "ends with", lines[len(lines)-1], "not", want)
	}
}
