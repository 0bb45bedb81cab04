// Package redact keeps secrets and terminal escapes out of diagnostics, logs and the
// state. A Set collects the secrets that one call of the plugin protocol sees; text that
// comes from a worker, a pod or a server passes through its Text or Line.
package redact

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const Redacted = "[redacted]"

// Set holds secrets. It is safe for concurrent use. A nil Set is empty.
type Set struct {
	mu      sync.Mutex
	sources []func() []string // not evaluated yet
	isLong  map[string]bool   // by spelling of a secret
	long    []string          // long secrets, the longest first
	tokens  []string          // short secrets, the longest first
}

type contextKey struct{}

// NewContext returns a context with a set. It keeps an existing one.
func NewContext(ctx context.Context) (context.Context, *Set) {
	if s := FromContext(ctx); s != nil {
		return ctx, s
	}
	s := new(Set)
	return context.WithValue(ctx, contextKey{}, s), s
}

func FromContext(ctx context.Context) *Set {
	s, _ := ctx.Value(contextKey{}).(*Set)
	return s
}

func (s *Set) Add(values ...string) { s.AddLater(func() []string { return values }) }

// AddJSON adds the values of the members of a request or answer that IsSecret accepts.
func (s *Set) AddJSON(document []byte) {
	s.AddLater(func() []string { return secretsIn(document) })
}

// AddLater adds secrets that are collected when the next text is redacted.
func (s *Set) AddLater(collect func() []string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, collect)
}

// evaluate collects the secrets that were added since its last call.
func (s *Set) evaluate() (long, tokens []string) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.isLong)
	for _, collect := range s.sources {
		for _, secret := range collect() {
			s.addSpellings(secret)
		}
	}
	s.sources = nil
	if len(s.isLong) == before {
		return s.long, s.tokens
	}
	s.long, s.tokens = nil, nil
	longestFirst := func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) } // one may contain another
	for _, spelling := range slices.SortedFunc(maps.Keys(s.isLong), longestFirst) {
		if s.isLong[spelling] {
			s.long = append(s.long, spelling)
		} else {
			s.tokens = append(s.tokens, spelling)
		}
	}
	return s.long, s.tokens
}

func (s *Set) addSpellings(secret string) {
	if s.isLong == nil {
		s.isLong = map[string]bool{}
	}
	seen := map[string]bool{}
	for _, part := range parts(secret) {
		n := utf8.RuneCountInString(part)
		if n == 0 || seen[part] || isOrdinary(part) {
			continue
		}
		seen[part] = true
		for _, spelling := range spellings(part) {
			s.isLong[spelling] = s.isLong[spelling] || n >= minLong
		}
	}
}

// Text makes a text from elsewhere one printable line without secrets, of at most limit characters.
func (s *Set) Text(text string, limit int) string {
	runes := []rune(strings.Join(strings.Fields(s.mask(printable(text))), " "))
	if len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return string(runes)
}

// Line cleans a line of a log for a terminal and the state. It keeps white space, except at the end.
func (s *Set) Line(text string) string {
	return strings.TrimRightFunc(strings.ReplaceAll(s.Lines(text), "\n", " "), unicode.IsSpace)
}

// Lines is Line for a text with several lines.
func (s *Set) Lines(text string) string { return lineEnds.Replace(s.mask(printable(text))) }

// Message removes escape sequences and long secrets from the provider's own text, which may contain a
// short secret by chance.
func (s *Set) Message(text string) string {
	long, _ := s.evaluate()
	return maskAnywhere(printable(text), long)
}

func (s *Set) mask(text string) string {
	long, tokens := s.evaluate()
	text = maskAnywhere(text, long)
	for _, token := range tokens {
		text = maskToken(text, token)
	}
	return text
}

var (
	lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	// escapes are a terminal's control sequences (ECMA-48). The alternatives are: CSI sequences; OSC and other
	// string sequences, with their text; all other sequences.
	escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\a\x1b\u009c]*(?:\a|\x1b\\\\|\u009c)?|\x1b[ -/]*[0-~]?")
)

// printable removes control sequences and invisible characters. This happens before the search
// for secrets, because such a character may split a secret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r), r == '\n', r == '\r', r == '\t':
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, escapes.ReplaceAllString(text, ""))
}
