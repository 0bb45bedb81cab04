//go:build unix

package bench_test

import (
	"fmt"
	"strings"
)

// Sizes of the plot in pixels.
const (
	plotLeft  = 190 // space for names
	plotWidth = 560
	barHigh   = 9
	barGap    = 1
	rowGap    = 9
	plotTop   = 50
)

var colours = []string{"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1"}

// plot draws a bar for each ratio to the floor, as SVG.
func plot(rows []row) string {
	var body strings.Builder
	names := rows[0].subjects[1:]
	most := 1.0
	for _, r := range rows {
		for _, n := range names {
			most = max(most, r.ratio(n))
		}
	}
	x := func(ratio float64) float64 { return plotLeft + ratio/most*plotWidth }
	y := plotTop
	for _, r := range rows {
		middle := y + len(names)*(barHigh+barGap)/2
		fmt.Fprintf(&body, `<text x="%d" y="%d" text-anchor="end" dominant-baseline="middle">%s %s, %d clients</text>`+"\n", plotLeft-8, middle, r.work.name, bytesName(r.size), r.clients)
		for i, n := range names {
			ratio := r.ratio(n)
			fmt.Fprintf(&body, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %.2f</title></rect>`+"\n", plotLeft, y, x(ratio)-plotLeft, barHigh, colours[i%len(colours)], n, ratio)
			y += barHigh + barGap
		}
		y += rowGap
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", plotLeft+plotWidth+30, y+20)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="white"/>`+"\n"+`<text x="10" y="18" font-size="14">Rate as a share of the floor's</text>`+"\n")
	for i, n := range names {
		at := plotLeft + i*110
		fmt.Fprintf(&out, `<rect x="%d" y="28" width="10" height="10" fill="%s"/><text x="%d" y="37">%s</text>`+"\n", at, colours[i%len(colours)], at+14, n)
	}
	for share := 0.0; share <= most; share += 0.25 {
		fmt.Fprintf(&out, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%.2f</text>`+"\n", x(share), x(share), plotTop-6, y, x(share), y+14, share)
	}
	return out.String() + body.String() + "</svg>\n"
}
