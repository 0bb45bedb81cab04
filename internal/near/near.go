// Package near finds what somebody may have meant by a word that does not exist.
package near

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
)

// most is how many words a message names.
const most = 5

// Matches are the known words that are near a word, the nearest first.
func Matches(word string, known []string) []string {
	matches := rank(word, known)
	out := make([]string, 0, most)
	for _, m := range matches[:min(most, len(matches))] {
		out = append(out, m.word)
	}
	return slices.Compact(out)
}

type match struct {
	word     string
	model    bool // has the number that the searched one has: "H100" is not H200
	contains bool // all words of the searched one
	distance int
}

func rank(word string, known []string) (matches []match) {
	lower := strings.ToLower(word)
	own := withoutVendor(lower, known)
	for _, k := range known {
		candidate := strings.ToLower(k)
		distance := levenshtein.Distance(lower, candidate, nil)
		model := hasModel(own, candidate)
		contains := model || isWordOf(own, candidate) || len(own) >= 3 && strings.Contains(candidate, own)
		if contains || distance <= 1+len(lower)/3 || len(candidate) >= 3 && strings.Contains(lower, candidate) {
			matches = append(matches, match{k, model && distance > 1, contains && distance > 1, distance})
		}
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(a.tier()-b.tier(), a.distance-b.distance, cmp.Compare(a.word, b.word))
	})
	return slices.Compact(matches)
}

// tier orders names of the same model, such as "NVIDIA H100 PCIe" for "NVIDIA H100", before
// a slip of one character, that before names that contain the word, and those before names
// that are spelled like it.
func (m match) tier() int {
	switch {
	case m.model:
		return 0
	case m.distance <= 1:
		return 1
	case m.contains:
		return 2
	}
	return 3
}

// withoutVendor is a word without its beginning, where that begins several known names,
// as NVIDIA does: it tells none from another.
func withoutVendor(word string, known []string) string {
	vendor, rest, ok := strings.Cut(word, " ")
	rest = strings.TrimSpace(rest)
	begin := 0
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), vendor+" ") {
			begin++
		}
	}
	if !ok || begin < 2 || len(rest) < 2 {
		return word
	}
	return rest
}

// hasModel tells whether all words are among those of a name, one with a digit among them.
func hasModel(word, name string) bool {
	words, names := strings.FieldsFunc(word, isBetween), strings.FieldsFunc(name, isBetween)
	return strings.ContainsAny(word, "0123456789") && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(names, w) })
}

// isWordOf tells whether a word is one of a name's, such as L4 of "NVIDIA L4", or several
// without what is between them, such as RTX4090.
func isWordOf(word, name string) bool {
	words := strings.FieldsFunc(name, isBetween)
	if slices.Contains(words, word) {
		return true
	}
	joined := strings.Join(strings.FieldsFunc(word, isBetween), "")
	return len(joined) >= 3 && strings.Contains(strings.Join(words, ""), joined)
}

func isBetween(r rune) bool { return r == ' ' || r == '-' || r == '_' }

// Suggest is the end of an error about an unknown word: "; did you mean …?" with
// the nearest known word, or several that are equally near or contain it, or nothing
// where none is.
func Suggest(word string, known []string) string {
	var words []string
	for i, matches := 0, rank(word, known); i < min(most, len(matches)); i++ {
		if m, first := matches[i], matches[0]; m.tier() != first.tier() || !first.contains && m.distance != first.distance {
			break
		}
		words = append(words, strconv.Quote(matches[i].word))
	}
	if len(words) == 0 {
		return ""
	}
	last := len(words) - 1
	if last == 0 {
		return "; did you mean " + words[0] + "?"
	}
	return "; did you mean " + strings.Join(words[:last], ", ") + " or " + words[last] + "?"
}

// First are some of the known words, in their order, where none is near.
func First(known []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(known)))
	return sorted[:min(most, len(sorted))]
}
