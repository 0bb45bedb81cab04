package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// Form is a file format of reports.
type Form struct {
	Name        string
	Description string
	Write       func(io.Writer, *Report) error
}

// Forms has all forms.
var Forms = []Form{
	{"json", "the report itself, for programs and for conformance diff", WriteJSON},
	{"html", "one page for a browser", WriteHTML},
	{"junit", "for the test page of a CI server", WriteJUnit},
	{"markdown", "for the summary of a CI job", WriteMarkdown},
	{"har", "the requests of clauses that are not kept, for a browser's network panel", WriteHAR},
	{"ctrf", "JSON in the Common Test Report Format, for tools that read it", WriteCTRF},
	{"badge", "an SVG", WriteBadge},
	{"shield", "the badge's JSON, for a server that draws badges", WriteShield},
}

// WriteJSON writes the report in the form of Schema.
func WriteJSON(w io.Writer, r *Report) error { return writeIndented(w, r) }

func writeIndented(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// WriteCTRF writes the report in the Common Test Report Format. A clause is a test, and its
// area the test's suite.
func WriteCTRF(w io.Writer, r *Report) error {
	type test struct {
		Name     string   `json:"name"`
		Status   string   `json:"status"`
		Duration int64    `json:"duration"`
		Message  string   `json:"message,omitempty"`
		Raw      string   `json:"rawStatus"`
		Suite    []string `json:"suite"`
		Tags     []string `json:"tags,omitempty"`
	}
	statuses := map[Verdict]string{Pass: "passed", Observed: "passed", Fail: "failed", Unexpected: "failed", Error: "failed", Inconclusive: "other", Warn: "other", Known: "other", Skip: "skipped", Blocked: "skipped"}
	summary := map[string]int64{"tests": int64(len(r.Results)), "passed": 0, "failed": 0, "pending": 0, "skipped": 0, "other": 0}
	tests := []test{}
	for _, x := range r.Results {
		entry := test{Name: x.Clause + ": " + x.Statement, Status: statuses[x.Verdict], Duration: time.Duration(x.Duration).Milliseconds(), Message: oneLine(x), Raw: string(x.Verdict), Suite: []string{areaTitle(x.Area)}}
		if omitted := x.partsLeftOut(); omitted != "" {
			entry.Tags, entry.Message = []string{"partly judged"}, entry.Message+" left out: "+omitted
		}
		summary[entry.Status]++
		tests = append(tests, entry)
	}
	summary["start"], summary["stop"] = r.Started.UnixMilli(), r.Started.Add(time.Duration(r.Duration)).UnixMilli()
	return writeIndented(w, map[string]any{
		"reportFormat": "CTRF", "specVersion": "0.0.0",
		"results": map[string]any{
			"tool": map[string]string{"name": "conformance", "version": r.Version}, "summary": summary, "tests": tests,
			"environment": map[string]any{"appName": r.Title(), "extra": map[string]any{"documents": r.Documents, "problems": append(append([]string{}, r.Failed...), r.Leaked...)}},
		},
	})
}

const badgeLabel = "conformance"

// badge returns the text of the badge: how many MUST clauses pass and how many of these are
// partly judged, or why nothing can be escaped.
func badge(r *Report) (message, colour string) {
	musts, passed, partly := 0, 0, 0
	for _, x := range r.Results {
		if x.Level == "MUST" {
			musts++
			switch {
			case x.Verdict != Pass:
			case x.partlyJudged():
				partly++
			default:
				passed++
			}
		}
	}
	switch {
	case r.Preflight != "" || r.Judged() == 0 && len(r.Failed) == 0 || r.Exit == 0 && passed+partly == 0:
		return "not judged", "lightgrey"
	case r.Counts[Fail] > 0:
		return fmt.Sprintf("%d MUST broken", r.Counts[Fail]), "red"
	case r.Exit == 0 && partly > 0:
		return fmt.Sprintf("%d of %d MUST, %d partly", passed, musts, partly), "brightgreen"
	case r.Exit == 0:
		return fmt.Sprintf("%d of %d MUST", passed, musts), "brightgreen"
	case r.Exit == 1:
		return conclusion(r), "red"
	}
	return "inconclusive", "yellow"
}

// WriteShield writes the badge as the JSON that servers like shields.io read.
func WriteShield(w io.Writer, r *Report) error {
	message, colour := badge(r)
	return writeIndented(w, map[string]any{"schemaVersion": 1, "label": badgeLabel, "message": message, "color": colour, "isError": r.Exit != 0})
}

// badgeColours are the colours in the SVG, dark enough for white text.
var badgeColours = map[string]string{"brightgreen": "#1a7f37", "red": "#c5281c", "yellow": "#8a6100", "lightgrey": "#6b7280"}

// WriteBadge writes the badge as an SVG.
func WriteBadge(w io.Writer, r *Report) error {
	message, colour := badge(r)
	left, right := badgeWidth(badgeLabel), badgeWidth(message)
	var escaped bytes.Buffer
	if err := xml.EscapeText(&escaped, []byte(message)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="20" role="img" aria-label="%[4]s: %[5]s">
<title>%[4]s: %[5]s</title>
<clipPath id="r"><rect width="%[1]d" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)"><path fill="#3b4148" d="M0 0h%[2]dv20H0z"/><path fill="%[6]s" d="M%[2]d 0h%[3]dv20H%[2]dz"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">
<text x="%[7]g" y="14" textLength="%[8]d">%[4]s</text>
<text x="%[9]g" y="14" textLength="%[10]d">%[5]s</text>
</g>
</svg>
`, left+right, left, right, badgeLabel, escaped.String(), badgeColours[colour],
		float64(left)/2, left-badgePadding, float64(left)+float64(right)/2, right-badgePadding)
	return err
}

const badgePadding = 12

// badgeWidth returns the width of a text in pixels. textLength makes the text fit in any
// font.
func badgeWidth(text string) int { return utf8.RuneCountInString(text)*67/10 + badgePadding }
