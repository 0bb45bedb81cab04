package httpclient

import (
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

const redacted = "[redacted]"

// sanitize makes foreign text fit for a message: no secret by value, one line of
// printable characters, at most max of them.
func (c *Client) sanitize(call Call, text string, max int) string {
	for _, secret := range append([]string{c.APIKey}, call.Secrets...) {
		for _, form := range spellings(secret) {
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

// spellings lists the ways in which an answer may spell a secret.
func spellings(secret string) []string {
	if secret == "" {
		return nil
	}
	quoted, _ := json.Marshal(secret)
	var plain strings.Builder // JSON without the escapes for HTML
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(secret) // a string can always be encoded
	return []string{
		secret,
		unquoted(string(quoted)),
		unquoted(strings.TrimSpace(plain.String())),
		unquoted(strconv.Quote(secret)),
		unquoted(strconv.QuoteToASCII(secret)),
		url.QueryEscape(secret),
		url.PathEscape(secret),
		html.EscapeString(secret),
	}
}

func unquoted(quoted string) string { return quoted[1 : len(quoted)-1] }
