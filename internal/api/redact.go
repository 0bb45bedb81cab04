package api

import (
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"unicode"
)

const redacted = "[redacted]"

// clean makes foreign text fit for a message: no secret by value, one line of
// printable characters, at most max of them.
func (t *transport) clean(c call, text string, max int) string {
	for _, secret := range append([]string{t.settings.APIKey}, c.secrets...) {
		for _, form := range written(secret) {
			text = strings.ReplaceAll(text, form, redacted)
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > max {
		return string(runes[:max]) + "…"
	}
	return string(runes)
}

// written lists the ways in which an answer may spell a secret.
func written(secret string) []string {
	if secret == "" {
		return nil
	}
	quoted, _ := json.Marshal(secret)
	return []string{
		secret,
		strings.Trim(string(quoted), `"`),
		url.QueryEscape(secret),
		url.PathEscape(secret),
		html.EscapeString(secret),
	}
}
