//go:build unix

// Package guides follows the project's Markdown files as a reader would: it writes the files
// that they show, runs the commands and compares the output. Every code block needs a check.
package guides

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const root = "../../.."

// block is a fenced code block of a Markdown file.
type block struct {
	document string // path from the root
	line     int    // of the opening fence
	language string
	text     string // ends with a newline
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.document, b.line) }

var fence = regexp.MustCompile("^( *)(```+|~~~+)(.*)$")

// readBlocks returns a document's fenced blocks, without the indentation of their fences.
func readBlocks(t *testing.T, document string) (blocks []block) {
	t.Helper()
	text := string(must.ReadFile(t, filepath.Join(root, document)))
	var open *block
	indent, marks, number := "", "", 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		found := fence.FindStringSubmatch(line)
		switch {
		case open == nil && found != nil:
			indent, marks = found[1], found[2]
			open = &block{document: document, line: number, language: strings.TrimSpace(found[3])}
		case open != nil && found != nil && found[2] == marks && found[3] == "":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	must.Hold(t, open == nil, "the block isn't closed:", open)
	return blocks
}

// documents returns all Markdown files, as paths from the root.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != root):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			relative, err := filepath.Rel(root, path)
			paths = append(paths, filepath.ToSlash(relative))
			return err
		}
		return nil
	})
	must.Succeed(t, err)
	return paths
}

// command is a command of a console block.
type command struct {
	text  string
	shown []string // output in the document
}

var heredoc = regexp.MustCompile(`<<'?(\w+)'?`)

// commands returns a console block's commands. One goes on after a backslash and until a here document ends.
func commands(b block) (all []command, err error) {
	heredocEnd, continues := "", false
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		text, begins := strings.CutPrefix(line, "$ ")
		switch {
		case heredocEnd != "" || continues:
			all[len(all)-1].text += "\n" + line
			if line == heredocEnd {
				heredocEnd = ""
			}
			continues = heredocEnd == "" && strings.HasSuffix(line, `\`)
		case begins:
			all = append(all, command{text: text})
			if found := heredoc.FindStringSubmatch(text); found != nil {
				heredocEnd = found[1]
			}
			continues = heredocEnd == "" && strings.HasSuffix(text, `\`)
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

// changingTexts differ from run to run. They are compared as their replacements.
var changingTexts = []struct {
	pattern     *regexp.Regexp
	replacement string
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

func normalize(line string) string {
	for _, c := range changingTexts {
		line = c.pattern.ReplaceAllString(line, c.replacement)
	}
	return line
}

// compare says which shown line the output lacks first, or returns "". The output may have more lines at its
// start and end. A line "…" stands for any lines, "…" in a line for any text. Empty lines are ignored.
func compare(shown []string, output string) string {
	var printed []string
	for line := range strings.Lines(output) {
		if line = normalize(strings.TrimRight(line, "\r\n")); line != "" {
			printed = append(printed, line)
		}
	}
	next, gap := 0, true
	for _, line := range shown {
		line = normalize(line)
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
