package client

import (
	"regexp"
	"strings"
)

// escapes matches the escape sequences of ECMA-48: colours, cursor movements, titles and
// links. Many clients write them even if the output isn't a terminal.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])?`)

// plainText removes escape sequences. Lines that would be overwritten become lines of their
// own.
func plainText(output string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(escapes.ReplaceAllString(output, ""))
}

// Limits of lastLines.
const (
	maxLines     = 15
	maxLineBytes = 2000 // of all lines
)

// lastLines returns the last lines of an output, without empty lines.
func lastLines(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	cut := len(lines) > maxLines
	text := strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	if len(text) > maxLineBytes {
		text, cut = strings.ToValidUTF8(text[len(text)-maxLineBytes:], ""), true
	}
	if cut {
		text = "…\n" + text
	}
	return text
}
