package client

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Escape sequences are removed, and the text remains.
func TestPlain(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"\x1b[31m│\x1b[0m \x1b[0m\x1b[1mError\x1b[0m: no":        "│ Error: no",
		"\x1b[38;5;196mred\x1b[m \x1b[?25lhidden\x1b[K":          "red hidden",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x07 \x1b]0;title\a.": "link .",
		"\x1bPdevice\x1b\\a\x1b(Bb\x1b7c":                        "abc",
		"10%\r20%\r\ndone\r\n":                                   "10%\n20%\ndone\n",
		"cut \x1b":                                               "cut ",
		"cut \x1b[31":                                            "cut 31",
		"plain [31m":                                             "plain [31m",
	} {
		must.Equal(t, plainText(output), want, output)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("line\n\n", 30) + "last \n"
	got := lastLines(many)
	lines := strings.Split(got, "\n")
	must.Hold(t, len(lines) == maxLines+1 && lines[0] == "…" && lines[maxLines] == "last", got)
	if got := lastLines(strings.Repeat("é", 4000)); len(got) > maxLineBytes+10 || strings.ContainsRune(got, '\uFFFD') || !strings.HasPrefix(got, "…\n") {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
	must.Equal(t, lastLines("\n one\ntwo\n\n"), " one\ntwo")
}
