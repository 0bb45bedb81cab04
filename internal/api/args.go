package api

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/kballard/go-shellquote"
)

// SplitArgs splits the one string of Template.Args into the words that API v1
// wants, as a shell does. The error does not repeat the string.
func SplitArgs(args string) ([]string, error) {
	words, err := shellquote.Split(args)
	if err != nil {
		return nil, fmt.Errorf("args can't be split into words: %w", err)
	}
	return words, nil
}

// JoinArgs makes one string of words, quoted so that SplitArgs and a shell give the same
// words again.
func JoinArgs(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellquote.Join(word)
		if beyondShellquote(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// beyondShellquote reports whether a word has what shellquote doesn't quote: the beginning
// of a comment, or white space and control characters at which some splitters split.
func beyondShellquote(word string) bool {
	return strings.HasPrefix(word, "#") || strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune(" \t\n", r) && (unicode.IsSpace(r) || unicode.IsControl(r))
	})
}
