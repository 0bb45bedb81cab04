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
)

var (
	errorTexts = regexp.MustCompile(`(?m)^\| (.+?[^\\]) \| .+? \| .+? \|$`)
	codeText   = regexp.MustCompile("`` (.+?) ``|`([^`]+)`")
	verb       = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?(\d+|\*)?(\.\d+)?[a-zA-Z]`)
	spaces     = regexp.MustCompile(`\s+`)
)

// The page about errors has texts of the source: `…` stands for what differs.
func TestTroubleshootingTexts(t *testing.T) {
	source := literals(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range errorTexts.FindAllStringSubmatch(string(page), -1) {
		for _, text := range codeText.FindAllStringSubmatch(row[1], -1) {
			for part := range strings.SplitSeq(strings.ReplaceAll(text[1]+text[2], `\|`, "|"), "…") {
				if part = strings.TrimSpace(part); !strings.Contains(source, part) {
					t.Errorf("no error of the source says %q, of the row %q", part, text[0])
				}
			}
		}
	}
}

// literals are all texts of the product's source, with … for what is inserted. Joined ones are
// one text.
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
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
