// Command conformance judges which clauses of the service description a deployment keeps.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/programversion"
)

// version and commit are set by the release build.
var version, commit = "dev", ""

type commands struct {
	Run     run            `cmd:"" help:"Judge a deployment."`
	Resume  resume         `cmd:"" help:"Continue the cases that run --defer has deferred."`
	Verify  verify         `cmd:"" help:"Check the signature of a report."`
	Compare compare        `cmd:"" help:"Write a page that compares several reports."`
	Diff    diff           `cmd:"" help:"Show the changes between two reports."`
	Client  clients        `cmd:"" help:"Judge a client, by running its command against a jobrunner behind faults."`
	Explain explain        `cmd:"" help:"Show a clause, its source, and the cases that judge it."`
	List    list           `cmd:"" help:"List the clauses."`
	Sweep   sweep          `cmd:"" help:"Delete the objects in the ledger of a run that was killed."`
	Version versionCommand `cmd:"" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version."`

	cli.CompletionCommands `embed:""`
}

// Help has commands to start with.
func (commands) Help() string {
	return `Examples:
  conformance run --local
  conformance run --base-url https://cloud.example.com --endpoint-id vgu9pmhp1j06
  conformance explain JOB-17
  conformance client -- terraform apply -auto-approve

Exit codes: those of the judging commands are in their help; others exit with 0, or with 2 and an error.`
}

// interruptible returns a context that ends when the program is interrupted or its terminal is
// closed. A second signal kills the program.
func interruptible() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

type versionCommand struct{}

func (versionCommand) Help() string { return "Example:\n  conformance version" }

func (versionCommand) Run() error {
	_, err := fmt.Println(programversion.Text("conformance", version, commit))
	return err
}

// exitError ends the program with an exit code, without a message.
type exitError int

// exit returns an exitError, or nil for code 0.
func exit(code int) error {
	if code == 0 {
		return nil
	}
	return exitError(code)
}

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func newParser() *kong.Kong {
	return kong.Must(new(commands),
		kong.Name("conformance"),
		cli.EmptyIsUnset(),
		kong.Description("Judges a deployment of the management API and of the job API, clause by clause."),
		kong.Vars{"version": programversion.Text("conformance", version, commit)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) {
			if code != 0 {
				code = conformance.ExitUsage
			}
			os.Exit(code)
		}),
	)
}

func main() {
	version = programversion.Number(version)
	ctx, err := newParser().Parse(os.Args[1:])
	if err == nil {
		err = ctx.Run()
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
