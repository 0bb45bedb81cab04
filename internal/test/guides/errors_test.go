//go:build unix

package guides

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var (
	errorText = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .+ \\|$")
	verb      = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?(\d+|\*)?(\.\d+)?[a-zA-Z]`)
	spaces    = regexp.MustCompile(`\s+`)
)

// Each error in the reference occurs in the source; `…` stands for inserted text. No error has two rows.
func TestErrorReference(t *testing.T) {
	source := literals(t)
	page := string(must.ReadFile(t, filepath.Join(root, "docs/reference/errors.md")))
	entries := map[string]bool{}
	for _, entry := range errorText.FindAllStringSubmatch(page, -1) {
		must.Hold(t, !entries[entry[1]], entry[1], "has two entries")
		entries[entry[1]] = true
		for part := range strings.SplitSeq(entry[1], "…") {
			part = strings.TrimSpace(part)
			must.Hold(t, strings.Contains(source, part), "the source has no text", part, "of the entry", entry[1])
		}
	}
	must.Equal(t, len(entries), strings.Count(page, "\n| ")-strings.Count(page, "\n|---"), "entries that were read, expected one per row")
}

// literals returns the product's string literals, with … for format verbs. A concatenation is one text.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"main.go", "provider", "resources", "datasources", "internal", "cmd", "jobrunner", "conformance"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			var s scanner.Scanner
			s.Init(token.NewFileSet().AddFile(path, -1, len(text)), text, nil, 0)
			for joined := false; ; {
				_, kind, literal := s.Scan()
				if kind == token.EOF {
					return err
				}
				if value, err := strconv.Unquote(literal); kind == token.STRING && err == nil {
					if !joined {
						all.WriteString("\n")
					}
					all.WriteString(spaces.ReplaceAllString(strings.ReplaceAll(verb.ReplaceAllString(value, "…"), "%%", "%"), " "))
				}
				joined = kind == token.ADD || kind == token.STRING
			}
		})
		must.Succeed(t, err)
	}
	return all.String()
}
