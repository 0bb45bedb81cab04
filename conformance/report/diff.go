package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Read reads a report that WriteJSON wrote.
func Read(from io.Reader) (*Report, error) {
	r := new(Report)
	text, err := io.ReadAll(from)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("it isn't a report: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("its schema is %q, not %q: write it with --json of this version of the suite", r.Schema, Schema)
	}
	if len(r.Results) == 0 {
		return nil, errors.New("it has no results")
	}
	return r, nil
}

// Direction says whether a change is better or worse.
type Direction string

const (
	Worse  Direction = "worse" // broken now, or kept before and not judged now
	Better Direction = "better"
	Other  Direction = "other" // for example another observation
)

// directions has all directions, most urgent first.
var directions = []Direction{Worse, Better, Other}

// Change is a difference between two reports about a clause.
type Change struct {
	Direction Direction
	Before    *Result // nil if only the second report has the clause
	After     *Result // nil if only the first report has the clause
}

// Diff has the differences between two reports.
type Diff struct {
	Before, After *Report
	Changes       []Change // worse changes first, and among these broken clauses first
	Same          int      // number of unchanged clauses
}

// Standing of a clause, from the best to the worst.
const (
	kept = iota
	unjudged
	weaklyBroken // a SHOULD or a MAY is broken
	broken
)

// standingOf returns the standing that follows from a verdict. A known deviation counts as broken. excluded
// reports whether an option excluded the clause; its standing is then unknown.
func standingOf(x *Result) (standing int, excluded bool) {
	if x == nil {
		return unjudged, true
	}
	switch x.Verdict {
	case Pass, Observed, Unexpected:
		return kept, false
	case Fail, Warn, Known:
		if x.Level == "MUST" {
			return broken, false
		}
		return weaklyBroken, false
	}
	return unjudged, x.Verdict == Skip && slices.Contains([]string{SkipAllow, SkipBudget, SkipDeferred}, x.Code)
}

// Compare returns the differences between two reports. Another observation is neither
// better nor worse, and neither is a clause that an option excluded from the second report.
func Compare(before, after *Report) Diff {
	d := Diff{Before: before, After: after}
	oldResults := map[string]*Result{} // by clause; the loop removes the clauses of the second report
	for i := range before.Results {
		oldResults[before.Results[i].Clause] = &before.Results[i]
	}
	for i := range after.Results {
		x := &after.Results[i]
		d.add(oldResults[x.Clause], x)
		delete(oldResults, x.Clause)
	}
	for _, x := range before.Results {
		if removed := oldResults[x.Clause]; removed != nil {
			d.add(removed, nil)
		}
	}
	slices.SortStableFunc(d.Changes, func(a, b Change) int {
		return cmp.Or(slices.Index(directions, a.Direction)-slices.Index(directions, b.Direction), b.rank()-a.rank())
	})
	return d
}

func (d *Diff) add(before, after *Result) {
	if before != nil && after != nil && before.Verdict == after.Verdict && before.Code == after.Code && before.Observed == after.Observed && before.partlyJudged() == after.partlyJudged() {
		d.Same++
		return
	}
	oldStanding, _ := standingOf(before)
	newStanding, excluded := standingOf(after)
	direction := Other
	switch {
	case newStanding > oldStanding && !excluded:
		direction = Worse
	case newStanding < oldStanding && newStanding != unjudged:
		direction = Better
	}
	d.Changes = append(d.Changes, Change{direction, before, after})
}

// rank is higher for a broken clause than for the clauses that it blocks.
func (c Change) rank() int {
	standing, _ := standingOf(c.After)
	return standing
}

// Count returns how many changes have a direction.
func (d Diff) Count(direction Direction) (n int) {
	for _, c := range d.Changes {
		if c.Direction == direction {
			n++
		}
	}
	return n
}

