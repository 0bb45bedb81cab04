package api

import (
	"cmp"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const redacted = "[redacted]"

// leastSecret is the length from which a value of an environment may be a
// secret: taking short ones, such as "1", out of messages would spoil them.
const leastSecret = 8

// envSecrets are the values of an environment that must not be shown. Only the
// configuration knows which of them are sensitive. The longest come first: one
// may hold another.
func envSecrets(env map[string]string) []string {
	var out []string
	for _, v := range env {
		if len(v) >= leastSecret {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	return out
}

func secretOfEndpoint(e Endpoint) []string {
	if e.Container == nil {
		return nil
	}
	return envSecrets(e.Container.Env)
}

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
	var plain strings.Builder // JSON without the escapes for HTML
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(secret) // a string always can be
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
