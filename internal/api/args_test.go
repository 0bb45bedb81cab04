package api_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

func TestSplitArgs(t *testing.T) {
	for args, want := range map[string][]string{
		``:                       nil,
		`  `:                     nil,
		`a`:                      {"a"},
		`python -u handler.py`:   {"python", "-u", "handler.py"},
		`python "my handler.py"`: {"python", "my handler.py"},
		`python 'my handler.py'`: {"python", "my handler.py"},
		`a\ b`:                   {"a b"},
		`a ""`:                   {"a", ""},
		"a\n\tb":                 {"a", "b"},
		`#a $b *`:                {"#a", "$b", "*"},
	} {
		if got, err := api.SplitArgs(args); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", args, got, err, want)
		}
	}
	for _, args := range []string{`secret '`, `secret "`, `secret\`} {
		if _, err := api.SplitArgs(args); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", args, err)
		}
	}
}

func TestJoinArgsIsUndoneBySplitArgs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.String()).Draw(t, "words")
		got, err := api.SplitArgs(api.JoinArgs(words))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("%q became %q (%v)", words, got, err)
		}
	})
}

// A shell splits what is joined into the same words.
func TestJoinArgsForAShell(t *testing.T) {
	words := []string{"a", "#b", "#", "c#d", "#it's", "\r", "e\rf", "it's\r", "\v\f", "\u00a0", "\u2028", "\x1b[1m", "", " ", "~", "~root", "$HOME", "`id`", "$(id)", "*", "?", "[a]", "{a,b}", "!", "!!", "\\", "'", `"`, "a=b", "-n", "\t", "\n", "a\nb", "&", "|", ";", "<", ">", "(", ")", "^", "%1", "=ls"}
	for _, shell := range []string{"sh", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		out, err := exec.CommandContext(t.Context(), shell, "-c", `printf '%s\0' `+api.JoinArgs(words)).Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, words) {
			t.Errorf("%s: got %q, %v\nwant %q", shell, got, err, words)
		}
	}
	for word, want := range map[string]string{"#b": "'#b'", "\r": "'\r'", "c#d": "c#d", "#it's": `'#it'\''s'`, "my handler.py": "'my handler.py'"} {
		if got := api.JoinArgs([]string{"a", word}); got != "a "+want {
			t.Errorf("%q: got %q", word, got)
		}
	}
}
