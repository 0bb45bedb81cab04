package report

import (
	"encoding/json"
	"io"
)

// Form is a way in which a report is written to a file.
type Form struct {
	Name  string
	Words string
	Write func(io.Writer, *Report) error
}

// Forms are all of them.
var Forms = []Form{
	{"json", "the report itself, for programs and for conformance diff", WriteJSON},
	{"html", "one page to look at", WriteHTML},
	{"junit", "for the test page of a CI server", WriteJUnit},
	{"markdown", "for the summary of a CI job", WriteMarkdown},
	{"har", "the requests of clauses that are not kept, for a browser's network panel", WriteHAR},
	{"ctrf", "JSON in the Common Test Report Format, for tools that read it", WriteCTRF},
	{"badge", "an SVG", WriteBadge},
	{"shield", "the badge's JSON, for a server that draws badges", WriteShield},
}

// WriteJSON writes the report as Schema says.
func WriteJSON(w io.Writer, r *Report) error { return writeIndented(w, r) }

func writeIndented(w io.Writer, what any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(what)
}
