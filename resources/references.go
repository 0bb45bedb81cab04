package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// The API refuses a create or change that names an object which does not exist.
// A plan refuses it before.

func checkRegistry[M any](ctx context.Context, p *planrule.Plan[M], id types.String) {
	if p.API != nil {
		checkReference(ctx, p, "registry", id, "registry auth", p.API.RegistryAuths.Get)
	}
}

func checkVolumes[M any](ctx context.Context, p *planrule.Plan[M], ids types.Set) {
	if p.API == nil {
		return
	}
	for _, id := range ids.Elements() {
		checkReference(ctx, p, "network_volumes", id.(types.String), "network volume", p.API.NetworkVolumes.Get)
	}
}

func checkReference[M, T any](ctx context.Context, p *planrule.Plan[M], attribute string, id types.String, title string, get func(context.Context, string) (T, error)) {
	if id.ValueString() == "" { // unknown, or none
		return
	}
	switch _, err := get(ctx, id.ValueString()); {
	case api.IsNotFound(err):
		p.Error(attribute, "The "+title+" does not exist", "%s names the %s %s, which does not exist, or not any more. Name one that exists, or leave it out. %s", attribute, title, id.ValueString(), err)
	case err != nil:
		p.Fail(attribute, "Could not read the "+title, err)
	}
}
