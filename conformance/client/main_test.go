package client

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// TestMain also makes the test binary the clients that are judged: the provider
// where Terraform starts it, and a sample client with a fault after "as".
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
		// With the race detector, each process of a client would sleep for a second at its end.
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

// binaries is the folder of the jobrunner.
var binaries string

// as is the command of a client that is this test binary.
func as(t *testing.T, role ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, "as"}, role...)
}
