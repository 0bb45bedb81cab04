// Package near suggests similar words for an unknown word.
package near

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
)

// maxWords is the maximum number of suggested words.
const maxWords = 5

// Matches returns the known words that are similar to a word, the most similar first.
func Matches(word string, known []string) []string {
	matches := rank(word, known)
	out := make([]string, 0, maxWords)
	for _, m := range matches[:min(maxWords, len(matches))] {
		out = append(out, m.word)
	}
	return out
}

type match struct {
	word         string
	sameModel    bool // has the same model number (H100 isn't H200)
	containsWord bool // contains the word, and other characters
	distance     int
}

func rank(word string, known []string) (matches []match) {
	lower := strings.ToLower(word)
	core := withoutVendor(lower, known)
	for _, k := range known {
		candidate := strings.ToLower(k)
		distance := levenshtein.Distance(lower, candidate, nil)
		model := hasModel(core, candidate)
		contains := model || isWordOf(core, candidate) || len(core) >= 3 && strings.Contains(candidate, core)
		if contains || distance <= 1+len(lower)/3 || len(candidate) >= 3 && strings.Contains(lower, candidate) {
			matches = append(matches, match{k, model, contains && distance > 1, distance})
		}
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(a.tier()-b.tier(), a.distance-b.distance, cmp.Compare(a.word, b.word))
	})
	return slices.Compact(matches)
}

// tier orders matches: first the same model, such as "NVIDIA H100 PCIe" for "NVIDIA H100"; then names that
// differ by at most one character; then names that contain the word; then names with a similar spelling.
func (m match) tier() int {
	switch {
	case m.sameModel:
		return 0
	case m.distance <= 1:
		return 1
	case m.containsWord:
		return 2
	}
	return 3
}

// withoutVendor removes a prefix that several known names share, such as NVIDIA.
func withoutVendor(word string, known []string) string {
	vendor, rest, ok := strings.Cut(word, " ")
	rest = strings.TrimSpace(rest)
	withVendor := 0
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), vendor+" ") {
			withVendor++
		}
	}
	if !ok || withVendor < 2 || len(rest) < 2 {
		return word
	}
	return rest
}

// hasModel reports whether a name contains all parts of word, and one of them has a digit.
func hasModel(word, name string) bool {
	words, names := strings.FieldsFunc(word, isSeparator), strings.FieldsFunc(name, isSeparator)
	return strings.ContainsAny(word, "0123456789") && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(names, w) })
}

// isWordOf reports whether a word is one of a name's words, like L4 in "NVIDIA L4", or several of them joined,
// like RTX4090 in "RTX 4090".
func isWordOf(word, name string) bool {
	words, joined := strings.FieldsFunc(name, isSeparator), strings.Join(strings.FieldsFunc(word, isSeparator), "")
	return slices.Contains(words, word) || len(joined) >= 3 && strings.Contains(strings.Join(words, ""), joined)
}

func isSeparator(r rune) bool { return r == ' ' || r == '-' || r == '_' }

// Suggest returns the end of an error about an unknown word: "; did you mean …?" with the most
// similar words. It returns "" if there are none.
func Suggest(word string, known []string) string {
	matches := rank(word, known)
	var words []string
	for _, m := range matches[:min(maxWords, len(matches))] {
		if first := matches[0]; m.tier() != first.tier() || !first.containsWord && m.distance != first.distance {
			break
		}
		words = append(words, strconv.Quote(m.word))
	}
	if len(words) == 0 {
		return ""
	}
	last := len(words) - 1
	return "; did you mean " + strings.TrimPrefix(strings.Join(words[:last], ", ")+" or "+words[last], " or ") + "?"
}

// First returns the first known words in alphabetical order, for an error about a word with no similar ones.
func First(known []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(known)))
	return sorted[:min(maxWords, len(sorted))]
}