// GotWorse reports whether a CI gate must fail: a clause, the preflight or the client got worse.
func (d Diff) GotWorse() bool {
	return d.Count(Worse) > 0 || d.Before.Preflight == "" && d.After.Preflight != "" || len(d.Before.OtherFailures) == 0 && len(d.After.OtherFailures) > 0
}

// WriteDiff writes the changes as text, worse ones first.
func WriteDiff(w io.Writer, d Diff, colours bool) error {
	p := colourizer(colours)
	var b strings.Builder
	for _, line := range d.otherDifferences() {
		fmt.Fprintln(&b, p.paint(grey, Printable(line)))
	}
	if d.After.Preflight != "" {
		fmt.Fprintln(&b, p.paint(red, "nothing is judged now: "+Printable(d.After.Preflight)))
	}
	for _, text := range d.After.OtherFailures {
		fmt.Fprintln(&b, p.paint(red, "FAILED ")+strings.ReplaceAll(Printable(text), "\n", "\n  "))
	}
	for _, c := range d.Changes {
		c.write(&b, p.paint(map[Direction]string{Worse: red, Better: green, Other: blue}[c.Direction], strings.ToUpper(string(c.Direction))))
	}
	fmt.Fprintln(&b, p.paint(bold, fmt.Sprintf("%d worse, %d better, %d otherwise changed, %d as before", d.Count(Worse), d.Count(Better), d.Count(Other), d.Same)))
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Change) write(b *strings.Builder, head string) {
	x := cmp.Or(c.After, c.Before)
	fmt.Fprintln(b, head, Printable(fmt.Sprintf("%s %s  %s → %s  %s", x.Clause, x.Level, verdictText(c.Before), verdictText(c.After), x.Statement)))
	if c.Before != nil && c.After != nil && c.Before.Verdict == Observed && c.After.Verdict == Observed {
		fmt.Fprintf(b, "  %-9s %s\n  %-9s %s\n", "before", Printable(c.Before.Observed), "now", Printable(c.After.Observed))
		return
	}
	if c.After != nil && c.Direction != Better {
		if text := oneLine(*c.After); text != "" {
			fmt.Fprintf(b, "  %-9s %s\n", "now", text)
		}
	}
}

// verdictText returns a verdict as text. x may be nil.
func verdictText(x *Result) string {
	if x == nil {
		return "not in the report"
	}
	if x.partlyJudged() {
		return string(x.Verdict) + ", partly judged"
	}
	return string(x.Verdict)
}

// otherDifferences returns differences between the two runs, which may explain why verdicts differ.
func (d Diff) otherDifferences() (list []string) {
	for _, c := range []struct{ name, before, after string }{
		{"target", d.Before.Target.Address(), d.After.Target.Address()},
		{"dialect", d.Before.Dialect, d.After.Dialect},
		{"suite", d.Before.Version, d.After.Version},
	} {
		// A local deployment uses another port each time.
		if c.before != c.after && (c.name != "target" || !d.Before.Target.Local || !d.After.Target.Local) {
			list = append(list, fmt.Sprintf("%s: %s, now %s", c.name, cmp.Or(c.before, "none"), cmp.Or(c.after, "none")))
		}
	}
	return list
}

// WriteDiffJSON writes a line of JSON for each change, worse ones first, and a last line with the counts.
func WriteDiffJSON(w io.Writer, d Diff) error {
	lines := json.NewEncoder(w)
	for _, c := range d.Changes {
		x := cmp.Or(c.After, c.Before)
		if err := lines.Encode(struct {
			Clause    string    `json:"clause"`
			Level     string    `json:"level"`
			Direction Direction `json:"direction"`
			Before    *Result   `json:"before"`
			After     *Result   `json:"after"`
		}{x.Clause, x.Level, c.Direction, c.Before, c.After}); err != nil {
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
	}{d.Count(Worse), d.Count(Better), d.Count(Other), d.Same, d.GotWorse(), d.After.Preflight, d.After.OtherFailures})
}
