package api_test

import (
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
