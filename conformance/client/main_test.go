package client

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// TestMain lets the test binary be a client: the provider if Terraform starts it, and a
// sample client after the argument "as".
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "":
		err := providerserver.Serve(ctx, provider.New("test"), providerserver.ServeOpts{
			Address: "registry.terraform.io/gpucloud/gpucloud", ProtocolVersion: 6,
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case len(os.Args) > 2 && os.Args[1] == "as":
		os.Exit(roles(os.Args[2:]))
	default:
		// With the race detector, each process would sleep for a second at its exit.
		os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
		dir, err := os.MkdirTemp("", "conformance-client-")
		if err != nil {
			panic(err)
		}
		binaries = dir
		code := m.Run()
		os.RemoveAll(dir)
		os.Exit(code)
	}
}

// binaries is the directory of the jobrunner.
var binaries string

// as returns the command that runs this test binary as a client.
func as(t *testing.T, role ...string) []string {
	t.Helper()
	self := must.Do(os.Executable())(t)
	return append([]string{self, "as"}, role...)
}
