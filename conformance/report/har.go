package report

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// harObject is an object of an HTTP archive, version 1.2. Unknown sizes are -1.
type harObject = map[string]any

// harVersion is the protocol of all requests; the suite doesn't record it.
const harVersion = "HTTP/1.1"

// harTime is the time format of the archive, with milliseconds and a zone.
const harTime = "2006-01-02T15:04:05.000Z07:00"

// WriteHAR writes the requests of clauses that failed or are inconclusive as an HTTP
// archive. A clause is a page. Bodies are cut as in the report.
func WriteHAR(w io.Writer, r *Report) error {
	pages, exchanges := []harObject{}, []harExchange{}
	for _, x := range r.Results {
		switch x.Verdict {
		case Fail, Warn, Known, Error, Inconclusive:
		default:
			continue
		}
		if len(x.Trace) == 0 {
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
	lines := slices.Clone(r.Failed)
	for _, g := range r.gaps() {
		lines = append(lines, "not judged, "+g.String())
	}
	for _, g := range r.partGaps() {
		lines = append(lines, "partly judged, "+g.String())
	}
	return strings.Join(lines, "\n")
}

func (x harExchange) entry() harObject {
	took := float64(time.Duration(x.Took).Microseconds()) / 1000
	request := harObject{
		"method": x.Method, "url": x.URL, "httpVersion": harVersion, "cookies": []any{}, "headers": harPairs(x.Sent), "queryString": harQuery(x.URL),
		"headersSize": -1, "bodySize": x.BodySize,
	}
	if x.Body != "" {
		request["postData"] = harObject{"mimeType": header(x.Sent, "Content-Type"), "params": []any{}, "text": x.Body}
	}
	e := harObject{
		"pageref": x.page, "startedDateTime": x.Started.Format(harTime), "time": took, "cache": harObject{}, "timings": harObject{"send": 0, "wait": took, "receive": 0},
		"request": request,
		"response": harObject{
			"status": x.Status, "statusText": http.StatusText(x.Status), "httpVersion": harVersion, "cookies": []any{}, "headers": harPairs(x.Header),
			"content":     harObject{"size": x.Size, "mimeType": header(x.Header, "Content-Type"), "text": x.Answer},
			"redirectURL": header(x.Header, "Location"), "headersSize": -1, "bodySize": x.Size,
		},
	}
	if x.Failed != "" {
		e["comment"] = "incomplete answer: " + x.Failed
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

func harQuery(address string) []harObject {
	list := []harObject{}
	_, query, _ := strings.Cut(address, "?")
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		list = append(list, harObject{"name": unescapeOrSame(name), "value": unescapeOrSame(value)})
	}
	return list
}

// unescapeOrSame returns an invalid encoding unchanged; some requests have one on purpose.
func unescapeOrSame(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

func header(h map[string][]string, name string) string { return http.Header(h).Get(name) }
