// Package startcmd converts the start command of a container between its forms: an
// entrypoint and a cmd, which are lists of words, and args, the one string that both
// management APIs store. args is either a shell string, whose words are the cmd, or the
// JSON object {"entrypoint":[…],"cmd":[…]}.
package startcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/kballard/go-shellquote"
)

// Command is the start command of a container. An empty list means the image's own.
type Command struct {
	Entrypoint []string `json:"entrypoint"`
	Cmd        []string `json:"cmd"`
}

// Parse returns the command that args mean. If args can't be split into words, they are
// the only word of Cmd, and the error says why without repeating them.
func Parse(args string) (Command, error) {
	if c, ok := ParseJSON(args); ok {
		return c, nil
	}
	words, err := shellquote.Split(args)
	if err != nil {
		return Command{Cmd: []string{args}}, fmt.Errorf("args can't be split into words: %w", err)
	}
	return Command{Cmd: words}, nil
}

// ParseJSON returns the command of args in the JSON form. ok is false for other args. The form is
// an object with one or both members, each a list of strings or null, and no other member.
func ParseJSON(args string) (c Command, ok bool) {
	var members map[string][]*string
	if !strings.HasPrefix(strings.TrimSpace(args), "{") || json.Unmarshal([]byte(args), &members) != nil || len(members) == 0 {
		return c, false
	}
	for name, words := range members {
		list := map[string]*[]string{"entrypoint": &c.Entrypoint, "cmd": &c.Cmd}[name]
		if list == nil || slices.Contains(words, nil) {
			return Command{}, false
		}
		for _, word := range words {
			*list = append(*list, *word)
		}
	}
	return c, true
}

func (c Command) Words() []string { return slices.Concat(c.Entrypoint, c.Cmd) }

func (c Command) Equal(d Command) bool {
	return slices.Equal(c.Entrypoint, d.Entrypoint) && slices.Equal(c.Cmd, d.Cmd)
}

// String returns args that mean the command: a shell string if it has no entrypoint.
func (c Command) String() string {
	if len(c.Entrypoint) == 0 {
		return Join(c.Cmd)
	}
	return c.JSON()
}

// JSON returns args that mean the command, in the JSON form; "" if the command is empty.
func (c Command) JSON() string {
	if len(c.Words()) == 0 {
		return ""
	}
	c.Entrypoint, c.Cmd = append([]string{}, c.Entrypoint...), append([]string{}, c.Cmd...)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(c) // never fails for lists of strings
	return strings.TrimSuffix(text.String(), "\n")
}

// Join makes one string of words, quoted so that a shell gives the same words again.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellquote.Join(word)
		if needsOwnQuoting(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// needsOwnQuoting reports whether a word has characters that shellquote doesn't quote: a # that begins a
// comment, or white space and control characters at which some splitters split.
func needsOwnQuoting(word string) bool {
	return strings.HasPrefix(word, "#") || strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune(" \t\n", r) && (unicode.IsSpace(r) || unicode.IsControl(r))
	})
}
