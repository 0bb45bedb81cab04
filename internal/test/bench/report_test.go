//go:build unix

package bench_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// row has the results of all processes for one operation, size and number of clients.
type row struct {
	operation     operation
	size, clients int
	subjects      []string
	results       map[string][]result // per subject and round
}

// median returns the round with the median rate.
func (r row) median(name string) result {
	all := slices.SortedFunc(slices.Values(r.results[name]), func(a, b result) int { return cmp.Compare(a.rate, b.rate) })
	return all[len(all)/2]
}

// ratio returns a process's rate divided by the floor's: the median over the rounds.
func (r row) ratio(name string) float64 {
	var all []float64
	for i, own := range r.results[name] {
		if floor := r.results[floorName][i].rate; floor > 0 {
			all = append(all, own.rate/floor)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}

// cpu returns the median processor time per request.
func (r row) cpu(name string) time.Duration {
	var all []time.Duration
	for _, x := range r.results[name] {
		all = append(all, x.cpu)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// failed counts the failed requests of all rounds and returns one of the failures.
func (r row) failed(name string) (n int, failure error) {
	for _, x := range r.results[name] {
		n += x.failed
		failure = cmp.Or(failure, x.failure)
	}
	return n, failure
}

func (r row) reportMetrics(b *testing.B) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // hidden: -bench.moment sets the duration of a round
	for _, name := range r.subjects {
		b.ReportMetric(r.median(name).rate, name+"/s")
		b.ReportMetric(float64(r.cpu(name).Microseconds()), name+"-µs")
		if name != floorName {
			b.ReportMetric(r.ratio(name), name+"/floor")
		}
		if n, failure := r.failed(name); n > 0 {
			b.Logf("%s: %d requests failed: %v", name, n, failure)
		}
	}
}

// replacePart replaces a part of the report if -bench.report is set, with the place and time.
func replacePart(b *testing.B, part, measured string) {
	b.Helper()
	if *output == "" {
		return
	}
	begin, end := "<!-- "+part+": begin -->", "<!-- "+part+": end -->"
	before, rest, ok := strings.Cut(string(must.ReadFile(b, *output)), begin)
	_, after, closed := strings.Cut(rest, end)
	must.Require(b, ok && closed, *output, "lacks the lines", begin, "and", end)
	machine := fmt.Sprintf("\nMeasured on %s: %s, %d processors of %s, %s/%s.\n",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), cpuModel(), runtime.GOOS, runtime.GOARCH)
	must.Succeed(b, os.WriteFile(*output, []byte(before+begin+"\n"+machine+measured+end+after), 0o644)) //nolint:gosec // documentation
}

// writeReport writes the tables and the plot of the job API.
func writeReport(b *testing.B, rows []row) {
	b.Helper()
	if *output == "" || len(rows) == 0 {
		return
	}
	picture := strings.TrimSuffix(*output, ".md") + ".svg"
	replacePart(b, "job API", tables(rows, filepath.Base(picture)))
	must.Succeed(b, os.WriteFile(picture, []byte(plot(rows)), 0o644)) //nolint:gosec // documentation
}

func tables(rows []row, picture string) string {
	var t strings.Builder
	names := rows[0].subjects
	fmt.Fprintf(&t, "Each cell is the median of %d rounds of %s.\n\n![Rates as shares of the floor's](%s)\n", len(rows[0].results[floorName]), *roundTime, picture)
	last := ""
	var large row
	for _, r := range rows {
		if r.operation.name != last {
			last = r.operation.name
			fmt.Fprintf(&t, "\n### %s\n\n| size | clients |", r.operation.description)
			for _, n := range names {
				fmt.Fprintf(&t, " %s |", n)
			}
			t.WriteString(" processor time, µs | p99, ms |\n|---:|---:|" + strings.Repeat("---:|", len(names)+2) + "\n")
		}
		if r.size >= 1<<20 {
			large = r
		}
		if r.clients == clients[1] || r.size == sizes[1] { // only in the plot
			continue
		}
		fmt.Fprintf(&t, "| %s | %d |", bytesName(r.size), r.clients)
		var cpu, p99 []string
		for _, n := range names {
			m, share := r.median(n), ""
			if n != floorName {
				share = fmt.Sprintf(" (%.2f)", r.ratio(n))
			}
			if failed, _ := r.failed(n); failed > 0 {
				share += fmt.Sprintf(", %d failed", failed)
			}
			fmt.Fprintf(&t, " %s%s |", formatRate(m.rate), share)
			cpu = append(cpu, fmt.Sprint(r.cpu(n).Microseconds()))
			p99 = append(p99, formatMilliseconds(m.p99))
		}
		fmt.Fprintf(&t, " %s | %s |\n", strings.Join(cpu, "/"), strings.Join(p99, "/"))
	}
	t.WriteString("\n")
	if large.results != nil {
		fmt.Fprintf(&t, "Resident memory in the last table, after the first and the last round with %s:", bytesName(large.size))
		for i, n := range names {
			all := large.results[n]
			fmt.Fprintf(&t, "%s %s %d and %d MiB", map[bool]string{true: ";"}[i > 0], n, all[0].resident>>20, all[len(all)-1].resident>>20)
		}
		t.WriteString(".\n\n")
	}
	return t.String()
}

func formatRate(f float64) string {
	if f < 100 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

func formatMilliseconds(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return fmt.Sprintf("%.0f", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.2f", d.Seconds()*1000)
}

func (s *subject) cpuTime() time.Duration { return cpuTime(s.pid) }

// cpuTime returns a process's processor time from /proc, or zero on systems without it.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // skips the name, which may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	const tick = 10 * time.Millisecond // on all of Go's Linux architectures
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// Sizes of the plot in pixels.
const (
	plotLeft  = 190 // space for names
	plotWidth = 560
	barHeight = 9
	barGap    = 1
	rowGap    = 9
	plotTop   = 50
)

var colours = []string{"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1"}

// plot draws a bar for each ratio to the floor, as SVG.
func plot(rows []row) string {
	var body strings.Builder
	names := rows[0].subjects[1:]
	maxRatio := 1.0
	for _, r := range rows {
		for _, n := range names {
			maxRatio = max(maxRatio, r.ratio(n))
		}
	}
	x := func(ratio float64) float64 { return plotLeft + ratio/maxRatio*plotWidth }
	y := plotTop
	for _, r := range rows {
		middle := y + len(names)*(barHeight+barGap)/2
		fmt.Fprintf(&body, `<text x="%d" y="%d" text-anchor="end" dominant-baseline="middle">%s %s, %d clients</text>`+"\n", plotLeft-8, middle, r.operation.name, bytesName(r.size), r.clients)
		for i, n := range names {
			ratio := r.ratio(n)
			fmt.Fprintf(&body, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %.2f</title></rect>`+"\n", plotLeft, y, x(ratio)-plotLeft, barHeight, colours[i%len(colours)], n, ratio)
			y += barHeight + barGap
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
	for share := 0.0; share <= maxRatio; share += 0.25 {
		fmt.Fprintf(&out, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%.2f</text>`+"\n", x(share), x(share), plotTop-6, y, x(share), y+14, share)
	}
	return out.String() + body.String() + "</svg>\n"
}

// cpuModel returns the processor model from /proc/cpuinfo.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // Linux only
	_, first, _ := strings.Cut(string(text), "model name")
	name, _, _ := strings.Cut(first, "\n")
	return cmp.Or(strings.Trim(name, " \t:"), "unknown model")
}

// residentMemory returns the process's resident set in bytes from /proc, or zero on systems without it.
func (s *subject) residentMemory() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.pid))
	var total, resident int64 // in pages
	_, _ = fmt.Sscan(string(text), &total, &resident)
	return resident * int64(os.Getpagesize())
}
