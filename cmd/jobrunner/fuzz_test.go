package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
)

// Control characters are escaped, and any other text is printed unchanged.
func FuzzEscapeControls(f *testing.F) {
	obeyed := func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	fuzz.Run(f, func(t *testing.T, text string) {
		got := string(escapeControls([]byte(text)))
		if !utf8.ValidString(got) || strings.ContainsFunc(got, obeyed) {
			t.Errorf("%q is printed as %q", text, got)
		}
		if utf8.ValidString(text) && !strings.ContainsFunc(text, obeyed) && got != text {
			t.Errorf("%q is printed as %q", text, got)
		}
		if len(got) > 6*len(text) {
			t.Errorf("%d bytes are printed as %d", len(text), len(got))
		}
	}, fuzz.Seed{"INFO\tone\ntwo\r\x1b[2Jthree"}, fuzz.Seed{"\x9b31mé\u202eabc\u2028"}, fuzz.Seed{"\xff\xfe😀\U000e0001"})
}
