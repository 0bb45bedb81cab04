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

// The elements of an HTTP archive, version 1.2. Unknown sizes are -1.
type (
	harLog struct {
		Version string     `json:"version"`
		Creator harNamed   `json:"creator"`
		Pages   []harPage  `json:"pages"`
		Entries []harEntry `json:"entries"`
		Comment string     `json:"comment,omitempty"`
	}
	harNamed struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	harPage struct {
		Started string   `json:"startedDateTime"`
		ID      string   `json:"id"`
		Title   string   `json:"title"`
		Timings struct{} `json:"pageTimings"`
		Comment string   `json:"comment,omitempty"`
	}
	harEntry struct {
		Page     string      `json:"pageref"`
		Started  string      `json:"startedDateTime"`
		Time     float64     `json:"time"`
		Request  harRequest  `json:"request"`
		Response harResponse `json:"response"`
		Cache    struct{}    `json:"cache"`
		Timings  harTimings  `json:"timings"`
		Comment  string      `json:"comment,omitempty"`

		at time.Time
	}
	harRequest struct {
		Method      string    `json:"method"`
		URL         string    `json:"url"`
		HTTPVersion string    `json:"httpVersion"`
		Cookies     []harPair `json:"cookies"`
		Headers     []harPair `json:"headers"`
		Query       []harPair `json:"queryString"`
		Body        *harBody  `json:"postData,omitempty"`
		HeadersSize int       `json:"headersSize"`
		BodySize    int       `json:"bodySize"`
	}
	harBody struct {
		MimeType string    `json:"mimeType"`
		Params   []harPair `json:"params"`
		Text     string    `json:"text"`
	}
	harResponse struct {
		Status      int        `json:"status"`
		StatusText  string     `json:"statusText"`
		HTTPVersion string     `json:"httpVersion"`
		Cookies     []harPair  `json:"cookies"`
		Headers     []harPair  `json:"headers"`
		Content     harContent `json:"content"`
		RedirectURL string     `json:"redirectURL"`
		HeadersSize int        `json:"headersSize"`
		BodySize    int        `json:"bodySize"`
	}
	harContent struct {
		Size     int    `json:"size"`
		MimeType string `json:"mimeType"`
		Text     string `json:"text"`
	}
	harTimings struct {
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
	}
	harPair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// harVersion is the protocol of all requests; the suite doesn't record it.
const harVersion = "HTTP/1.1"

// harTime is the time format of the archive, with milliseconds and a zone.
const harTime = "2006-01-02T15:04:05.000Z07:00"

// WriteHAR writes the requests of clauses that failed or are inconclusive as an HTTP
// archive. A clause is a page. Bodies are cut as in the report.
func WriteHAR(w io.Writer, r *Report) error {
	log := harLog{Version: "1.2", Creator: harNamed{"conformance", r.Version}, Pages: []harPage{}, Entries: []harEntry{}, Comment: harComment(r)}
	for _, x := range r.Results {
		switch x.Verdict {
		case Fail, Warn, Known, Error, Inconclusive:
		default:
			continue
		}
		if len(x.Trace) == 0 {
			continue
		}
		log.Pages = append(log.Pages, harPage{
			Started: x.Trace[0].Started.Format(harTime), ID: x.Clause, Title: string(x.Verdict) + " " + x.Clause + ": " + x.Statement, Comment: oneLine(x),
		})
		for _, e := range x.Trace {
			log.Entries = append(log.Entries, harEntryOf(x.Clause, e))
		}
	}
	slices.SortStableFunc(log.Entries, func(a, b harEntry) int { return a.at.Compare(b.at) })
	return writeIndented(w, map[string]harLog{"log": log})
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

func harEntryOf(page string, x Exchange) harEntry {
	took := float64(time.Duration(x.Took).Microseconds()) / 1000
	e := harEntry{
		Page: page, Started: x.Started.Format(harTime), Time: took, Timings: harTimings{Wait: took}, at: x.Started,
		Request: harRequest{
			Method: x.Method, URL: x.URL, HTTPVersion: harVersion, Cookies: []harPair{}, Headers: harPairs(x.Sent), Query: harQuery(x.URL),
			HeadersSize: -1, BodySize: x.BodySize,
		},
		Response: harResponse{
			Status: x.Status, StatusText: http.StatusText(x.Status), HTTPVersion: harVersion, Cookies: []harPair{}, Headers: harPairs(x.Header),
			Content:     harContent{Size: x.Size, MimeType: header(x.Header, "Content-Type"), Text: x.Answer},
			RedirectURL: header(x.Header, "Location"), HeadersSize: -1, BodySize: x.Size,
		},
	}
	if x.Failed != "" {
		e.Comment = "incomplete answer: " + x.Failed
	}
	if x.Body != "" {
		e.Request.Body = &harBody{MimeType: header(x.Sent, "Content-Type"), Params: []harPair{}, Text: x.Body}
	}
	return e
}

func harPairs(h map[string][]string) []harPair {
	list := []harPair{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			list = append(list, harPair{name, value})
		}
	}
	return list
}

func harQuery(address string) []harPair {
	list := []harPair{}
	_, query, _ := strings.Cut(address, "?")
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		list = append(list, harPair{unescapeOrSame(name), unescapeOrSame(value)})
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
