package api

import (
	"fmt"

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

// JoinArgs makes one string of words, quoted so that SplitArgs gives the same
// words again.
func JoinArgs(words []string) string { return shellquote.Join(words...) }
