// Command conformance judges whether a deployment meets the clauses of the service description.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/client"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/programversion"
)

// version and commit are set by the release build.
var version, commit = "dev", ""

type commands struct {
	Run     run           `cmd:"" help:"Judge a deployment."`
	Resume  resume        `cmd:"" help:"Continue a run that was made with --defer."`
	Verify  verify        `cmd:"" help:"Check the signature of a report."`
	Compare compare       `cmd:"" help:"Write a page that compares several reports."`
	Diff    diff          `cmd:"" help:"Show the changes between two reports."`
	Client  clientCommand `cmd:"" help:"Judge a client, by running its command against a jobrunner behind a proxy that injects faults."`
	Explain explain       `cmd:"" help:"Show a clause, its source, and the cases that judge it."`
	List    list          `cmd:"" help:"List the clauses."`
	Sweep   sweep         `cmd:"" help:"Delete the objects in the ledger of a run that was killed."`

	cli.CommonCommands `embed:""`
}

// interruptible returns a context that ends when the program is interrupted or its terminal is
// closed. A second signal kills the program. A closed output pipe doesn't kill it: printing fails, and the
// program still writes its reports and cleans up.
func interruptible() (context.Context, context.CancelFunc) {
	cli.SurviveClosedPipe()
	ctx, stop := signal.NotifyContext(context.Background(), cli.StopSignals()...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
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

//go:embed help.txt
var helpTexts string

// setHelp adds the sections of help.txt to the help of the commands.
func setHelp(k *kong.Kong) error {
	nodes := map[string]*kong.Node{k.Model.Name: k.Model.Node}
	for _, command := range k.Model.Children {
		nodes[command.Name] = command
	}
	for section := range strings.SplitSeq("\n"+helpTexts, "\n# ") {
		if name, text, ok := strings.Cut(section, "\n"); ok && nodes[name] != nil {
			nodes[name].Detail = text
		}
	}
	nodes["client"].Detail += "\n\n" + scenarioTable()
	return nil
}

func newParser() *kong.Kong {
	return kong.Must(new(commands),
		kong.Name("conformance"),
		cli.CheckInput(),
		kong.Description("Judges a deployment of the management API and of the job API, clause by clause."),
		kong.Vars{"version": programversion.Text("conformance", version, commit)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.PostBuild(setHelp),
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
	switch code, ok := errors.AsType[exitError](err); {
	case err == nil:
	case ok:
		os.Exit(int(code))
	default:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(conformance.ExitUsage)
	}
}

type list struct {
	Select []string `short:"s" placeholder:"PATTERN" help:"Clauses: an id, a glob (JOB-*), an area (JOB) or a level (MUST); a leading ! excludes."`
	JSON   bool     `name:"json" help:"Print JSON, a line for each clause."`
}

func (l *list) Run() error {
	selected, err := conformance.Clauses(l.Select)
	if err != nil {
		return err
	}
	if l.JSON {
		lines := json.NewEncoder(os.Stdout)
		for _, c := range selected {
			if err := lines.Encode(struct {
				clauses.Clause
				Link string `json:"link"`
			}{c, c.Link()}); err != nil {
				return err
			}
		}
		return nil
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range selected {
		fmt.Fprintf(out, "%s\t%s\t%s\n", c.ID, c.Level, c.Statement)
	}
	return out.Flush()
}

type explain struct {
	ID string `arg:"" help:"The clause."`
}

func (e *explain) Run() error {
	selected, err := conformance.Clauses([]string{e.ID})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for _, c := range selected {
		fmt.Fprintf(out, "%s  %s\n%s\n\nfrom    %s\n        %s\n", c.ID, c.Level, c.Statement, c.Source, c.Link())
		if c.Untestable != "" && c.Area() != client.Area {
			fmt.Fprintf(out, "note    untestable: %s\n", c.Untestable)
		}
		for _, testCase := range conformance.Cases() {
			if !slices.Contains(testCase.AllClauses(), c.ID) {
				continue
			}
			requests, jobs, seconds := testCase.Cost()
			fmt.Fprintf(out, "case    %s: up to %s, %s, %g s of worker time", testCase.ID, report.Count(requests, "request"), report.Count(jobs, "job"), seconds)
			if testCase.WaitTime > 0 {
				fmt.Fprintf(out, ", %s of waiting", testCase.WaitTime)
			}
			if testCase.Allow != 0 {
				fmt.Fprintf(out, "; --allow %s", testCase.Allow)
			}
			fmt.Fprintln(out)
			if testCase.Needs.Has(suite.LocalOnly) {
				fmt.Fprintln(out, "        only at a test deployment")
			}
		}
		if c.Area() == client.Area {
			explainScenarios(out, c.ID)
			continue
		}
		for _, m := range conformance.Mutants(c.ID) {
			fmt.Fprintf(out, "detects %s\n", m)
		}
		fmt.Fprintf(out, "\nconformance run --select %s\n", c.ID)
	}
	return out.Flush()
}

// explainScenarios lists the scenarios that judge a clause about clients.
func explainScenarios(out io.Writer, clause string) {
	for _, s := range client.Scenarios {
		if slices.Contains(s.Clauses(), clause) {
			fmt.Fprintf(out, "in      %s: %s\n", s.ID, s.Description)
		}
	}
	fmt.Fprintf(out, "\nconformance client --select %s -- command …\n", clause)
}
