package report

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// Terminal writes the report as text: the notes, the results that need attention, and the sums.
func Terminal(w io.Writer, r *Report, colours bool) {
	p := colourizer(colours)
	if r.Preflight != "" {
		fmt.Fprintln(w, p.paint(red, Printable(r.Preflight)))
		return
	}
	for _, note := range append(r.Notes, r.Stale...) {
		fmt.Fprintln(w, p.paint(yellow, Printable(note)))
	}
	for _, x := range r.Results {
		if x.needsAttention() {
			writeResult(w, p, x)
		}
	}
	for _, leak := range r.Leaked {
		fmt.Fprintln(w, p.paint(red, "NOT DELETED ")+Printable(leak))
	}
	for _, text := range r.OtherFailures {
		fmt.Fprintln(w, p.paint(red, "FAILED ")+strings.ReplaceAll(Printable(text), "\n", "\n  "))
	}
	for _, x := range r.gaps() {
		if len(x.List) > 0 {
			fmt.Fprintln(w, p.paint(grey, x.Title+":"))
		}
		for _, g := range x.List {
			fmt.Fprintf(w, "  %s\n", g)
		}
	}
	fmt.Fprintf(w, "%s: %s", r.tally(p), r.usage())
	if targetTime := time.Duration(r.TargetTime); targetTime > time.Duration(r.Duration)+time.Minute {
		fmt.Fprintf(w, ", %s of the target's time", targetTime.Round(time.Second))
	}
	if r.Reruns != nil {
		fmt.Fprintf(w, "; plus reruns of %s", r.Reruns)
	}
	if seed := r.seed(); seed != "" {
		fmt.Fprintf(w, " (seed %s)", seed)
	}
	fmt.Fprintf(w, "\n%s\n", p.paint(bold, conclusion(r)))
}

// tally returns how many clauses have each verdict.
func (r *Report) tally(p colourizer) string {
	var sums []string
	for _, v := range Verdicts {
		if n := r.Counts[v]; n > 0 {
			sums = append(sums, p.paint(colour[v], fmt.Sprintf("%d %s", n, v)))
		}
	}
	if n := len(r.PartlyJudged); n > 0 {
		sums = append(sums, p.paint(grey, fmt.Sprintf("%d partly judged", n)))
	}
	return strings.Join(sums, ", ")
}

// conclusion explains the exit code.
func conclusion(r *Report) string {
	switch r.Exit {
	case 0:
		return r.scope()
	case 1:
		switch {
		case r.Counts[Fail] > 0:
			return "not conformant"
		case len(r.OtherFailures) > 0:
			return "not conformant: the client fails even when no fault is injected"
		}
		return "the list of known deviations is stale"
	case 3:
		if r.Judged() == 0 {
			return "inconclusive: nothing was judged" + r.resumable()
		}
		return "inconclusive"
	case 4:
		return "an object of the suite was not deleted: run conformance sweep"
	}
	return "interrupted"
}

// scope describes the clauses for which the target is conformant.
func (r *Report) scope() string {
	text := "conformant"
	if n := r.Counts[Known]; n > 0 {
		text += fmt.Sprintf(" except for known deviations (%d)", n)
	}
	judged, partly := r.Judged(), len(r.PartlyJudged)
	if judged < len(r.Results) || partly > 0 {
		text += fmt.Sprintf(" in the judged clauses: %d of %d clauses", judged, len(r.Results))
	}
	if partly > 0 {
		text += fmt.Sprintf(", %d of them partly", partly)
	}
	if n := r.Counts[Warn]; n == 1 {
		text += "; 1 SHOULD or MAY clause is not kept"
	} else if n > 1 {
		text += fmt.Sprintf("; %d SHOULD or MAY clauses are not kept", n)
	}
	return text + r.resumable()
}

// resumable returns how many clauses are deferred, as text.
func (r *Report) resumable() string {
	n := 0
	for _, x := range r.Results {
		if x.Verdict == Skip && x.Code == SkipDeferred {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d deferred", n)
}

// Text describes a result in a few lines.
func Text(x Result) string {
	var b strings.Builder
	writeResult(&b, false, x)
	return strings.TrimSpace(b.String())
}

func writeResult(w io.Writer, p colourizer, x Result) {
	head := fmt.Sprintf("%s %s %s", x.Verdict, x.Clause, x.Level)
	if x.Repeats != "" {
		head += " (" + x.Repeats + ")"
	}
	fmt.Fprintf(w, "%s  %s\n", p.paint(colour[x.Verdict], head), x.Statement)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-9s %s\n", name, strings.ReplaceAll(Printable(text), "\n", "\n            "))
		}
	}
	line("observed", x.Observed)
	line("left out", x.partsLeftOut())
	f := x.Failure
	if f == nil || x.Verdict == Known || x.Verdict == Unexpected {
		line("reason", x.Reason)
		return
	}
	line("by", x.BlockedBy)
	line("did", f.Steps)
	line("contract", f.Statement)
	line("source", x.Link)
	line("accepted", strings.Join(f.Accepted, ", or "))
	line("got", f.Actual)
	line("repeat", f.Curl)
	line("more", "conformance explain "+x.Clause)
}

// Printable escapes control characters, with which a target's answer could control the terminal or reorder its
// text, and the commands of CI servers, such as ::error:: and ##[error].
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&b, "\\x%02x", r)
			continue
		}
		b.WriteRune(r)
	}
	return ciCommand.ReplaceAllString(b.String(), `$1\$2`)
}

var ciCommand = regexp.MustCompile(`(?m)(^\s*:|#)(:|#\w*\[)`)

// colourizer adds colours if it is true.
type colourizer bool

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "34"
	grey   = "90"
)

var colour = map[Verdict]string{
	Pass: green, Fail: red, Warn: yellow, Observed: blue, Known: yellow, Unexpected: red, Skip: grey, Blocked: grey, Inconclusive: yellow, Error: red,
}

func (p colourizer) paint(code, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
