package client

import (
	"regexp"
	"strings"
)

// escapes are the escape sequences of ECMA-48: colours, cursor movements,
// titles and links. Many clients write them although nothing that they write to
// is a terminal.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])?`)

// plainText returns an output without escape sequences, in which overwritten lines are
// lines of their own.
func plainText(output string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(escapes.ReplaceAllString(output, ""))
}

// Limits of the end of an output that is shown.
const (
	maxLines = 15
	maxWords = 2000 // bytes
)

// lastLines returns the end of an output.
func lastLines(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	cut := len(lines) > maxLines
	text := strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	if len(text) > maxWords {
		text, cut = strings.ToValidUTF8(text[len(text)-maxWords:], ""), true
	}
	if cut {
		text = "…\n" + text
	}
	return text
}
