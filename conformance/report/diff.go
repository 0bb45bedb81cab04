package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Read reads a report that WriteJSON wrote.
func Read(from io.Reader) (*Report, error) {
	r := new(Report)
	if err := json.NewDecoder(from).Decode(r); err != nil {
		return nil, fmt.Errorf("it is no report: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("its schema is %q, not %q: write it with --json of this version of the suite", r.Schema, Schema)
	}
	return r, nil
}

// Direction tells whether a changed verdict is better or worse.
type Direction int

// Directions, the most urgent first.
const (
	Worse Direction = iota // it was kept or not judged and is broken, or it was kept and can't be told any more
	Better
	Other // neither: other judging, or another observation
)

// Change is a clause about which two reports differ.
type Change struct {
	Direction Direction
	Before    *Result // nil where the first report has not got it
	After     *Result // nil where the second one has not
}

// Diff is what changed from one report to another.
type Diff struct {
	Before, After *Report
	Changes       []Change // what got worse first, and of that what is broken
	Same          int      // clauses
}

// Standing of a clause, from the best to the worst.
const (
	kept = iota
	unjudged
	weaklyBroken // of a SHOULD or a MAY
	broken
)

// standingOf returns what a verdict says about the deployment: known deviations make
// nothing better or worse. chosen is true where the clause was left out by an option,
// so that its absence says nothing.
func standingOf(x *Result) (s int, chosen bool) {
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
	case Skip:
		switch x.Code {
		case SkipAllow, SkipProfile, SkipBudget, SkipDeferred:
			return unjudged, true
		}
	}
	return unjudged, false
}

// Compare finds the changes. An observation that differs is neither better nor worse,
// and neither is a clause that was left out by an option.
func Compare(before, after *Report) Diff {
	d := Diff{Before: before, After: after}
	old := map[string]*Result{}
	for i := range before.Results {
		old[before.Results[i].Clause] = &before.Results[i]
	}
	seen := map[string]bool{}
	for i := range after.Results {
		b := &after.Results[i]
		seen[b.Clause] = true
		d.add(old[b.Clause], b)
	}
	for i := range before.Results {
		if a := &before.Results[i]; !seen[a.Clause] {
			d.add(a, nil)
		}
	}
	slices.SortStableFunc(d.Changes, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Direction, b.Direction), b.rank()-a.rank()) })
	return d
}

func (d *Diff) add(a, b *Result) {
	if a != nil && b != nil && a.Verdict == b.Verdict && a.Code == b.Code && a.Observed == b.Observed && a.partlyJudged() == b.partlyJudged() {
		d.Same++
		return
	}
	was, _ := standingOf(a)
	is, chosen := standingOf(b)
	turn := Other
	switch {
	case is > was && !chosen:
		turn = Worse
	case is < was && is != unjudged:
		turn = Better
	}
	d.Changes = append(d.Changes, Change{turn, a, b})
}

// rank puts broken clauses before those that they block.
func (c Change) rank() int {
	s, _ := standingOf(c.After)
	return s
}

// Count returns how many changes have a direction.
func (d Diff) Count(t Direction) (n int) {
	for _, c := range d.Changes {
		if c.Direction == t {
			n++
		}
	}
	return n
}

// GotWorse tells whether a CI gate must fail: a clause got worse, nothing was judged
// any more, or the client fails although nothing is scripted to fail.
func (d Diff) GotWorse() bool {
	return d.Count(Worse) > 0 || d.Before.Preflight == "" && d.After.Preflight != "" || len(d.Before.Failed) == 0 && len(d.After.Failed) > 0
}

// WriteDiff writes the changes for people, the worse ones first.
func WriteDiff(w io.Writer, d Diff, colours bool) error {
	p := colourizer(colours)
	var b strings.Builder
	for _, line := range d.otherDifferences() {
		fmt.Fprintln(&b, p.paint(grey, line))
	}
	if d.After.Preflight != "" {
		fmt.Fprintln(&b, p.paint(red, "nothing is judged any more: "+stripControls(d.After.Preflight)))
	}
	for _, text := range d.After.Failed {
		fmt.Fprintln(&b, p.paint(red, "FAILED ")+strings.ReplaceAll(stripControls(text), "\n", "\n  "))
	}
	heads := []string{Worse: p.paint(red, "WORSE"), Better: p.paint(green, "BETTER"), Other: p.paint(blue, "OTHER")}
	for _, c := range d.Changes {
		c.write(&b, heads[c.Direction])
	}
	fmt.Fprintln(&b, p.paint(bold, fmt.Sprintf("%d worse, %d better, %d otherwise changed, %d as before", d.Count(Worse), d.Count(Better), d.Count(Other), d.Same)))
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Change) write(b *strings.Builder, head string) {
	x := c.After
	if x == nil {
		x = c.Before
	}
	fmt.Fprintf(b, "%s %s %s  %s → %s  %s\n", head, x.Clause, x.Level, verdictText(c.Before), verdictText(c.After), x.Statement)
	if c.Before != nil && c.After != nil && c.Before.Verdict == Observed && c.After.Verdict == Observed {
		fmt.Fprintf(b, "  %-9s %s\n  %-9s %s\n", "before", stripControls(c.Before.Observed), "now", stripControls(c.After.Observed))
		return
	}
	if c.After != nil && c.Direction != Better {
		if text := oneLine(*c.After); text != "" {
			fmt.Fprintf(b, "  %-9s %s\n", "now", text)
		}
	}
}

// verdictText returns a verdict, or that there is none.
func verdictText(x *Result) string {
	if x == nil {
		return "not in the report"
	}
	if x.partlyJudged() {
		return string(x.Verdict) + ", partly judged"
	}
	return string(x.Verdict)
}

// otherDifferences returns differences between the two runs themselves, which may be
// why verdicts differ.
func (d Diff) otherDifferences() (list []string) {
	for _, c := range []struct{ what, before, after string }{
		{"target", d.Before.Target.Where(), d.After.Target.Where()},
		{"dialect", d.Before.Dialect, d.After.Dialect},
		{"suite", d.Before.Version, d.After.Version},
	} {
		// A local deployment has another port each time.
		if c.before != c.after && (c.what != "target" || !d.Before.Target.Local || !d.After.Target.Local) {
			list = append(list, fmt.Sprintf("%s: %s, now %s", c.what, orElse(c.before, "none"), orElse(c.after, "none")))
		}
	}
	return list
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
