package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/client"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
)

type clientCommand struct {
	Select    []string      `short:"s" placeholder:"WHAT" help:"Scenarios or clauses (retry-after, CLI-02). Default: all."`
	Timeout   time.Duration `default:"1m" help:"Time limit of the command, and of the processes that it starts, in one scenario."`
	Parallel  int           `help:"Number of scenarios that run at once. Default: the number of CPUs; 1 with --shared-dir."`
	Version   string        `name:"api-version" default:"v2" enum:"v1,v2" help:"Version of the management API for the client to use (v1, v2)."`
	Jobrunner string        `type:"existingfile" placeholder:"FILE" help:"The jobrunner that answers the client. Default: next to this program, or on PATH."`
	Strict    bool          `help:"Judge a SHOULD as a MUST."`

	SharedDir bool `help:"Run every scenario in the current directory itself, with your own home: the scenarios share the files that the client keeps there."`
	KeepDirs  bool `help:"Keep the directories of the scenarios, and print their paths."`

	reports `embed:""`

	Command []string `arg:"" passthrough:"" help:"The client, and its arguments."`
}

func scenarioTable() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range client.Scenarios {
		fmt.Fprintf(table, "  %s\t%s\n", s.ID, s.Description)
	}
	_ = table.Flush() // writes to memory don't fail
	return b.String()
}

func (c *clientCommand) Run() error {
	ctx, stop := interruptible()
	defer stop()
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if err := c.checkReports(); err != nil {
		return err
	}
	if c.Timeout == 0 {
		return errors.New("invalid --timeout: expected more than 0s, got 0s")
	}
	display := cli.NewProgress(os.Stderr)
	result, err := client.Judge(ctx, client.Options{
		Command: c.Command, Jobrunner: c.Jobrunner, Select: c.Select, Timeout: c.Timeout, Parallel: c.Parallel, APIVersion: c.Version, Strict: c.Strict, Version: version,
		SharedDir: c.SharedDir, KeepDirs: c.KeepDirs,
		Progress: func(scenario string, done, total int) { display.Show("%d of %d scenarios: %s", done, total, scenario) },
	})
	display.End()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.messageFile())
	for _, x := range result.Results {
		if x.Verdict == report.Pass && result.Preflight == "" {
			fmt.Fprintf(out, "PASS %s  %s\n", x.Clause, x.Statement)
		}
	}
	report.Terminal(out, result, cli.Colours(c.messageFile()))
	return cmp.Or(errors.Join(out.Flush(), c.writeReports(result)), exit(result.Exit))
}
