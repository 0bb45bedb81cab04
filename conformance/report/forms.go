package report

import (
	"encoding/json"
	"io"
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
