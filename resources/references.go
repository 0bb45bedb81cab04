package resources

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// The API refuses a create or change that names an object which does not exist.
// A plan refuses it before. Where the object has named it before, it only warns:
// Terraform plans as ever before it destroys, and what was deleted elsewhere must
// not keep anybody from that. The apply of a change has the API's refusal.

// references are ids of other objects that the state has had. The API takes a
// deleted one out of its answers, so that the state alone does not tell that the
// object had it.
type references []string

// and are they with ids that the state has now.
func (r references) and(ids ...string) references {
	r = slices.Clone(r)
	for _, id := range ids {
		if id != "" && !slices.Contains(r, id) {
			r = append(r, id)
		}
	}
	return r
}

func (m *endpoint) named() references {
	if m == nil {
		return nil
	}
	return m.Private.Named.and(append(value.Strings(m.NetworkVolumes), m.TemplateID.ValueString(), m.Registry.ValueString())...)
}

func (m *pod) named(ctx context.Context) references {
	if m == nil {
		return nil
	}
	return m.Private.Named.and(append(volumeIDs(ctx, m.Mounts), m.Registry.ValueString())...)
}

func (m *template) named() references {
	if m == nil {
		return nil
	}
	return references{}.and(m.Registry.ValueString())
}

func checkRegistry[M any](ctx context.Context, p *planrule.Plan[M], named references, id types.String) {
	if p.API != nil {
		checkReference(ctx, p, "registry", named, id, "registry auth", p.API.RegistryAuths)
	}
}

// checkVolumes looks at the network volumes of an attribute. It tells whether one that
// the object had is gone.
func checkVolumes[M any](ctx context.Context, p *planrule.Plan[M], attribute string, named references, ids []string) (gone bool) {
	if p.API == nil {
		return false
	}
	for _, id := range ids {
		gone = checkReference(ctx, p, attribute, named, types.StringValue(id), "network volume", p.API.NetworkVolumes) || gone
	}
	return gone
}

// checkReference tells whether an object is gone that was named before.
func checkReference[M, T any](ctx context.Context, p *planrule.Plan[M], attribute string, named references, id types.String, title string, of api.Collection[T]) (gone bool) {
	if id.ValueString() == "" { // unknown, or none
		return false
	}
	if slices.Contains(named, id.ValueString()) && isUnlisted(ctx, of, id.ValueString()) {
		p.Warn(attribute, "The "+title+" is gone", "%s names the %s %s, which does not exist any more. A deletion goes on as ever; a change of the object fails in its apply: name one that exists, or leave it out.", attribute, title, id.ValueString())
		return true
	}
	switch _, err := of.Get(ctx, id.ValueString()); {
	case api.IsNotFound(err):
		p.Error(attribute, "The "+title+" does not exist", "%s names the %s %s, which does not exist, or not any more. Name one that exists, or leave it out. %s", attribute, title, id.ValueString(), err)
	case err != nil:
		p.Fail(attribute, "Could not read the "+title, err)
	}
	return false
}

// isUnlisted tells whether an object is gone that was there before. The list of the run
// expectOutput so, without a question for each object that names it; one that can't be read says
// nothing.
func isUnlisted[T any](ctx context.Context, of api.Collection[T], id string) bool {
	all, err := of.Named(ctx)
	return err == nil && !slices.ContainsFunc(all, func(other api.Named) bool { return other.ID == id })
}

// withoutGone are the network volumes but those that were named before and are gone.
func withoutGone[M any](ctx context.Context, p *planrule.Plan[M], named references, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool {
		return p.API != nil && slices.Contains(named, id) && isUnlisted(ctx, p.API.NetworkVolumes, id)
	})
}

// volumeIDs are the known network volumes of mounts.
func volumeIDs(ctx context.Context, mounts types.Object) (ids []string) {
	m, err := expandMounts(ctx, mounts)
	if err != nil {
		return nil
	}
	for _, mount := range m.Network {
		if mount.VolumeID != "" {
			ids = append(ids, mount.VolumeID)
		}
	}
	return ids
}

// lostVolume is the network volume that a pod has lost because somebody deleted it, while
// the configuration still has it. To replace the pod would not bring it back, and would
// end the pod before its create is refused.
func (m *pod) lostVolume(ctx context.Context, c *api.Client, plan *pod) string {
	mounted, named := volumeIDs(ctx, m.Mounts), m.named(ctx)
	for _, id := range volumeIDs(ctx, plan.Mounts) {
		if slices.Contains(mounted, id) || !slices.Contains(named, id) || c == nil {
			continue
		}
		if isUnlisted(ctx, c.NetworkVolumes, id) {
			return id
		}
	}
	return ""
}
