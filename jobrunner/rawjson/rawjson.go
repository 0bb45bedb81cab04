// Package rawjson parses JSON texts (RFC 8259) in one pass and without copies. It is for documents of
// megabytes that are passed on unchanged, for which encoding/json needs several slower passes. It accepts
// exactly the texts that encoding/json accepts.
//
// No library does this as cheaply: a decoder of tokens and raw values (go-json-experiment's jsontext, which has
// no release yet) takes 2.9 times as long for a body of 1 KB, and 3.5 times for a body of 1 MB, which it copies.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

func Valid(text []byte) bool {
	s := scanner{text: text}
	return s.value() && s.end()
}

// Members returns the members of an object that have one of the names. If members have the same name, it
// returns the last one. The values are slices of the text. ok is false if the text isn't a JSON object.
func Members(text []byte, names ...string) (members map[string]json.RawMessage, ok bool) {
	members = make(map[string]json.RawMessage, len(names))
	s := scanner{text: text}
	s.space()
	if !s.at('{') {
		return nil, false
	}
	ok = s.object(func(quoted, value []byte) {
		if name, match := find(quoted, names); match {
			members[name] = value
		}
	}) && s.end()
	return members, ok
}

func find(quoted []byte, names []string) (name string, ok bool) {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 || !utf8.Valid(text) {
		var value string
		_ = json.Unmarshal(quoted, &value) // never fails: it was scanned
		text = []byte(value)
	}
	for _, name := range names {
		if string(text) == name {
			return name, true
		}
	}
	return "", false
}

// IsUnicode reports whether a JSON text is valid UTF-8 and its escapes have no unpaired surrogates.
// encoding/json replaces invalid bytes and unpaired surrogates by U+FFFD.
func IsUnicode(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		next := i + 2
		if r := unicodeEscape(text[i:]); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, unicodeEscape(text[i+6:])) == utf8.RuneError {
				return false
			}
			next = i + 12
		}
		more := bytes.IndexByte(text[next:], '\\')
		if more < 0 {
			break
		}
		i = next + more
	}
	return true
}

// unicodeEscape returns the code unit of the \u escape at the start of a text, or -1.
func unicodeEscape(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// Count returns the number of elements and members in a JSON text, at most limit: each would cost memory in a
// decoded tree. An empty array or object counts as if it had one element. Count doesn't check the syntax.
func Count(text []byte, limit int) (n int) {
	inString, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == ',', c == '[', c == '{':
			if n++; n >= limit {
				return n
			}
		}
	}
	return n
}

// Fault returns nil if the text is JSON, or an error that says at which byte the text is invalid, and why.
func Fault(text []byte) error {
	err := json.Unmarshal(text, new(json.RawMessage))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		for _, name := range []string{"NaN", "Infinity"} { // Python's json writes them
			if bytes.HasPrefix(text[max(0, syntax.Offset-1):], []byte(name)) {
				return fmt.Errorf("at byte %d: JSON has no %s", syntax.Offset, name)
			}
		}
		return fmt.Errorf("at byte %d: %w", syntax.Offset, err)
	}
	return err
}

// maxDepth is the maximum depth of nested values, as in encoding/json.
const maxDepth = 10_000

// scanner is a position in a text. Its methods, except the method at, skip the element in their name, and return
// false if the element isn't there.
type scanner struct {
	text  []byte
	pos   int
	depth int
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.text) && s.text[s.pos] == c }

func (s *scanner) skip(c byte) bool {
	if s.at(c) {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// end reports whether only space follows.
func (s *scanner) end() bool {
	s.space()
	return s.pos == len(s.text)
}

func (s *scanner) value() bool {
	s.space()
	if s.pos == len(s.text) {
		return false
	}
	switch s.text[s.pos] {
	case '{':
		return s.object(nil)
	case '[':
		return s.list('[', ']', s.value)
	case '"':
		return s.str()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.text[s.pos:], []byte(w)) {
		return false
	}
	s.pos += len(w)
	return true
}

// object calls visit, which may be nil, for each member.
func (s *scanner) object(visit func(name, value []byte)) bool {
	return s.list('{', '}', func() bool {
		from := s.pos
		if !s.str() {
			return false
		}
		name := s.text[from:s.pos]
		s.space()
		if !s.skip(':') {
			return false
		}
		s.space()
		from = s.pos
		if !s.value() {
			return false
		}
		if visit != nil {
			visit(name, s.text[from:s.pos:s.pos])
		}
		return true
	})
}

// list skips elements that are separated by commas.
func (s *scanner) list(begin, end byte, element func() bool) bool {
	if s.depth++; s.depth > maxDepth || !s.skip(begin) {
		return false
	}
	s.space()
	if !s.at(end) {
		for more := true; more; more = s.skip(',') {
			s.space()
			if !element() {
				return false
			}
			s.space()
		}
	}
	s.depth--
	return s.skip(end)
}

// plain are the bytes that need no escape in a string: all but the quote, the backslash and control characters.
var plain = func() (set [256]bool) {
	for c := range set {
		set[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return set
}()

func (s *scanner) str() bool {
	if !s.skip('"') {
		return false
	}
	for {
		rest := s.text[s.pos:]
		n := 0
		for n < len(rest) && plain[rest[n]] {
			n++
		}
		s.pos += n
		if s.skip('"') {
			return true
		}
		if !s.escape() {
			return false
		}
	}
}

func (s *scanner) escape() bool {
	if !s.skip('\\') || s.pos == len(s.text) {
		return false
	}
	s.pos++
	switch s.text[s.pos-1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if s.pos == len(s.text) || !strings.ContainsRune("0123456789abcdefABCDEF", rune(s.text[s.pos])) {
				return false
			}
			s.pos++
		}
		return true
	}
	return false
}

func (s *scanner) number() bool {
	s.skip('-')
	if !s.skip('0') && !s.digits() {
		return false
	}
	if s.skip('.') && !s.digits() {
		return false
	}
	if s.skip('e') || s.skip('E') {
		_ = s.skip('+') || s.skip('-')
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > from
}
