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

// readBlocks returns the fenced blocks of a document. The indentation of a fence, such as in a
// list, is removed from its lines.
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
	must.Hold(t, open == nil, open, "the block isn't closed")
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
