// Command terraform-provider-gpucloud serves the provider to Terraform and
// OpenTofu.
package main

import (
	"flag"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	debugging := flag.Bool("debug", false, "wait for a debugger and print how Terraform finds this process")
	flag.Parse()
	quiet()
	var options []tf6server.ServeOpt
	if *debugging {
		options = append(options, tf6server.WithManagedDebug())
	}
	err := tf6server.Serve("registry.terraform.io/gpucloud/gpucloud", func() tfprotov6.ProviderServer { return provider.Server(version) }, options...)
	if err != nil {
		log.Fatal(err)
	}
}

// quiet saves half of a large plan's time: without a TF_LOG variable the
// framework still encodes every trace line, which Terraform then drops, and
// the collector runs more often than a short-lived process needs.
func quiet() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "TF_LOG") {
			return
		}
	}
	os.Setenv("TF_LOG_SDK", "OFF")
}
