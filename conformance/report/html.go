package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

var (
	//go:embed assets/report.html
	pageText string
	//go:embed assets/report.css
	pageStyle string
	//go:embed assets/report.js
	pageScript string
)

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"slug": verdictClass, "brief": oneLine, "message": formatMessage, "span": formatDuration, "join": func(list []string) string { return strings.Join(list, ", or ") },
	"count": groupDigits, "leftout": func(x Result) string { return stripControls(x.partsLeftOut()) },
}).Parse(pageText))

// page is the data of the template.
type page struct {
	*Report
	Style  template.CSS
	Script template.JS
	// Policy is the content security policy. It allows only the page's own style and
	// script, and no requests.
	Policy   string
	Tone     string
	Headline string
	Summary  string
	When     string
	Facts    [][2]string
	Chips    []pageChip
	Levels   []pageLevel
	Areas    []pageArea
	Alerts   []Result
}

type pageChip struct {
	Verdict Verdict
	Count   int
	Means   string
}

// pageLevel is a bar of the verdicts of one level, 1000 units wide.
type pageLevel struct {
	Sum
	Parts []pagePart
	Words string
}

type pagePart struct {
	Verdict  Verdict
	Count    int
	X, Width float64
}

type pageArea struct {
	ID, Title string
	Broken    int
	Results   []Result
}

// verdictMeanings explains the verdicts on the page.
var verdictMeanings = map[Verdict]string{
	Fail: "a MUST that is not kept", Unexpected: "kept, and listed as a known deviation", Error: "the suite itself failed",
	Inconclusive: "not enough evidence: time or network", Warn: "a SHOULD or a MAY that is not kept", Known: "a known deviation",
	Blocked: "blocked by a clause that failed", Observed: "the description leaves it open", Skip: "not judged", Pass: "kept",
}

// WriteHTML writes the report as one self-contained page.
func WriteHTML(w io.Writer, r *Report) error {
	p := page{
		Report: r, Style: template.CSS(pageStyle), Script: template.JS(pageScript),
		Policy: fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'", contentHash(pageStyle), contentHash(pageScript)),
		Tone:   verdictTone(r), Headline: capitalize(conclusion(r)), Summary: summary(r),
		When: r.Started.UTC().Format("2 January 2006, 15:04 UTC"), Facts: runFacts(r),
	}
	if r.Preflight != "" {
		p.Headline = "Nothing could be judged"
	}
	for _, v := range Verdicts {
		if n := r.Counts[v]; n > 0 {
			p.Chips = append(p.Chips, pageChip{v, n, verdictMeanings[v]})
		}
	}
	for _, x := range r.Attention() {
		if x.Verdict != Blocked { // the clause that blocks it is here
			p.Alerts = append(p.Alerts, x)
		}
	}
	for _, s := range r.Sums() {
		p.Levels = append(p.Levels, levelOf(s))
	}
	for _, x := range r.Results {
		i := slices.IndexFunc(p.Areas, func(a pageArea) bool { return a.ID == x.Area })
		if i < 0 {
			i = len(p.Areas)
			p.Areas = append(p.Areas, pageArea{ID: x.Area, Title: areaTitle(x.Area)})
		}
		p.Areas[i].Results = append(p.Areas[i].Results, x)
		if x.Verdict == Fail || x.Verdict == Warn {
			p.Areas[i].Broken++
		}
	}
	return pageTemplate.Execute(w, p)
}

func contentHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// verdictTone returns good, bad or unsure.
func verdictTone(r *Report) string {
	return cmp.Or(map[int]string{0: "good", 1: "bad"}[r.Exit], "unsure")
}

