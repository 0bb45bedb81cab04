package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

// assets has a template for each report format with markup.
//
//go:embed assets/*.html assets/report.md.tmpl assets/badge.svg
var assets embed.FS

var (
	//go:embed assets/report.css
	pageStyle string
	//go:embed assets/report.js
	pageScript string
)

// pageTemplate renders a report. The page's Content-Security-Policy allows only its own style and script, and no requests.
var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(pageStyle) }, "script": func() template.JS { return template.JS(pageScript) }, "hash": contentHash,
	"tone": exitTone, "headline": headline, "facts": runFacts, "levels": levels, "areas": areas, "tally": func(r *Report) string { return r.tally(false) },
	"verdicts": func() []Verdict { return Verdicts }, "means": func(v Verdict) string { return verdictMeanings[v] },
	"slug": func(v Verdict) string { return strings.ToLower(string(v)) }, "brief": oneLine, "message": formatMessage, "span": formatDuration, "join": func(list []string) string { return strings.Join(list, ", or ") },
	"count": groupDigits, "leftout": func(x Result) string { return Printable(x.partsLeftOut()) },
	"plus": func(a, b int) int { return a + b }, "verdict": verdictText, "title": (*Report).Title, "conclusion": conclusion,
}).ParseFS(assets, "assets/*.html", "assets/badge.svg"))

// pageLevel is a bar of the verdicts of one level.
type pageLevel struct {
	Sum
	Parts []pagePart
	Label string // the counts as text
}

type pagePart struct {
	Verdict       Verdict
	Count, Offset int // Offset is the sum of the counts to its left
}

type pageArea struct {
	ID, Title string
	Broken    int
	Results   []Result
}

var verdictMeanings = map[Verdict]string{
	Fail: "a MUST that is not kept", Unexpected: "kept, and listed as a known deviation", Error: "the suite itself failed, or was interrupted",
	Inconclusive: "not enough evidence, for the given reason", Warn: "a SHOULD or a MAY that is not kept", Known: "a known deviation",
	Blocked: "blocked by a clause that failed", Observed: "the description leaves it open", Skip: "not judged", Pass: "kept",
}

func writeHTML(w io.Writer, r *Report) error {
	return pageTemplate.ExecuteTemplate(w, "report.html", r)
}

func headline(r *Report) string {
	if r.Preflight != "" {
		return "Nothing could be judged"
	}
	text := conclusion(r)
	return strings.ToUpper(text[:1]) + text[1:]
}

func areas(r *Report) (list []pageArea) {
	for _, x := range r.Results {
		i := slices.IndexFunc(list, func(a pageArea) bool { return a.ID == x.Area })
		if i < 0 {
			i = len(list)
			list = append(list, pageArea{ID: x.Area, Title: areaTitle(x.Area)})
		}
		list[i].Results = append(list[i].Results, x)
		if x.Verdict == Fail || x.Verdict == Warn {
			list[i].Broken++
		}
	}
	return list
}

func contentHash(text any) string {
	sum := sha256.Sum256(fmt.Append(nil, text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// exitTone returns the meaning of the exit code: good, bad or unsure.
func exitTone(r *Report) string {
	return cmp.Or(map[int]string{0: "good", 1: "bad"}[r.Exit], "unsure")
}

func runFacts(r *Report) [][2]string {
	targetTime := ""
	if time.Duration(r.TargetTime) > time.Duration(r.Duration)+time.Minute {
		targetTime = time.Duration(r.TargetTime).Round(time.Second).String()
	}
	facts := [][2]string{
		{"Took", time.Duration(r.Duration).Round(time.Millisecond).String()},
		{"Time on the target's clock", targetTime},
		{"Requests", groupDigits(int(r.Requests))},
		{"Jobs", groupDigits(int(r.Jobs))},
		{"Reruns, not counted above", r.Reruns.String()},
		{"Dialect", r.Dialect},
		{"Endpoint", r.Target.Endpoint},
		{"Seed", r.seed()},
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

func levels(r *Report) (list []pageLevel) {
	for _, s := range r.Sums() {
		l, counts := pageLevel{Sum: s}, []string{}
		offset := 0
		for _, v := range slices.Backward(Verdicts) { // passed ones first
			if n := s.Counts[v]; n > 0 {
				l.Parts, offset = append(l.Parts, pagePart{v, n, offset}), offset+n
				counts = append(counts, fmt.Sprintf("%d %s", n, v))
			}
		}
		l.Label = strings.Join(counts, ", ")
		list = append(list, l)
	}
	return list
}

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

// formatMessage formats the error, if any, the headers and the body of a request or an answer.
func formatMessage(headers map[string][]string, body, errorText string) string {
	var lines []string
	for _, pair := range harPairs(headers) {
		lines = append(lines, fmt.Sprint(pair["name"], ": ", pair["value"]))
	}
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(body), "", "  ") == nil {
		body = indented.String()
	}
	parts := []string{errorText, strings.Join(lines, "\n"), body}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n\n")
}
