package host

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// pattern matches images. * matches any characters except /, ? matches one of them, **
// matches any characters, [a-c] matches one character of the set, and [!a-c] one character
// outside it. A pattern without a tag or digest matches all of them.
//
// Libraries for paths, such as doublestar, differ: their team/** also matches team, and { }
// are alternatives.
type pattern struct {
	text    string
	form    *regexp.Regexp
	bare    bool // without tag and digest
	literal bool // without wildcards
}

func parsePattern(text string) (p pattern, err error) {
	if text == "" {
		return p, errors.New("image is empty: name one, such as team/worker, or a pattern, such as team/**")
	}
	var form strings.Builder
	form.WriteString(`\A`)
	p = pattern{text: text, literal: true, bare: true}
	for rest := text; rest != ""; {
		part, n := "", 1
		switch rest[0] {
		case '*':
			part = `[^/]*`
			if strings.HasPrefix(rest, "**") {
				part, n = `.*`, 2
			}
		case '?':
			part = `[^/]`
		case '[':
			if part, n, err = class(rest); err != nil {
				return p, fmt.Errorf("the pattern %q: %w", text, err)
			}
		case '/':
			part, p.bare = "/", true
		case ':', '@':
			part, p.bare = rest[:1], false
		default:
			part = regexp.QuoteMeta(rest[:1])
		}
		p.literal = p.literal && !strings.ContainsAny(rest[:1], "*?[")
		form.WriteString(part)
		rest = rest[n:]
	}
	form.WriteString(`\z`)
	if p.form, err = regexp.Compile(form.String()); err != nil {
		return p, fmt.Errorf("the pattern %q can't be read: %w", text, err)
	}
	return p, nil
}

// class parses a set of characters and returns the length of its text.
func class(text string) (form string, n int, err error) {
	end := strings.IndexByte(text, ']')
	if end < 0 {
		return "", 0, errors.New("a [ without its ]")
	}
	set, not := text[1:end], ""
	if rest, ok := strings.CutPrefix(set, "!"); ok {
		set, not = rest, "^"
	}
	if set == "" || strings.ContainsAny(set, `\^[/`) {
		return "", 0, errors.New("invalid set of characters in []: expected for example [a-z0-9]")
	}
	return "[" + not + set + "]", end + 1, nil
}

func (p pattern) matches(image string) bool {
	return p.form.MatchString(image) || p.bare && p.form.MatchString(withoutTag(image))
}

// withoutTag removes the tag and digest of an image. A colon before the last slash precedes the
// registry's port.
func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}
