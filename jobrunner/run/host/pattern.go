package host

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// pattern matches images. * matches any characters except /, ? matches one of them, **
// matches any characters, [a-c] matches one character of the set, and [!a-c] one character
// outside it. A pattern without a tag or digest matches every tag and digest.
//
// Libraries for paths, such as doublestar, differ: their team/** also matches team, and { }
// are alternatives.
type pattern struct {
	text      string
	form      *regexp.Regexp
	lacksTag  bool // it has neither tag nor digest
	isLiteral bool // it has no wildcards
}

var (
	patternToken = regexp.MustCompile(`(?s)\*\*|\[[^]]*\]?|.`)
	patternSet   = regexp.MustCompile(`^\[!?[^\\^\[/]+\]$`)
	wildcards    = map[string]string{"**": `.*`, "*": `[^/]*`, "?": `[^/]`}
)

func parsePattern(text string) (p pattern, err error) {
	if text == "" {
		return p, errors.New("image is empty: name one, such as team/worker, or a pattern, such as team/**")
	}
	p = pattern{text: text, isLiteral: true, lacksTag: true}
	form := patternToken.ReplaceAllStringFunc(text, func(token string) string {
		wildcard, ok := wildcards[token]
		switch {
		case patternSet.MatchString(token):
			wildcard, ok = strings.Replace(token, "[!", "[^", 1), true
		case token[0] == '[':
			err = fmt.Errorf("the pattern %q has an invalid set of characters, or a [ without its ]: expected for example [a-z0-9]", text)
		case strings.ContainsAny(token, "/:@"):
			p.lacksTag = token == "/" // a colon before the last slash precedes the registry's port
		}
		if p.isLiteral = p.isLiteral && !ok; ok {
			return wildcard
		}
		return regexp.QuoteMeta(token)
	})
	if err != nil {
		return p, err
	}
	if p.form, err = regexp.Compile(`\A` + form + `\z`); err != nil {
		return p, fmt.Errorf("the pattern %q can't be read: %w", text, err)
	}
	return p, nil
}

func (p pattern) matches(image string) bool {
	return p.form.MatchString(image) || p.lacksTag && p.form.MatchString(withoutTag(image))
}

// withoutTag removes an image's tag and digest. A colon before the last slash precedes a port.
func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}
