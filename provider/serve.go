package provider

import (
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/pluginserver"
)

// Server is the provider over the plugin protocol, as a given release.
func Server(version string) tfprotov6.ProviderServer { return pluginserver.New(New(version)()) }

// Serve serves it to the CLI that started this process, or with
// debugging to one that TF_REATTACH_PROVIDERS tells how to find it.
func Serve(version string, debugging bool) error {
	var options []tf6server.ServeOpt
	if debugging {
		options = append(options, tf6server.WithManagedDebug())
	}
	return tf6server.Serve("registry.terraform.io/gpucloud/gpucloud", func() tfprotov6.ProviderServer { return Server(version) }, options...)
}
