package provider

import (
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/pluginserver"
)

// Server returns the provider as a server of the plugin protocol.
func Server(version string) tfprotov6.ProviderServer { return pluginserver.New(New(version)()) }

// Serve runs the provider for the CLI that started this process. With debugging, it waits for a
// CLI that finds it through TF_REATTACH_PROVIDERS.
func Serve(version string, debugging bool) error {
	var options []tf6server.ServeOpt
	if debugging {
		options = append(options, tf6server.WithManagedDebug())
	}
	return tf6server.Serve("registry.terraform.io/gpucloud/gpucloud", func() tfprotov6.ProviderServer { return Server(version) }, options...)
}
