package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/client"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
)

type clients struct {
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

// Help is printed below the help of the flags.
func (*clients) Help() string {
	var b strings.Builder
	b.WriteString("Examples, in a folder with *.tf files or a client's program:\n" +
		"  conformance client -- terraform apply -auto-approve\n" +
		"  conformance client --select retry-after --keep-dirs -- python3 client.py {base_url}\n" +
		"  conformance client --api-version v1 --report junit=report.xml -- tofu apply -auto-approve\n\n" +
		"The command is run once for each scenario, against a jobrunner of its own, behind a proxy that injects faults. " +
		"It finds the deployment by GPUCLOUD_BASE_URL, GPUCLOUD_QUEUE_URL, GPUCLOUD_API_KEY, GPUCLOUD_API_VERSION and GPUCLOUD_ENDPOINT_ID, or by placeholders in its arguments: " +
		"{scenario}, {base_url}, {queue_url}, {endpoint_id}, {volume_id}, {api_version}, {api_key}, {dir}. CONFORMANCE_SCENARIO also contains the scenario's id.\n\n" +
		"Each scenario runs in a copy of the current directory ({dir}), and has its own home and directory for temporary files, which are removed at the end. " +
		"The copy has no Terraform state (*.tfstate). These are not copied, but linked: .git, node_modules and virtual environments, files above 1 MiB, " +
		"other file systems, and everything beyond 1000 files or 32 MiB. Neighbours of the directory are linked next to the copy. " +
		"The home has links to your Terraform CLI configuration, tools and packages, and nothing else of yours. " +
		"NO_COLOR and CHECKPOINT_DISABLE are set to 1 unless you set them.\n\n" +
		"Clauses that could not be judged are listed at the end, and don't count as fulfilled. " +
		"A client that fails the scenario \"works\" is not conformant, whatever else it fulfils.\n\n" +
		"Exit codes: 0 no violation was found; 1 the client violates a MUST (with --strict, also a SHOULD) or fails the scenario \"works\"; " +
		"2 an option is invalid or the command can't be started; 3 inconclusive, or nothing was judged; 130 interrupted.\n\nThe scenarios:\n\n")
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range client.Scenarios {
		fmt.Fprintf(table, "  %s\t%s\n", s.ID, s.Description)
	}
	_ = table.Flush() // writes to memory don't fail
	return b.String()
}

func (c *clients) Run() error {
	ctx, stop := interruptible()
	defer stop()
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if err := c.check(); err != nil {
		return err
	}
	display := cli.NewProgress(os.Stderr)
	result, err := client.Judge(ctx, client.Options{
		Command: c.Command, Jobrunner: c.Jobrunner, Select: c.Select, Timeout: c.Timeout, Parallel: c.Parallel, APIVersion: c.Version, Strict: c.Strict, Version: version,
		SharedDir: c.SharedDir, KeepDirs: c.KeepDirs,
		Progress: func(scenario string, done, total int) {
			display.Show("%d of %d scenarios: %s", done, total, scenario)
		},
	})
	display.End()
	if err != nil {
		return err
	}
	out := c.terminal()
	for _, x := range result.Results {
		if x.Verdict == report.Pass && result.Preflight == "" {
			fmt.Fprintf(out, "PASS %s  %s\n", x.Clause, x.Statement)
		}
	}
	report.Terminal(out, result, cli.Colours(out))
	if err := c.write(result); err != nil {
		return err
	}
	return exit(result.Exit)
}
