package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

type Format struct {
	Name  string
	Write func(io.Writer, *Report) error
}

var Formats = []Format{
	{"json", WriteJSON},         // the report itself, for programs and for conformance diff
	{"html", writeHTML},         // one page for a browser
	{"junit", writeJUnit},       // for the test page of a CI server
	{"markdown", WriteMarkdown}, // for the summary of a CI job
	{"har", writeHAR},           // the requests of clauses with a deviation or an error, for a browser's network panel
	{"ctrf", writeCTRF},         // JSON in the Common Test Report Format, for tools that read it
	{"badge", writeBadge},       // an SVG
	{"shield", writeShield},     // the badge's JSON, for a server that draws badges
}

// WriteJSON writes the report in the format of Schema.
func WriteJSON(w io.Writer, r *Report) error { return writeIndented(w, r) }

func writeIndented(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// writeCTRF writes the Common Test Report Format. A clause is a test, and its area the test's suite.
func writeCTRF(w io.Writer, r *Report) error {
	statuses := map[Verdict]string{Pass: "passed", Observed: "passed", Fail: "failed", Unexpected: "failed", Error: "failed", Inconclusive: "other", Warn: "other", Known: "other", Skip: "skipped", Blocked: "skipped"}
	summary := map[string]int64{"tests": int64(len(r.Results)), "passed": 0, "failed": 0, "pending": 0, "skipped": 0, "other": 0}
	tests := []map[string]any{}
	for _, x := range r.Results {
		entry := map[string]any{
			"name": x.Clause + ": " + x.Statement, "status": statuses[x.Verdict], "rawStatus": x.Verdict, "suite": []string{areaTitle(x.Area)},
			"duration": time.Duration(x.Duration).Milliseconds(), "message": oneLine(x),
		}
		if omitted := x.partsLeftOut(); omitted != "" {
			entry["tags"], entry["message"] = []string{"partly judged"}, oneLine(x)+" left out: "+omitted
		}
		summary[statuses[x.Verdict]]++
		tests = append(tests, entry)
	}
	summary["start"], summary["stop"] = r.Started.UnixMilli(), r.Started.Add(time.Duration(r.Duration)).UnixMilli()
	return writeIndented(w, map[string]any{
		"reportFormat": "CTRF", "specVersion": "0.0.0",
		"results": map[string]any{
			"tool": map[string]string{"name": "conformance", "version": r.Version}, "summary": summary, "tests": tests,
			"environment": map[string]any{"appName": r.Title(), "extra": map[string]any{"documents": r.Documents, "problems": append(append([]string{}, r.OtherFailures...), r.Leaked...)}},
		},
	})
}

const badgeLabel = "conformance"

// badge returns the badge's text: how many MUST clauses pass, wholly or partly judged, or a conclusion.
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
	case r.Preflight != "" || r.Judged() == 0 && len(r.OtherFailures) == 0 || r.Exit == 0 && passed+partly == 0:
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

func writeShield(w io.Writer, r *Report) error {
	message, colour := badge(r)
	return writeIndented(w, map[string]any{"schemaVersion": 1, "label": badgeLabel, "message": message, "color": colour, "isError": r.Exit != 0})
}

// badgeColours are the colours in the SVG, dark enough for white text.
var badgeColours = map[string]string{"brightgreen": "#1a7f37", "red": "#c5281c", "yellow": "#8a6100", "lightgrey": "#6b7280"}

func writeBadge(w io.Writer, r *Report) error {
	message, colour := badge(r)
	return pageTemplate.ExecuteTemplate(w, "badge.svg", map[string]any{
		"Label": badgeLabel, "Message": message, "Colour": badgeColours[colour], "Left": badgeWidth(badgeLabel), "Right": badgeWidth(message),
	})
}

// badgeWidth returns a text's width in pixels, with margins. The attribute textLength makes it fit in any font.
func badgeWidth(text string) int { return utf8.RuneCountInString(text)*67/10 + 12 }

// harObject is an object of an HTTP archive, version 1.2. Unknown sizes are -1.
type harObject = map[string]any

// harVersion is the protocol of all requests, which the suite doesn't record: HTTP/1.1 or HTTP/2.
const harVersion = "unknown"

// harTime is the time format of the archive, with milliseconds and a zone.
const harTime = "2006-01-02T15:04:05.000Z07:00"

// writeHAR writes the requests of clauses with a deviation or an error as an HTTP
// archive. A clause is a page. Bodies are cut as in the report.
func writeHAR(w io.Writer, r *Report) error {
	pages, exchanges := []harObject{}, []harExchange{}
	for _, x := range r.Results {
		if len(x.Trace) == 0 || !slices.Contains([]Verdict{Fail, Warn, Known, Error, Inconclusive}, x.Verdict) {
			continue
		}
		pages = append(pages, harObject{
			"startedDateTime": x.Trace[0].Started.Format(harTime), "id": x.Clause, "title": string(x.Verdict) + " " + x.Clause + ": " + x.Statement,
			"pageTimings": harObject{}, "comment": oneLine(x),
		})
		for _, e := range x.Trace {
			exchanges = append(exchanges, harExchange{x.Clause, e})
		}
	}
	slices.SortStableFunc(exchanges, func(a, b harExchange) int { return a.Started.Compare(b.Started) })
	entries := []harObject{}
	for _, e := range exchanges {
		entries = append(entries, e.entry())
	}
	return writeIndented(w, harObject{"log": harObject{
		"version": "1.2", "creator": harObject{"name": "conformance", "version": r.Version}, "pages": pages, "entries": entries, "comment": harComment(r),
	}})
}

// harExchange is an exchange of a clause, which is a page of the archive.
type harExchange struct {
	page string
	Exchange
}

// harComment returns the facts of the report that belong to no entry of the archive.
func harComment(r *Report) string {
	if r.Preflight != "" {
		return r.Preflight
	}
	lines := slices.Clone(r.OtherFailures)
	for _, x := range r.gaps() {
		for _, g := range x.List {
			lines = append(lines, x.Name+", "+g.String())
		}
	}
	return strings.Join(lines, "\n")
}

func (x harExchange) entry() harObject {
	took := float64(time.Duration(x.Took).Microseconds()) / 1000
	_, raw, _ := strings.Cut(x.URL, "?")
	query, _ := url.ParseQuery(raw) // without malformed pairs, which only the URL has
	request := harObject{
		"method": x.Method, "url": x.URL, "httpVersion": harVersion, "cookies": []any{}, "headers": harPairs(x.RequestHeader), "queryString": harPairs(query),
		"headersSize": -1, "bodySize": x.RequestSize,
	}
	if x.RequestBody != "" {
		request["postData"] = harObject{"mimeType": header(x.RequestHeader, "Content-Type"), "params": []any{}, "text": x.RequestBody}
	}
	e := harObject{
		"pageref": x.page, "startedDateTime": x.Started.Format(harTime), "time": took, "cache": harObject{}, "timings": harObject{"send": 0, "wait": took, "receive": 0},
		"request": request,
		"response": harObject{
			"status": x.Status, "statusText": http.StatusText(x.Status), "httpVersion": harVersion, "cookies": []any{}, "headers": harPairs(x.ResponseHeader),
			"content":     harObject{"size": x.ResponseSize, "mimeType": header(x.ResponseHeader, "Content-Type"), "text": x.ResponseBody},
			"redirectURL": header(x.ResponseHeader, "Location"), "headersSize": -1, "bodySize": x.ResponseSize,
		},
	}
	if x.Error != "" {
		e["comment"] = "incomplete answer: " + x.Error
	}
	return e
}

func harPairs(h map[string][]string) []harObject {
	list := []harObject{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			list = append(list, harObject{"name": name, "value": value})
		}
	}
	return list
}

func header(h map[string][]string, name string) string { return http.Header(h).Get(name) }
