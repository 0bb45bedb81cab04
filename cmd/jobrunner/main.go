// Command jobrunner runs a deployment of the management APIs and the job API on one machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/programversion"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// version and commit are set by the release build.
var version, commit = "dev", ""

type commands struct {
	Serve  serve  `cmd:"" help:"Start the deployment."`
	Dev    dev    `cmd:"" help:"Run a file as the handler of an endpoint, and restart it when it changes."`
	Job    job    `cmd:"" help:"Send, watch, cancel and retry jobs on any deployment."`
	Keys   keys   `cmd:"" help:"Create, list and revoke API keys, also while the deployment runs."`
	Backup backup `cmd:"" help:"Copy the state of a data folder, also while the deployment runs."`
	Doctor doctor `cmd:"" help:"Check what a deployment needs on this machine."`

	cli.CommonCommands `embed:""`
}

func (commands) Help() string {
	return `Examples:
  jobrunner serve
  jobrunner dev handler.py --input '{"prompt": "hello"}'
  jobrunner job run my-endpoint --input '{"prompt": "hello"}'
  jobrunner doctor

Exit status: 0 success, 1 failure, 2 invalid command line. job and dev have further ones.`
}

func newParser() *kong.Kong {
	return kong.Must(new(commands),
		kong.Name("jobrunner"),
		cli.CheckInput(),
		kong.PostBuild(addJobHelp),
		kong.Description("A serverless GPU cloud in miniature: both management APIs and the job API on this machine."),
		kong.Vars{"gpu_presets": strings.Join(gpu.Presets(), ", "), "version": programversion.Text("jobrunner", version, commit)},
	)
}

func main() {
	version = programversion.Number(version)
	uuid.EnableRandPool() // each job and request has an id: this reads random bytes for several at a time
	ctx, err := newParser().Parse(os.Args[1:])
	if err == nil {
		err = ctx.Run()
	}
	if err == nil {
		err = stdout.failure()
	}
	if err == nil {
		return
	}
	status := 1
	if e, ok := errors.AsType[*exitError](err); ok {
		status = e.status
	}
	text := errorText(err)
	if parseErr, ok := errors.AsType[*kong.ParseError](err); ok {
		status = exitUsage
		command := parseErr.Context.Model.Node
		if selected := parseErr.Context.Selected(); selected != nil {
			command = selected
		}
		text += fmt.Sprintf("\nSee '%s --help'.", command.FullPath())
	}
	fmt.Fprintln(stderr, "jobrunner:", text)
	os.Exit(status)
}

// errorText returns an error's text, with a prefix if an interrupt caused the error.
func errorText(err error) string {
	text := err.Error()
	if errors.Is(err, context.Canceled) && !strings.Contains(text, "interrupted") {
		return "interrupted: " + text
	}
	return text
}

// exitUsage is the exit status for an invalid command line.
const exitUsage = 2

func usageErrorf(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}
