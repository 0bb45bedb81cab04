package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"unicode/utf8"
)

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
