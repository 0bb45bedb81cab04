// Command jobrunner is a deployment of the management APIs and of the job API
// on one machine.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// version is set by the release build.
var version = "dev"

type commands struct {
	Serve   serve    `cmd:"" help:"Start the deployment."`
	Dev     dev      `cmd:"" help:"Run a file as the handler of an endpoint, and again when it changes."`
	Keys    keys     `cmd:"" help:"Make further API keys, list them and take them back, also while the deployment runs."`
	Version printing `cmd:"" help:"Print the version."`
}

type printing struct{}

func (printing) Run() error {
	fmt.Println("jobrunner", version)
	return nil
}

func main() {
	var c commands
	ctx := kong.Parse(&c,
		kong.Name("jobrunner"),
		kong.Description("A serverless GPU cloud in miniature: both management APIs and the job API on this machine."),
		kong.UsageOnError(),
		kong.Vars{"gpu_presets": strings.Join(gpu.Presets(), ", ")},
	)
	if err := ctx.Run(); err != nil {
		fmt.Fprintln(stderr, "jobrunner:", err)
		status := 1
		if e, ok := errors.AsType[*ended](err); ok {
			status = e.status
		}
		os.Exit(status)
	}
}
