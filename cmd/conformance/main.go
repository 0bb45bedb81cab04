// Command conformance says of a deployment which clauses of the service
// description it keeps.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
)

// version is set by the release build.
var version = "dev"

type commands struct {
	Run     run      `cmd:"" help:"Judge a deployment."`
	Resume  resume   `cmd:"" help:"Go on with what run --defer put off."`
	Diff    diff     `cmd:"" help:"Say what changed from one report to another."`
	Client  clients  `cmd:"" help:"Judge a client, by running its command against a scripted deployment."`
	Explain explain  `cmd:"" help:"Say what a clause is, where it comes from, and what judges it."`
	List    list     `cmd:"" help:"List the clauses."`
	Sweep   sweep    `cmd:"" help:"Take down what an earlier run left, by its ledger."`
	Version printing `cmd:"" help:"Print the version."`
}

type printing struct{}

func (printing) Run() error {
	fmt.Println("conformance", version)
	return nil
}

// exitError ends the program with a code, without another word.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	var c commands
	parser, err := kong.New(&c,
		kong.Name("conformance"),
		kong.Description("Judges a deployment of the management API and of the job API, clause by clause."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) {
			if code != 0 {
				code = conformance.ExitUsage
			}
			os.Exit(code)
		}),
	)
	if err == nil {
		var ctx *kong.Context
		if ctx, err = parser.Parse(os.Args[1:]); err == nil {
			err = ctx.Run()
		}
	}
	var code exitError
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	default:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(conformance.ExitUsage)
	}
}
