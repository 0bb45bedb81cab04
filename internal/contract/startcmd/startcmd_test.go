package startcmd_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]startcmd.Command{
		``:                       {},
		`  `:                     {},
		`a`:                      {Cmd: []string{"a"}},
		`python -u handler.py`:   {Cmd: []string{"python", "-u", "handler.py"}},
		`python "my handler.py"`: {Cmd: []string{"python", "my handler.py"}},
		`python 'my handler.py'`: {Cmd: []string{"python", "my handler.py"}},
		`a\ b`:                   {Cmd: []string{"a b"}},
		`a ""`:                   {Cmd: []string{"a", ""}},
		"a\n\tb":                 {Cmd: []string{"a", "b"}},
		`#a $b *`:                {Cmd: []string{"#a", "$b", "*"}},

		`{"entrypoint":["sh","-c"],"cmd":["a b"]}`: {Entrypoint: []string{"sh", "-c"}, Cmd: []string{"a b"}},
		` { "cmd" : [ "" ] } `:                     {Cmd: []string{""}},
		`{"entrypoint":["e"]}`:                     {Entrypoint: []string{"e"}},
		`{"entrypoint":[],"cmd":null}`:             {},
		// JSON of another form is a shell string.
		`{}`:                        {Cmd: []string{"{}"}},
		`{"cmd":"a"}`:               {Cmd: []string{"{cmd:a}"}},
		`{"cmd":[null]}`:            {Cmd: []string{"{cmd:[null]}"}},
		`{"cmd":["a"],"env":["b"]}`: {Cmd: []string{"{cmd:[a],env:[b]}"}},
		`{"CMD":["a"]}`:             {Cmd: []string{"{CMD:[a]}"}},
		`{"cmd":["a"]} b`:           {Cmd: []string{"{cmd:[a]}", "b"}},
		`["a"]`:                     {Cmd: []string{"[a]"}},
	} {
		got := must.Do(startcmd.Parse(args))(t)
		must.Hold(t, got.Equal(want), args, "is parsed as", got, "want", want)
	}
	for _, args := range []string{`secret '`, `secret "`, `secret\`, `{"cmd":["secret`} {
		got, err := startcmd.Parse(args)
		must.Hold(t, err != nil && !strings.Contains(err.Error(), "secret") && got.Equal(startcmd.Command{Cmd: []string{args}}),
			args, "is parsed as", got, "with the error", err, "expected itself as the only word and an error that doesn't repeat it")
	}
}

func TestParseUndoesStringAndJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.String())
		want := startcmd.Command{Entrypoint: words.Draw(t, "entrypoint"), Cmd: words.Draw(t, "cmd")}
		for _, args := range []string{want.String(), want.JSON()} {
			if got, err := startcmd.Parse(args); err != nil || !got.Equal(want) {
				t.Fatalf("%q became %q and %q (%v)", want, args, got, err)
			}
		}
	})
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		command    startcmd.Command
		text, json string
	}{
		{startcmd.Command{}, "", ""},
		{startcmd.Command{Cmd: []string{"a b", "&<"}}, `'a b' \&\<`, `{"entrypoint":[],"cmd":["a b","&<"]}`},
		{startcmd.Command{Entrypoint: []string{"e"}}, `{"entrypoint":["e"],"cmd":[]}`, `{"entrypoint":["e"],"cmd":[]}`},
	} {
		must.Hold(t, c.command.String() == c.text && c.command.JSON() == c.json, "got", c.command.String(), "and", c.command.JSON(), "want", c.text, "and", c.json)
	}
}

// A shell splits the joined text into the words that were joined.
func TestJoinForAShell(t *testing.T) {
	words := []string{"a", "#b", "#", "c#d", "#it's", "\r", "e\rf", "it's\r", "\v\f", "\u00a0", "\u2028", "\x1b[1m", "", " ", "~", "~root", "$HOME", "`id`", "$(id)", "*", "?", "[a]", "{a,b}", "!", "!!", "\\", "'", `"`, "a=b", "-n", "\t", "\n", "a\nb", "&", "|", ";", "<", ">", "(", ")", "^", "%1", "=ls"}
	for _, shell := range []string{"sh", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		out, err := exec.CommandContext(t.Context(), shell, "-c", `printf '%s\0' `+startcmd.Join(words)).Output()
		got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		must.Hold(t, err == nil && slices.Equal(got, words), shell, "splits into", got, err, "want", words)
	}
	for word, want := range map[string]string{"#b": "'#b'", "\r": "'\r'", "c#d": "c#d", "#it's": `'#it'\''s'`, "my handler.py": "'my handler.py'"} {
		must.Equal(t, startcmd.Join([]string{"a", word}), "a "+want, word)
	}
}
