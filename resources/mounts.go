package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// The storage of templates, pods and clusters. A template has only persistent mounts.

// podMountsAttribute is the storage of a pod, or of a cluster's pods. owner ends the description of persistent
// storage. note, the end of the whole description, says what forces replacement.
func podMountsAttribute(owner, note string) schema.SingleNestedAttribute {
	return optionalObject("Storage that survives restarts of the container: either `persistent` or `network`."+note, attributes{
		"persistent": optionalObject("Storage on the host, which is deleted with the "+owner, attributes{
			"size": persistentSizeAttribute,
			"path": mountPathAttribute,
		}),
		"network": schema.ListNestedAttribute{
			Optional:            true,
			MarkdownDescription: "The network volume: a list of one.",
			Validators:          []validator.List{rule.OneElement{}},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"volume_id": schema.StringAttribute{
					Required:            true,
					MarkdownDescription: "Id of the network volume. Forces replacement.",
					Validators:          []validator.String{rule.NonEmpty},
				},
				"path": mountPathAttribute,
			}},
		},
	})
}

// The size is at least 1. API v1 also accepts 0, for no storage.
var (
	persistentSizeAttribute = func() schema.Int64Attribute {
		a := podMembers.integer("mounts.persistent.size", "Size in GB, at least {min} on API v2.")
		a.Validators = positive
		return a
	}()
	mountPathAttribute = podMembers.text("mounts.persistent.path", "Absolute path in the container.")
)

var positive = []validator.Int64{rule.AtLeast[int64](1), rule.NotHuge[int64]()}

type podMounts struct {
	Persistent types.Object
	Network    types.List
}

// validateMounts requires exactly one kind of storage.
func validateMounts(c diagnostics.Check, object types.Object) {
	switch mounts := value.As[podMounts](object); {
	case mounts == nil:
	case value.IsSet(mounts.Persistent) && len(mounts.Network.Elements()) > 0:
		c.Error("mounts.network", "Two kinds of mounts", "mounts.network conflicts with mounts.persistent: keep one of them.")
	case mounts.Persistent.IsNull() && mounts.Network.IsNull():
		c.Error("mounts", "No mount", "mounts needs persistent or network. "+rule.MisspelledHint+" Leave mounts out for none.")
	}
}

// minPersistent is the smallest size of a persistent mount in GB on API v2.
var minPersistent = int64(*templateMembers.setting("mounts.persistent.size").V2.Min)

// checkPersistentSize rejects a new size that API v2 doesn't accept. An unknown size passes, and so does an
// unchanged one, which API v1 may have accepted.
func checkPersistentSize[M any](ctx context.Context, p *planrule.Plan[M], mounts types.Object) {
	mount := expandMounts(mounts).Persistent
	if p.Version == api.V2 && (p.State == nil || p.Changes(ctx, "mounts")) && mount != nil && mount.Size > 0 && mount.Size < minPersistent {
		p.Error("mounts.persistent.size", "Size out of bounds", "A persistent mount has at least %d GB on API v2, not %d.", minPersistent, mount.Size)
	}
}

// expandMounts converts the storage of a pod, or of a cluster's pods.
func expandMounts(mounts types.Object) api.PodMounts { return deref(value.As[api.PodMounts](mounts)) }

func flattenMounts(got api.PodMounts) types.Object {
	if len(got.Network) == 0 {
		got.Network = nil
	}
	if got.Persistent == nil && got.Network == nil {
		return value.Object[api.PodMounts](podMountsAttribute("", ""), nil)
	}
	return value.Object(podMountsAttribute("", ""), &got)
}

// volumeIDs returns the known network volumes of mounts.
func volumeIDs(mounts types.Object) (ids []string) {
	for _, mount := range expandMounts(mounts).Network {
		if mount.VolumeID != "" {
			ids = append(ids, mount.VolumeID)
		}
	}
	return ids
}
