package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The elements and attributes that every reader supports. Some readers reject a file with others.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`

		took time.Duration
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string     `xml:"name,attr"`
		Classname string     `xml:"classname,attr"`
		Time      string     `xml:"time,attr"`
		Failure   *junitText `xml:"failure"`
		Error     *junitText `xml:"error"`
		Skipped   *junitText `xml:"skipped"`
		Out       string     `xml:"system-out,omitempty"`
	}
	junitText struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// junitRun is the suite of problems that belong to no clause.
const junitRun = "run"

// writeJUnit writes the report for CI servers. An area is a suite, and a clause a test.
// FAIL and UNEXPECTED-PASS are failures. ERROR and INCONCLUSIVE are errors, since they also
// set the exit code. SKIP, BLOCKED and KNOWN are skipped. Other reasons for an exit code
// are tests of the suite "run".
func writeJUnit(w io.Writer, r *Report) error {
	all := junitSuites{Name: "conformance", Time: seconds(time.Duration(r.Duration))}
	index := map[string]int{}
	add := func(area string, c junitCase, took time.Duration) {
		i, ok := index[area]
		if !ok {
			i = len(all.Suites)
			index[area] = i
			all.Suites = append(all.Suites, junitSuite{Name: area, Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"), Properties: junitProperties(r)})
		}
		c.Classname, c.Time = area, seconds(took)
		s := &all.Suites[i]
		s.Cases, s.took, s.Tests = append(s.Cases, c), s.took+took, s.Tests+1
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	if r.Preflight != "" {
		add(junitRun, junitCase{Name: "the target can be judged", Error: &junitText{Type: "preflight", Message: Printable(r.Preflight)}}, 0)
	}
	for _, text := range r.OtherFailures {
		add(junitRun, junitCase{Name: "the client works without faults", Failure: &junitText{Type: "failed", Message: truncate(Printable(text), 400), Text: Printable(text)}}, 0)
	}
	if r.Preflight == "" && r.Judged() == 0 {
		add(junitRun, junitCase{Name: "something is judged", Error: &junitText{Type: "not judged", Message: "no clause was judged"}}, 0)
	}
	for _, text := range r.Stale {
		add(junitRun, junitCase{Name: "the list of known deviations is up to date", Failure: &junitText{Type: "stale", Message: Printable(text)}}, 0)
	}
	for _, text := range r.Leaked {
		add(junitRun, junitCase{Name: "all objects of the suite are deleted: " + Printable(text), Error: &junitText{Type: "left", Message: "not deleted: " + Printable(text) + "; run conformance sweep"}}, 0)
	}
	for _, x := range r.Results {
		add(x.Area, junitOf(x), time.Duration(x.Duration))
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		s.Time = seconds(s.took)
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func junitOf(x Result) junitCase {
	c := junitCase{Name: x.Clause + ": " + x.Statement}
	describe := func() *junitText { return &junitText{Type: string(x.Verdict), Message: oneLine(x), Text: Text(x)} }
	switch x.Verdict {
	case Fail, Unexpected:
		c.Failure = describe()
	case Error, Inconclusive:
		c.Error = describe()
	case Skip, Blocked, Known:
		c.Skipped = describe()
		c.Skipped.Text = ""
		if x.Verdict == Known {
			c.Out = Text(x)
		}
	case Warn, Observed:
		c.Out = Text(x)
	case Pass:
		if x.partlyJudged() {
			c.Out = "partly judged; left out: " + Printable(x.partsLeftOut())
		}
	}
	return c
}

// junitProperties describe the run, so that it can be repeated.
func junitProperties(r *Report) []junitProperty {
	all := []junitProperty{
		{"requests", fmt.Sprint(r.Requests)}, {"jobs", fmt.Sprint(r.Jobs)}, {"reruns", r.Reruns.String()},
		{"target", r.Target.Address()}, {"dialect", r.Dialect}, {"seed", r.seed()}, {"version", r.Version},
		{"implementation", implementationText(r.Implementation)}, {"documents", r.documents()},
		{"partly judged", strings.Join(r.PartlyJudged, " ")},
	}
	return slices.DeleteFunc(all, func(p junitProperty) bool { return p.Value == "" })
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func oneLine(x Result) string {
	text := x.Reason
	switch {
	case x.Verdict == Observed && x.Observed != "":
		text = x.Observed
	case x.Verdict == Skip && x.Code != "":
		text = x.Code + ": " + x.Reason
	case x.Verdict == Blocked && x.BlockedBy != "":
		text = "by " + x.BlockedBy + ": " + x.Reason
	case x.Verdict == Unexpected && text == "":
		text = "the deployment conforms to the clause, which is listed as a known deviation"
	case x.Failure != nil && x.Verdict != Known && x.Verdict != Unexpected:
		text = x.Failure.Actual
		if len(x.Failure.Accepted) > 0 {
			text = "accepted: " + strings.Join(x.Failure.Accepted, ", or ") + "; got: " + text
		}
	}
	return truncate(Printable(strings.Join(strings.Fields(text), " ")), 400)
}

// truncate shortens a text to n runes.
func truncate(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}
