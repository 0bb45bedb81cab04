package wire

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Secrets are values that no output may contain. They are replaced by value, so no pattern
// has to guess how a secret looks. The zero Secrets is empty.
type Secrets struct {
	mu     sync.RWMutex
	values []secret // longest first, since one may contain another
}

type secret struct{ value, shown string }

// Add makes a value secret. Output shows $name instead. Values shorter than four characters
// are ignored, since they would occur everywhere.
func (s *Secrets) Add(name, value string) {
	if len(value) < 4 {
		return
	}
	var quoted, plain strings.Builder // JSON with and without the escapes for HTML
	e := json.NewEncoder(&quoted)
	_ = e.Encode(value) // can't fail for a string
	e = json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(value)
	inner := func(text string) string { return text[1 : len(text)-len("\"\n")] }
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range []string{value, url.QueryEscape(value), inner(quoted.String()), inner(plain.String())} {
		if !slices.ContainsFunc(s.values, func(x secret) bool { return x.value == v }) {
			s.values = append(s.values, secret{v, "$" + name})
		}
	}
	slices.SortStableFunc(s.values, func(a, b secret) int { return len(b.value) - len(a.value) })
}

// Cut returns the first n bytes of a text, redacted. A secret across the end is redacted as
// a whole; a cut before redaction would show half of it.
func (s *Secrets) Cut(text []byte, n int) string {
	n = min(n, len(text))
	s.mu.RLock()
	defer s.mu.RUnlock()
	var b strings.Builder
next:
	for i := 0; i < n; {
		for _, x := range s.values {
			if len(text)-i >= len(x.value) && string(text[i:i+len(x.value)]) == x.value {
				b.WriteString(x.shown)
				i += len(x.value)
				continue next
			}
		}
		b.WriteByte(text[i])
		i++
	}
	return strings.ToValidUTF8(b.String(), "")
}

// Redact replaces the secrets in a text.
func (s *Secrets) Redact(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, x := range s.values {
		text = strings.ReplaceAll(text, x.value, x.shown)
	}
	return text
}
