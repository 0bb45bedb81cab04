// Package cli contains the command lines' shared code: shell completion, progress and colours.
package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CommonCommands adds the version, kong's variable version, and shell completion to a program that embeds it in
// its commands.
type CommonCommands struct {
	Version     versionCommand `cmd:"" help:"Print the version."`
	VersionFlag versionFlag    `name:"version" help:"Print the version."`

	Completion script     `cmd:"" help:"Print the script that completes this program's command lines in a shell."`
	Complete   candidates `cmd:"" name:"__complete" hidden:"" passthrough:""`
}

type versionCommand struct{}

func (versionCommand) Help() string { return "Example:\n  " + filepath.Base(os.Args[0]) + " version" }

func (versionCommand) Run(app *kong.Kong, vars kong.Vars) error {
	_, err := fmt.Fprintln(app.Stdout, vars["version"])
	return err
}

type versionFlag bool

// BeforeReset prints the version. Unlike kong's flag, it fails if it can't print.
func (versionFlag) BeforeReset(app *kong.Kong, vars kong.Vars) error {
	if err := new(versionCommand).Run(app, vars); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

type script struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help shows how to load the script.
func (script) Help() string {
	program := filepath.Base(os.Args[0])
	return strings.ReplaceAll(`Examples:
  source <(NAME completion bash)    # in ~/.bashrc
  source <(NAME completion zsh)     # in ~/.zshrc, after compinit
  NAME completion fish | source     # in ~/.config/fish/config.fish`, "NAME", program)
}

// scripts pass the words up to the cursor to the program. Without candidates, shells complete file names.
var scripts = map[string]string{
	"bash": `_NAME() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _NAME NAME
`,
	"zsh": `_NAME() {
  local -a found
  found=(${(f)"$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
compdef _NAME NAME
`,
	"fish": `complete -c NAME -a '(set -l line (commandline -opc) (commandline -ct); $line[1] __complete -- $line[2..] 2>/dev/null)'
`,
}

func (s *script) Run(ctx *kong.Context) error {
	_, err := io.WriteString(os.Stdout, strings.ReplaceAll(scripts[s.Shell], "NAME", ctx.Model.Name))
	return err
}

type candidates struct {
	Words []string `arg:"" optional:""`
}

// Run prints the candidates for the last word, one per line.
func (c *candidates) Run(ctx *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range complete(ctx.Model.Node, words) {
		if _, err := fmt.Println(candidate); err != nil {
			return err
		}
	}
	return nil
}

// complete returns the commands, flags, or values of a flag or argument that start with the last
// word. For a value that can be a file name it returns none.
func complete(node *kong.Node, words []string) (found []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	var pendingValue *kong.Value // value that the preceding flag needs
	arguments := 0
	for _, word := range before {
		switch {
		case pendingValue != nil && word == "=": // bash splits --flag=value there
		case pendingValue != nil:
			pendingValue = nil
		case strings.HasPrefix(word, "-"):
			if f := flagOf(node, word); f != nil && !f.IsBool() && !strings.Contains(word, "=") {
				pendingValue = f.Value
			}
		default:
			if child := commandOf(node, word); child != nil {
				node = child
			} else {
				arguments++
			}
		}
	}
	switch name, _, hasValue := strings.Cut(last, "="); {
	case pendingValue != nil:
		found = values(pendingValue, "")
	case hasValue && strings.HasPrefix(last, "-"):
		if f := flagOf(node, last); f != nil {
			found = values(f.Value, name+"=")
		}
	case strings.HasPrefix(last, "-"):
		for _, f := range slices.Concat(node.AllFlags(true)...) {
			found = append(found, "--"+f.Name)
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				found = append(found, child.Name)
			}
		}
		if arguments < len(node.Positional) {
			found = append(found, values(node.Positional[arguments], "")...)
		}
	}
	return slices.DeleteFunc(found, func(s string) bool { return !strings.HasPrefix(s, last) })
}

func commandOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func flagOf(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, f := range slices.Concat(node.AllFlags(true)...) {
		if f.Name == name || f.Short != 0 && string(f.Short) == name {
			return f
		}
	}
	return nil
}

func values(v *kong.Value, prefix string) (all []string) {
	for _, value := range v.EnumSlice() {
		if value != "" {
			all = append(all, prefix+value)
		}
	}
	return all
}
