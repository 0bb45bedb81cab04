// Command terraform-provider-gpucloud serves the provider to Terraform and OpenTofu. With the argument
// migrate it writes the blocks that take over the objects of other providers.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/programversion"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// version and commit are set by the release build.
var version, commit = "dev", ""

func main() {
	version = programversion.Number(version)
	debugging := flag.Bool("debug", false, "wait for a debugger and print how Terraform finds this process")
	showVersion := flag.Bool("version", false, "print the version")
	flag.Usage = func() { fmt.Fprint(os.Stderr, migrate.Usage) }
	flag.Parse()
	if *showVersion {
		fmt.Println(programversion.Text("terraform-provider-gpucloud", version, commit))
		return
	}
	if flag.Arg(0) == "migrate" {
		if err := migrate.Main(flag.Args()[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			if errors.Is(err, migrate.ErrUsage) {
				os.Exit(2) // as package flag does
			}
			os.Exit(1)
		}
		return
	}
	tuneProcess()
	if err := provider.Serve(version, *debugging); err != nil {
		log.Fatal(err)
	}
}

// tuneProcess saves half of a large plan's time. By default the framework encodes
// every trace line, which Terraform drops if no TF_LOG variable is set, and the
// garbage collector runs more often than a short-lived process needs.
func tuneProcess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "TF_LOG") {
			return
		}
	}
	os.Setenv("TF_LOG_SDK", "OFF")
	os.Setenv("TF_LOG_PROVIDER", "OFF")
}
