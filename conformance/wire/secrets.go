package wire

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Secrets are values that must be in no output. They are replaced by value,
// wherever and however they come: no pattern has to guess what a secret looks
// like. The zero Secrets has none.
type Secrets struct {
	mu     sync.RWMutex
	values []secret // longest first, so that one that holds another goes first
}

type secret struct{ value, shown string }

// Add makes a value secret; name is what is shown in its place, as $name.
// Values of fewer than four characters would blank out half of every text.
func (s *Secrets) Add(name, value string) {
	if len(value) < 4 {
		return
	}
	quoted, _ := json.Marshal(value) // a string always can be
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range []string{value, url.QueryEscape(value), strings.Trim(string(quoted), `"`)} {
		if !slices.ContainsFunc(s.values, func(x secret) bool { return x.value == v }) {
			s.values = append(s.values, secret{v, "$" + name})
		}
	}
	slices.SortStableFunc(s.values, func(a, b secret) int { return len(b.value) - len(a.value) })
}

// Redact is a text without the secrets.
func (s *Secrets) Redact(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, x := range s.values {
		text = strings.ReplaceAll(text, x.value, x.shown)
	}
	return text
}
