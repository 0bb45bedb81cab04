package guides

import (
	"fmt"
	"regexp"
	"strings"
)

// command is a command of a console block.
type command struct {
	text  string
	shown []string // output in the document
}

var heredoc = regexp.MustCompile(`<<'?(\w+)'?`)

// commands returns the commands of a console block. Each begins with "$ " and continues after
// a backslash or with a here document.
func commands(b block) (all []command, err error) {
	end, more := "", false
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		text, begins := strings.CutPrefix(line, "$ ")
		switch {
		case end != "" || more:
			all[len(all)-1].text += "\n" + line
			if line == end {
				end = ""
			}
			more = end == "" && strings.HasSuffix(line, `\`)
		case begins:
			all = append(all, command{text: text})
			if found := heredoc.FindStringSubmatch(text); found != nil {
				end = found[1]
			}
			more = end == "" && strings.HasSuffix(text, `\`)
		case len(all) == 0:
			return nil, fmt.Errorf("expected \"$ \" and a command, got %q", line)
		default:
			all[len(all)-1].shown = append(all[len(all)-1].shown, line)
		}
	}
	return all, nil
}

// fails reports whether the document shows a failing command.
func (c command) fails() bool {
	return regexp.MustCompile(`(?m)^(│ )?Error: |^Failure! `).MatchString(strings.Join(c.shown, "\n"))
}

// unstable are texts that differ from run to run, and their replacements.
var unstable = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile("\x1b\\[[0-9;]*m"), ""},
	{regexp.MustCompile(`OpenTofu`), "Terraform"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "http://127.0.0.1:8420"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\[id=[^]]+\]`), "[id=ID]"},
	{regexp.MustCompile(`/v2/[a-z0-9]{10,}`), "/v2/ID"},
	{regexp.MustCompile(`"(id|workerId)":"[^"]+"`), `"$1":"ID"`},
	{regexp.MustCompile(`"(delayTime|executionTime)":\d+`), `"$1":0`},
	{regexp.MustCompile(`\bafter \d+s\b`), "after 0s"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\w+`), "ID"},
	{regexp.MustCompile(`\b(GPUCLOUD_API_KEY=)\S+`), "${1}KEY"},
	{regexp.MustCompile(` +$`), ""},
}

func stable(line string) string {
	for _, u := range unstable {
		line = u.pattern.ReplaceAllString(line, u.as)
	}
	return line
}

// compare returns the first shown line that the output lacks, or "". The output may have more
// lines at its start and end. A line "…" stands for any lines, "…" in a line for any text.
// Empty lines are ignored.
func compare(shown []string, output string) string {
	var printed []string
	for line := range strings.Lines(output) {
		if line = stable(strings.TrimRight(line, "\r\n")); line != "" {
			printed = append(printed, line)
		}
	}
	next, gap := 0, true
	for _, line := range shown {
		line = stable(line)
		switch line {
		case "":
			continue
		case "…":
			gap = true
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$")
		for gap && next < len(printed) && !pattern.MatchString(printed[next]) {
			next++
		}
		if next == len(printed) {
			return "the output lacks the line: " + line
		}
		if !pattern.MatchString(printed[next]) {
			return fmt.Sprintf("expected the line %q, got %q", line, printed[next])
		}
		next, gap = next+1, false
	}
	return ""
}
