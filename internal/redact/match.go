package redact

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	minLong  = 8  // secrets of at least this length are redacted anywhere, even inside a word
	minToken = 4  // secrets of at least this length are redacted as words, shorter ones only in the position of a value
	minLeaf  = 16 // texts of at least this length in a JSON document count as secrets themselves
)

// ordinaryValues are common environment values that aren't secrets. Redacting them would make logs unreadable.
var ordinaryValues = map[string]bool{
	"true": true, "false": true, "yes": true, "none": true, "null": true, "auto": true, "trace": true, "debug": true, "info": true,
	"warn": true, "warning": true, "error": true, "fatal": true, "prod": true, "cuda": true, "default": true, "enabled": true,
}

// isOrdinary reports whether a value is public: an ordinary value, or the address of a host, which
// errors about requests contain.
func isOrdinary(value string) bool {
	u, err := url.Parse(value)
	address := err == nil && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery+u.Fragment == ""
	return address || ordinaryValues[strings.ToLower(value)]
}

// parts returns a secret and its parts that may appear alone: the lines of a key, the texts of
// a JSON document, and the password of a URL.
func parts(secret string) []string {
	out := []string{secret}
	if lines := strings.Split(strings.ReplaceAll(secret, `\n`, "\n"), "\n"); len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= minToken {
				out = append(out, line)
			}
		}
	}
	var document any
	if strings.IndexAny(strings.TrimSpace(secret), "{[") == 0 && json.Unmarshal([]byte(secret), &document) == nil {
		walk(document, func(leaf string) {
			if len(leaf) >= minLeaf && leaf != secret {
				out = append(out, parts(leaf)...)
			}
		})
	}
	if u, err := url.Parse(secret); err == nil {
		if password, ok := u.User.Password(); ok {
			out = append(out, password)
		}
	}
	return out
}

// words returns the arguments of a command that may be secrets: no options, file names or images.
func words(command string) (out []string) {
	for _, word := range strings.FieldsFunc(command, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'=,;`, r) }) {
		if len(word) >= minLong && !strings.HasPrefix(word, "-") && !strings.ContainsAny(word, "/.") {
			out = append(out, word)
		}
	}
	return out
}

// spellings returns the forms in which a text may contain a secret.
func spellings(secret string) []string {
	if !strings.ContainsFunc(secret, mayBeEncoded) {
		return []string{secret}
	}
	quoted, _ := json.Marshal(secret)
	all := []string{
		secret,
		unquoted(string(quoted)),
		unquoted(JSON(secret)),
		unquoted(asciiJSON(secret)),
		unquoted(strconv.Quote(secret)),
		unquoted(strconv.QuoteToASCII(secret)),
		url.QueryEscape(secret),
		url.PathEscape(secret),
		html.EscapeString(secret),
		printable(secret),
		strings.Join(strings.Fields(secret), " "),
	}
	return slices.DeleteFunc(all, func(spelling string) bool { return spelling == "" })
}

// mayBeEncoded reports whether one of the encodings may change a character.
func mayBeEncoded(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// asciiJSON returns the JSON of a text as Python writes it: only with ASCII characters.
func asciiJSON(text string) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(JSON(text))) {
		if unit < utf8.RuneSelf {
			out = append(out, byte(unit))
		} else {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return string(out)
}

func unquoted(quoted string) string { return quoted[1 : len(quoted)-1] }

// maskAnywhere redacts secrets anywhere in a text. It isn't a strings.Replacer, which takes
// quadratic time for a secret that repeats one character.
func maskAnywhere(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, Redacted)
	}
	return text
}

// maskToken redacts a short secret that stands alone.
func maskToken(text, token string) string {
	for start := 0; ; {
		i := strings.Index(text[start:], token)
		if i < 0 {
			return text
		}
		before, after := text[:start+i], text[start+i+len(token):]
		if standsAlone(before, after, utf8.RuneCountInString(token)) {
			text = before + Redacted + after
			start = len(before) + len(Redacted)
			continue
		}
		_, size := utf8.DecodeRuneInString(token)
		start = len(before) + size
	}
}

// standsAlone reports whether a short secret between two texts is a value. It isn't if it is
// a part of a word, a word in a sentence, or the name of a JSON member.
func standsAlone(before, after string, length int) bool {
	left, _ := utf8.DecodeLastRuneInString(before)
	right, _ := utf8.DecodeRuneInString(strings.TrimPrefix(after, `\`))
	quoted := left == right && strings.ContainsRune("\"'`", left)
	switch {
	case isWordCharacter(left) || isWordCharacter(right):
		return false
	case quoted:
		rest := strings.TrimPrefix(after, `\`)[1:]
		return !strings.HasPrefix(strings.TrimLeft(rest, " "), ":")
	}
	return length >= minToken || left == '=' || before == "" && after == ""
}

// isWordCharacter reports whether r belongs to a word. The utf8.RuneError of an empty text doesn't.
func isWordCharacter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
