package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Control characters are escaped, and any other text is printed unchanged.
func FuzzEscapeControls(f *testing.F) {
	obeyed := func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	fuzz.Run(f, func(t *testing.T, text string) {
		got := string(escapeControls([]byte(text)))
		must.Hold(t, utf8.ValidString(got) && !strings.ContainsFunc(got, obeyed), text, "is printed as", got)
		must.Hold(t, !utf8.ValidString(text) || strings.ContainsFunc(text, obeyed) || got == text, text, "is printed as", got)
		must.Hold(t, len(got) <= 6*len(text), len(text), "bytes are printed as", len(got))
	}, fuzz.Seed{"INFO\tone\ntwo\r\x1b[2Jthree"}, fuzz.Seed{"\x9b31mé\u202eabc\u2028"}, fuzz.Seed{"\xff\xfe😀\U000e0001"})
}
