package main

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"
)

// All that the program prints goes through these: workers, clients, files and
// servers choose parts of it, and a terminal obeys what it is sent.
var (
	stdout io.Writer = filter{os.Stdout}
	stderr io.Writer = filter{os.Stderr}
)

// filter writes text so that control characters are seen and not obeyed, but
// for the ends of lines and tabs. What is written at a time is whole characters.
type filter struct{ to io.Writer }

func (f filter) Write(p []byte) (int, error) {
	if _, err := f.to.Write(visible(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// visible replaces what a terminal would obey by its code, as JSON writes it:
// control characters of both kinds, and those that turn the direction of text.
func visible(p []byte) []byte {
	var out []byte // nil while there is nothing to replace
	for i := 0; i < len(p); {
		if c := p[i]; out == nil && (c >= ' ' && c < 0x7f || c == '\n') { // nearly all
			i++
			continue
		}
		r, n := utf8.DecodeRune(p[i:])
		obeyed := r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
		broken := r == utf8.RuneError && n == 1
		if (obeyed || broken) && out == nil {
			out = append(make([]byte, 0, len(p)+16), p[:i]...)
		}
		switch {
		case broken: // 0x9b alone is a control character to some
			out = append(out, "\uFFFD"...)
		case obeyed:
			out = fmt.Appendf(out, `\u%04x`, r)
		case out != nil:
			out = append(out, p[i:i+n]...)
		}
		i += n
	}
	if out == nil {
		return p
	}
	return out
}