// summary returns the verdict as a sentence.
func summary(r *Report) string {
	if r.Preflight != "" {
		return r.Preflight
	}
	var parts []string
	for _, x := range []struct {
		n        int
		singular string
		plural   string
	}{
		{r.Counts[Fail], "1 MUST clause is broken", "%d MUST clauses are broken"},
		{r.Counts[Warn], "1 weaker clause is not kept", "%d weaker clauses are not kept"},
		{r.Counts[Known], "1 is a known deviation", "%d are known deviations"},
		{r.Counts[Unexpected], "1 is kept although it is a listed deviation", "%d are kept although they are listed deviations"},
		{r.Counts[Inconclusive] + r.Counts[Error], "1 is inconclusive", "%d are inconclusive"},
		{r.Counts[Blocked], "1 is blocked by a clause that failed", "%d are blocked by clauses that failed"},
		{r.Counts[Observed], "1 is observed", "%d are observed"},
		{r.Counts[Skip], "1 was not judged", "%d were not judged"},
		{len(r.PartlyJudged), "1 was partly judged", "%d were partly judged"},
	} {
		switch {
		case x.n == 1:
			parts = append(parts, x.singular)
		case x.n > 1:
			parts = append(parts, fmt.Sprintf(x.plural, x.n))
		}
	}
	kept := fmt.Sprintf("%d of %d clauses kept", r.Counts[Pass], len(r.Results))
	return capitalize(strings.Join(append([]string{kept}, parts...), "; ")) + "."
}

func runFacts(r *Report) [][2]string {
	passed := ""
	if time.Duration(r.TargetTime) > time.Duration(r.Duration)+time.Minute {
		passed = time.Duration(r.TargetTime).Round(time.Second).String()
	}
	seed := ""
	if r.Seed != 0 {
		seed = fmt.Sprint(r.Seed)
	}
	facts := [][2]string{
		{"Took", time.Duration(r.Duration).Round(time.Millisecond).String()},
		{"Time of the target", passed},
		{"Requests", groupDigits(int(r.Requests))},
		{"Jobs", groupDigits(int(r.Jobs))},
		{"Reruns, beside that", r.Reruns.String()},
		{"Dialect", r.Dialect},
		{"Endpoint", r.Target.Endpoint},
		{"Seed", seed},
		{"Suite", r.Version},
		{"Documents", r.documents()},
		{"Implementation", implementationText(r.Implementation)},
	}
	return slices.DeleteFunc(facts, func(f [2]string) bool { return f[1] == "" })
}

// documents lists the documents that the clauses come from, with their dates.
func (r *Report) documents() string {
	var list []string
	for _, d := range r.Documents {
		text := strings.TrimSpace(d.Name + " " + d.Version)
		if d.Date != "" {
			text += " of " + d.Date
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func implementationText(i *Implementation) string {
	if i == nil {
		return ""
	}
	return strings.Join(strings.Fields(i.Name+" "+i.Version+" "+i.Contact), " ")
}

func levelOf(s Sum) pageLevel {
	l := pageLevel{Sum: s}
	var words []string
	x := 0.0
	for _, v := range slices.Backward(Verdicts) { // passed ones first
		n := s.Counts[v]
		if n == 0 {
			continue
		}
		width := 1000 * float64(n) / float64(s.Total)
		l.Parts = append(l.Parts, pagePart{v, n, x, width})
		x += width
		words = append(words, fmt.Sprintf("%d %s", n, v))
	}
	l.Words = strings.Join(words, ", ")
	return l
}

// verdictClass returns the CSS class of a verdict.
func verdictClass(v Verdict) string { return strings.ToLower(string(v)) }

func capitalize(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// groupDigits separates groups of three digits.
func groupDigits(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func formatDuration(d Duration) string {
	t := time.Duration(d)
	switch {
	case t == 0:
		return "0ms"
	case t >= 10*time.Second:
		return t.Round(100 * time.Millisecond).String()
	case t >= 10*time.Millisecond:
		return t.Round(time.Millisecond).String()
	}
	return t.Round(10 * time.Microsecond).String()
}

// indentJSON indents JSON and returns other texts unchanged.
func indentJSON(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

// formatMessage formats the error, if any, the headers and the body of a request or an
// answer.
func formatMessage(headers map[string][]string, body, failed string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[name] {
			lines = append(lines, name+": "+value)
		}
	}
	parts := []string{failed, strings.Join(lines, "\n"), indentJSON(body)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n\n")
}
