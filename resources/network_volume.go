package resources

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// NetworkVolume is gpucloud_network_volume: storage that outlives the workers that mount it. It
// can only grow.
var NetworkVolume = newCollectionKind(kit.Kind[networkVolume]{
	Name:           "network_volume",
	Schema:         networkVolumeSchema,
	OneVersionOnly: volumeMembers.oneVersion(),
	Plan:           planNetworkVolume,

	Loss: func(m *networkVolume) string {
		return fmt.Sprintf("The apply deletes network volume %s (%s, %d GB) with everything on it. %s", m.ID.ValueString(), m.Name.ValueString(), m.Size.ValueInt64(), unseenUsers)
	},
	Update: func(ctx context.Context, c *api.Client, _, state, plan *networkVolume) error {
		// Compare with the current volume, which may have changed since the plan.
		have, err := c.NetworkVolumes.Get(ctx, state.ID.ValueString())
		if err != nil {
			return err
		}
		if plan.Size.ValueInt64() < have.Size {
			return &diagnostics.AttributeError{Attribute: "size", Err: fmt.Errorf(cantShrink+". "+cantShrinkDetail, have.ID, have.Size, plan.Size.ValueInt64())} //nolint:staticcheck // sentences of a diagnostic
		}
		var want api.NetworkVolume
		value.Expand(plan, &want)
		got, err := c.NetworkVolumes.Update(ctx, have, want)
		if err == nil {
			value.Flatten(got, plan)
		}
		return err
	},
}, func(c *api.Client) *api.Collection[api.NetworkVolume] { return c.NetworkVolumes }, nil, nil)

// unseenUsers warns about the users of a volume, which a plan doesn't look for.
const unseenUsers = "Endpoints and pods that use it, of this configuration or of others, lose it: the plan doesn't look for them."

var networkVolumeSchema = schema.Schema{
	MarkdownDescription: "A network volume: storage in one data center that workers and pods of that data center mount. " +
		"It can grow in place and never shrink: a plan with a smaller `size` is rejected.\n\n" +
		"A deletion succeeds even if endpoints or pods use the volume, which they then lose. `deletion_protection` prevents this.",
	Attributes: map[string]schema.Attribute{
		"id":   idAttribute("network volume"),
		"name": volumeMembers.text("name", "Name of the volume. It need not be unique."),
		"size": volumeMembers.integer("size", fmt.Sprintf("Size in GB: %d to %d on API v2, %d to %d on API v1. ", volumeSizes[api.V2][0], volumeSizes[api.V2][1], volumeSizes[api.V1][0], volumeSizes[api.V1][1])+
			"It can only grow."),
		"data_center":         volumeMembers.text("dataCenter", "Id of the data center, for example `EU-RO-1`. Forces replacement, which loses the volume's data."),
		"type":                withPlanModifiers(withoutDefault(volumeMembers.text("type", "Storage tier, {choices}; default: the data center's. Forces replacement, which loses the volume's data."), true), stringplanmodifier.UseStateForUnknown()),
		"deletion_protection": deletionProtectionAttribute("network volume"),
	},
}

type networkVolume struct {
	ID, Name, DataCenter, Type types.String
	Size                       types.Int64
	DeletionProtection         types.Bool
}

// volumeSizes are the bounds of size in GB, by version.
var volumeSizes = map[api.Version][2]int64{api.V1: boundsOf(volumeMembers.setting("size").V1), api.V2: boundsOf(volumeMembers.setting("size").V2)}

func planNetworkVolume(ctx context.Context, p *planrule.Plan[networkVolume]) {
	size := p.Plan.Size.ValueInt64()
	if bounds, ok := volumeSizes[p.Version]; ok && !p.Plan.Size.IsUnknown() && (size < bounds[0] || size > bounds[1]) && (p.State == nil || p.Changes(ctx, "size")) {
		p.Error("size", "Size out of bounds", "A network volume has %d to %d GB on API %s, not %d.", bounds[0], bounds[1], p.Version, size)
	}
	choosesPlace, dataCenter := p.State == nil, refs("data_center", nil, p.Plan.DataCenter)
	switch {
	case choosesPlace:
		p.Catalog.CheckNames(ctx, p.Check, catalog.Request{DataCenters: dataCenter})
	case p.Changes(ctx, "data_center"):
		choosesPlace = true
		p.Catalog.CheckNewDataCenters(ctx, p.Check, dataCenter)
	}
	if choosesPlace || value.IsSet(p.Plan.Type) && p.Changes(ctx, "type") {
		p.Catalog.CheckVolume(ctx, p.Check, p.Plan.DataCenter.ValueString(), p.Plan.Type.ValueString())
	}
	if p.State == nil {
		if p.Version == api.V1 && p.Config.Type.IsNull() {
			p.Plan.Type = types.StringNull() // v1 doesn't return the tier
		}
		return
	}
	for _, attribute := range []string{"data_center", "type"} {
		// before is null if no response had the attribute: v1 doesn't return the tier
		if before, _ := p.Values(ctx, attribute); !before.IsNull() && p.Changes(ctx, attribute) {
			p.Replace(attribute)
			p.Warn(attribute, "The network volume will be replaced",
				"A volume can't change its %s. The apply deletes volume %s with everything on it and creates an empty one. %s",
				attribute, p.State.ID.ValueString(), unseenUsers)
			return
		}
	}
	if before, after := p.State.Size.ValueInt64(), p.Plan.Size; !after.IsUnknown() && after.ValueInt64() < before {
		p.ErrorInPlace("size", cantShrink, cantShrinkDetail, p.State.ID.ValueString(), before, after.ValueInt64())
	}
}

const (
	cantShrink       = "A network volume can't shrink"
	cantShrinkDetail = "Volume %s has %d GB and the configuration asks for %d GB. Nothing was sent. Keep size at %[2]d or more; " +
		"for a smaller one, create a second volume, copy the data and remove this one."
)
