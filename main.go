// Command terraform-provider-gpucloud serves the provider to Terraform and
// OpenTofu.
package main

import (
	"flag"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	debugging := flag.Bool("debug", false, "wait for a debugger and print how Terraform finds this process")
	flag.Parse()
	quiet()
	if err := provider.Serve(version, *debugging); err != nil {
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
