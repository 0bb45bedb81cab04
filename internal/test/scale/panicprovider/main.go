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
	err := providerserver.Serve(context.Background(), func() provider.Provider { return &panicking{gpucloud.New("panic")()} },
		providerserver.ServeOpts{Address: "registry.terraform.io/gpucloud/gpucloud", ProtocolVersion: 6})
	if err != nil {
		log.Fatal(err)
	}
}

type panicking struct{ provider.Provider }

func (*panicking) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		broken(resources.Endpoint).Resource,
		broken(resources.NetworkVolume).Resource,
		broken(resources.RegistryAuth).Resource,
		broken(resources.Secret).Resource,
		broken(resources.Template).Resource,
	}
}

// broken returns a kind whose create ends with a nil dereference.
func broken[M any](k *kit.Kind[M]) *kit.Kind[M] {
	out := *k
	out.Create = func(ctx context.Context, c *api.Client, config, plan *M) error {
		err := k.Create(ctx, c, config, plan)
		var none *M
		*plan = *none
		return err
	}
	return &out
}
