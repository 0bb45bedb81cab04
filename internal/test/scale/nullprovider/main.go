// Command nullprovider serves the schemas of the gpucloud provider with resources that do
// nothing. The time of a run with it is the baseline: the time of Terraform and the framework.
package main

import (
	"context"
	"log"
	"os"
	"runtime/debug"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	gpucloud "github.com/gpucloud/terraform-provider-gpucloud/provider"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

func main() {
	// As in the gpucloud provider, so that only the work differs.
	debug.SetGCPercent(400)
	if err := os.Setenv("TF_LOG_SDK", "OFF"); err != nil {
		log.Fatal(err)
	}
	err := providerserver.Serve(context.Background(), func() provider.Provider { return &idleProvider{gpucloud.New("null")()} },
		providerserver.ServeOpts{Address: "registry.terraform.io/gpucloud/gpucloud", ProtocolVersion: 6})
	if err != nil {
		log.Fatal(err)
	}
}

// idleProvider has the provider's schema and data sources, stub resources, and no functions, actions,
// ephemeral resources or list resources.
type idleProvider struct{ provider.Provider }

func (*idleProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (*idleProvider) Resources(context.Context) (out []func() resource.Resource) {
	for _, kind := range resources.All {
		out = append(out, func() resource.Resource { return stub{kind.Resource()} })
	}
	return out
}

// stub has the name and the schema of a kind. A read doesn't change the state.
type stub struct{ resource.Resource }

func (stub) Create(context.Context, resource.CreateRequest, *resource.CreateResponse) {}
func (stub) Read(context.Context, resource.ReadRequest, *resource.ReadResponse)       {}
func (stub) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {}
func (stub) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
