package resources

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// The API rejects a create or change that names a missing object. A plan rejects it earlier. If
// the object already had the reference, the plan only warns: Terraform also plans before a
// destroy, which must stay possible. If the object changes, the API rejects the change during
// the apply.

// uniqueTexts is a list without empty or repeated texts.
type uniqueTexts []string

func (u uniqueTexts) with(more ...string) uniqueTexts {
	u = slices.Clone(u)
	for _, text := range more {
		if text != "" && !slices.Contains(u, text) {
			u = append(u, text)
		}
	}
	return u
}

// references returns the ids of other objects that the state contains or once contained. The current
// state isn't enough, because the API omits deleted objects from its responses.
func (m *endpoint) references() uniqueTexts {
	return m.Private.References.with(append(value.Strings(m.NetworkVolumes), m.TemplateID.ValueString(), m.Registry.ValueString())...)
}

func (m *pod) references() uniqueTexts {
	return m.Private.References.with(append(volumeIDs(m.Mounts), m.Registry.ValueString())...)
}

func checkRegistry[M any](ctx context.Context, p *planrule.Plan[M], previous uniqueTexts, id types.String) {
	checkReference(ctx, p, "registry", previous, id, "registry auth", p.API.RegistryAuths)
}

func checkVolumes[M any](ctx context.Context, p *planrule.Plan[M], attribute string, previous uniqueTexts, ids []string) {
	for _, id := range ids {
		checkReference(ctx, p, attribute, previous, types.StringValue(id), "network volume", p.API.NetworkVolumes)
	}
}

func checkReference[M, T any](ctx context.Context, p *planrule.Plan[M], attribute string, previous uniqueTexts, id types.String, title string, collection *api.Collection[T]) {
	if id.ValueString() == "" { // unknown or not set
		return
	}
	if slices.Contains(previous, id.ValueString()) && isUnlisted(ctx, collection, id.ValueString()) {
		warnGone(p, attribute, title, id.ValueString())
		return
	}
	switch _, err := collection.Get(ctx, id.ValueString()); {
	case api.IsNotFound(err):
		p.Error(attribute, "The "+title+" does not exist", "%s names the %s %s, which does not exist. Name one that exists, or leave it out. %s", attribute, title, id.ValueString(), err)
	case err != nil:
		p.Fail(attribute, "Could not read the "+title, err)
	}
}

func warnGone[M any](p *planrule.Plan[M], attribute, title, id string) {
	p.Warn(attribute, "The "+title+" is gone", "%s names the %s %s, which no longer exists. This resource can be deleted, but the apply of a change fails. Name one that exists, or leave it out.", attribute, title, id)
}

// checkPodTemplate rejects a template that doesn't exist or isn't for pods.
func checkPodTemplate[M any](ctx context.Context, p *planrule.Plan[M], templateID types.String) {
	id := templateID.ValueString()
	if id == "" || p.State != nil && !p.Changes(ctx, "template_id") {
		return
	}
	t, err := p.API.Templates.Get(ctx, id)
	if api.IsNotFound(err) && p.Version == api.V1 { // v1 returns public templates only in lists
		if public, listErr := p.API.CatalogTemplate(ctx, id); !api.IsNotFound(listErr) {
			t, err = public.Template, listErr
		}
	}
	checkTemplate(p, nil, id, t, err, false)
}

// checkTemplate rejects a template that doesn't exist or isn't for this kind of object. t and err
// are the result of reading it. If the object already had the reference, it only warns.
func checkTemplate[M any](p *planrule.Plan[M], previous uniqueTexts, id string, t api.Template, err error, serverless bool) {
	known := true
	if planned := plannedTemplate(p, id); planned != nil {
		t.Serverless, known = planned.Serverless, !slices.Contains(planned.Unknown, "serverless")
	}
	users := map[bool]string{true: "serverless workers", false: "pods"}
	switch {
	case api.IsNotFound(err) && slices.Contains(previous, id):
		warnGone(p, "template_id", "template", id)
	case api.IsNotFound(err):
		p.Error("template_id", "The template does not exist", "template_id names the template %s, which does not exist in this account. Set template_id to the id of an existing template. %s", id, err)
	case err != nil:
		p.Fail("template_id", "Could not read the template", err)
	case known && t.Serverless != serverless:
		p.Error("template_id", "The template is not for "+users[serverless], "Template %s (%s) is for %s. Set serverless = %t in it, or name another one.", id, t.Name, users[t.Serverless], serverless)
	}
}

// isUnlisted reports whether an object is missing from the run's list, which needs no request
// per reference. If the list can't be read, it returns false.
func isUnlisted[T any](ctx context.Context, collection *api.Collection[T], id string) bool {
	all, err := collection.ListNames(ctx)
	return err == nil && !slices.ContainsFunc(all, func(other api.NamedObject) bool { return other.ID == id })
}

// withoutDeletedVolumes omits the network volumes that were used before and no longer exist.
func withoutDeletedVolumes[M any](ctx context.Context, p *planrule.Plan[M], previous uniqueTexts, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool {
		return slices.Contains(previous, id) && isUnlisted(ctx, p.API.NetworkVolumes, id)
	})
}

// lostVolume returns the network volume that was deleted elsewhere while the configuration
// still names it. Replacing the pod wouldn't restore it: the pod would be deleted, and the
// create rejected.
func (m *pod) lostVolume(ctx context.Context, c *api.Client, plan *pod) string {
	mounted, previous := volumeIDs(m.Mounts), m.references()
	for _, id := range volumeIDs(plan.Mounts) {
		if slices.Contains(mounted, id) || !slices.Contains(previous, id) {
			continue
		}
		if isUnlisted(ctx, c.NetworkVolumes, id) {
			return id
		}
	}
	return ""
}
