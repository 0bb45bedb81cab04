package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// program is the command line that the test binary parses when a shell starts it.
type program struct {
	Debug bool `help:"A flag of all commands."`
	Serve struct {
		Limits string `short:"l" enum:"on,off" default:"on"`
		Data   string
		Name   []string
		Secret string `hidden:""`
	} `cmd:""`
	Job struct {
		Run struct {
			Endpoint string `arg:""`
			Mode     string `arg:"" enum:"fast,slow"`
		} `cmd:""`
		Status struct{} `cmd:""`
	} `cmd:""`
	Inner              struct{} `cmd:"" hidden:""`
	cli.CommonCommands `embed:""`
}

func TestMain(m *testing.M) {
	if os.Getenv("COMPLETION_PROGRAM") == "" {
		os.Exit(m.Run())
	}
	ctx := kong.Parse(&program{}, kong.Name("tool"))
	ctx.FatalIfErrorf(ctx.Run())
}

// shells are scripts that print a line's completions, one per line.
var shells = map[string]struct{ program, script string }{
	"bash": {"bash", `source <(tool completion bash)
COMP_LINE=$1; read -ra COMP_WORDS <<<"$1"; [[ $1 == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _tool; printf '%s\n' "${COMPREPLY[@]}"`},
	"zsh": {"zsh", `compdef() { : }; _files() { : }
compadd() { shift; local w; for w in ${(P)1}; do [[ $w == ${words[CURRENT]}* ]] && print -r -- $w; done; true }
source <(tool completion zsh)
words=(${(s: :)1}); [[ $1 == *' ' ]] && words+=(""); CURRENT=$#words; _tool`},
	"fish": {"fish", `tool completion fish | source; complete -C"$argv[1]"`},
}

func TestShells(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.Symlink(must.Do(os.Executable())(t), filepath.Join(dir, "tool")))
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "COMPLETION_PROGRAM=1", "GOCOVERDIR=" + t.TempDir(),
		"GORACE=atexit_sleep_ms=0"} // the race detector would add a second to each call
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(shell.program)
			if err != nil && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			for line, want := range map[string]string{
				"tool ":                       "completion job serve version",
				"tool s":                      "serve",
				"tool job ":                   "run status",
				"tool job r":                  "run",
				"tool serve --l":              "--limits",
				"tool serve --limits ":        "off on",
				"tool serve -l ":              "off on",
				"tool serve --limits=o":       "--limits=off --limits=on",
				"tool --debug job st":         "status",
				"tool serve --data x --lim":   "--limits",
				"tool serve --data=x --lim":   "--limits",
				"tool serve --d":              "--data --debug",
				"tool serve --secre":          "",
				"tool job run an-endpoint ":   "fast slow",
				"tool job run an-endpoint fa": "fast",
				"tool completion ":            "bash fish zsh",
				"tool nothing -":              "--debug --help --version",
			} {
				if shell.program == "bash" && strings.Contains(line, "=") {
					line, want = strings.Replace(line, "=", " = ", 1), strings.ReplaceAll(want, "--limits=", "") // readline splits words there
				}
				cmd := exec.CommandContext(t.Context(), path, "-c", shell.script, line)
				if shell.program != "fish" {
					cmd.Args = []string{path, "-c", shell.script, shell.program, line}
				}
				cmd.Env, cmd.Dir = env, dir
				var errs bytes.Buffer
				cmd.Stderr = &errs
				out, err := cmd.Output()
				must.Require(t, err == nil, "completing", line, "failed:", err, &errs)
				var completions []string
				for text := range strings.Lines(string(out)) {
					if text = strings.TrimSpace(text); text != "" && text != "tool" {
						completions = append(completions, text)
					}
				}
				slices.Sort(completions)
				must.Equal(t, strings.Join(completions, " "), want, "the completions of", line)
			}
		})
	}
}
