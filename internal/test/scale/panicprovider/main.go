// Command panicprovider serves the gpucloud provider with creates that panic after their work,
// while secrets are in memory. Terraform's crash output must contain no secret.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	gpucloud "github.com/gpucloud/terraform-provider-gpucloud/provider"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

func main() {
	err := providerserver.Serve(context.Background(), func() provider.Provider { return &panickingProvider{gpucloud.New("panic")()} },
		providerserver.ServeOpts{Address: "registry.terraform.io/gpucloud/gpucloud", ProtocolVersion: 6})
	if err != nil {
		log.Fatal(err)
	}
}

type panickingProvider struct{ provider.Provider }

func (*panickingProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		withPanic(resources.Endpoint).Resource,
		withPanic(resources.NetworkVolume).Resource,
		withPanic(resources.RegistryAuth).Resource,
		withPanic(resources.Secret).Resource,
		withPanic(resources.Template).Resource,
	}
}

// withPanic returns a kind whose create ends with a nil dereference.
func withPanic[M any](k *kit.Kind[M]) *kit.Kind[M] {
	out := *k
	out.Create = func(ctx context.Context, c *api.Client, config, plan *M) error {
		err := k.Create(ctx, c, config, plan)
		var none *M
		*plan = *none
		return err
	}
	return &out
}
