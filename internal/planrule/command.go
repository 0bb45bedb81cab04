package planrule

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// The provider is a child process of the command line. Before it destroys, Terraform plans the configuration as ever, to refresh the state, and
// an error in that plan ends the command. -replace is planned as an update first. The
// protocol tells neither from any other plan; the parent's arguments do.

// Destroys tells whether the command line deletes everything: terraform destroy, or
// -destroy. It is false where the arguments can't be read.
func Destroys() bool { return command().destroys }

// Replaces tells whether the command line has -replace.
func Replaces() bool { return command().replaces }

type options struct{ destroys, replaces bool }

var command = sync.OnceValue(func() options {
	arguments, err := parentArguments()
	if err != nil {
		return options{}
	}
	return parse(arguments, os.Getenv)
})

// parse reads the arguments of a command line, its program's name first, and the
// variables that add to them.
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
