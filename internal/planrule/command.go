package planrule

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// The provider is a child process of the CLI. Before a destroy, the CLI plans the
// configuration as usual, to refresh the state, and an error in that plan ends the command.
// It plans -replace as an update first. The protocol doesn't say so; the arguments of the
// parent process do.

// Destroys reports whether the command deletes everything: terraform destroy, or -destroy.
// It is false if the arguments can't be read.
func Destroys() bool { return command().destroys }

// Replaces reports whether the command has -replace.
func Replaces() bool { return command().replaces }

type options struct{ destroys, replaces bool }

var command = sync.OnceValue(func() options {
	arguments, err := parentArguments()
	if err != nil {
		return options{}
	}
	return parse(arguments, os.Getenv)
})

// parse parses the arguments of a process (the program's name first) and the variables that
// extend them.
func parse(arguments []string, env func(string) string) (o options) {
	name := ""
	for _, a := range arguments[min(1, len(arguments)):] {
		if !strings.HasPrefix(a, "-") {
			name = a
			break
		}
	}
	o.destroys = name == "destroy"
	if name != "plan" && name != "apply" && !o.destroys {
		return options{}
	}
	for _, a := range append(arguments, strings.Fields(env("TF_CLI_ARGS")+" "+env("TF_CLI_ARGS_"+name))...) {
		option, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		switch {
		case !strings.HasPrefix(a, "-"):
		case option == "destroy" && !o.destroys:
			on, err := strconv.ParseBool(value)
			o.destroys = !given || err == nil && on
		case option == "replace":
			o.replaces = true
		}
	}
	return o
}
