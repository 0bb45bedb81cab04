package report

import (
	"encoding/json"
	"io"
)

// directions has the names of directions in JSON.
var directions = []string{Worse: "worse", Better: "better", Other: "other"}

// WriteDiffJSON writes a line of JSON for each change, worse ones first, and a last line
// with the counts.
func WriteDiffJSON(w io.Writer, d Diff) error {
	lines := json.NewEncoder(w)
	for _, c := range d.Changes {
		x := c.After
		if x == nil {
			x = c.Before
		}
		if err := lines.Encode(struct {
			Clause    string  `json:"clause"`
			Level     string  `json:"level"`
			Direction string  `json:"direction"`
			Before    *Result `json:"before"`
			After     *Result `json:"after"`
		}{x.Clause, x.Level, directions[c.Direction], c.Before, c.After}); err != nil {
			return err
		}
	}
	return lines.Encode(struct {
		Worse     int      `json:"worse"`
		Better    int      `json:"better"`
		Other     int      `json:"other"`
		Same      int      `json:"same"`
		GotWorse  bool     `json:"got_worse"`
		Preflight string   `json:"preflight,omitempty"` // why nothing is judged now
		Failed    []string `json:"failed,omitempty"`
	}{d.Count(Worse), d.Count(Better), d.Count(Other), d.Same, d.GotWorse(), d.After.Preflight, d.After.Failed})
}
