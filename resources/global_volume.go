package resources

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
)

// GlobalVolume is gpucloud_global_volume: storage without a fixed size or location.
var GlobalVolume = newCollectionKind(kit.Kind[globalVolume]{
	Name:    "global_volume",
	Schema:  globalVolumeSchema,
	Version: api.V2,
	Loss: func(m *globalVolume) string {
		return fmt.Sprintf("The apply deletes global volume %s (%s) with everything on it. The plan doesn't check whether something still uses it.", m.ID.ValueString(), m.Name.ValueString())
	},
}, func(c *api.Client) *api.Collection[api.GlobalVolume] { return c.GlobalVolumes }, nil, nil)

var globalVolumeSchema = schema.Schema{
	MarkdownDescription: "A global volume: storage without a size or a data center (beta). API v2 only.\n\n" +
		"No documented API attaches it to a pod or endpoint, so the provider can't: attach it in RunPod's console.",
	Attributes: map[string]schema.Attribute{
		"id":                  idAttribute("global volume"),
		"name":                withValidators(globalVolumeMembers.text("name", "Name of the volume. It need not be unique."), noOuterSpace),
		"created_at":          stableText("When the volume was created, as RFC 3339."),
		"created_by_user_id":  stableText("Id of the user that created it; null if the API returns none."),
		"deletion_protection": deletionProtectionAttribute("global volume"),
	},
}

// noOuterSpace rejects white space that the API would remove: the name would differ from the plan.
var noOuterSpace = rule.Validator[string]{Expects: "no white space at either end", Holds: func(s string) bool { return strings.TrimSpace(s) == s }}

type globalVolume struct {
	ID, Name, CreatedAt, CreatedByUserID types.String
	DeletionProtection                   types.Bool
}
