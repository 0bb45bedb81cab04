package resources

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// A pod copies its template's settings when it is created. Later changes of the template have
// no effect. from_template has the pod's copy, without the pod's own settings. If somebody
// changes the copy, the next apply restores it from the template.

var podFromTemplate = computedObject("Settings that the pod copied from the template. If somebody changes them, the next apply restores them. Null without `template_id`, and after an import until the next update.", fromTemplateMembers())

var podFromTemplateTypes = objectType(podFromTemplate)

// podCopy is the private state about the pod's copy.
type podCopy struct {
	Key     string            // identifies the API key of the digests
	Applied map[string]string // digests of the members of from_template, by name
	Mounts  api.PodMounts     // as last applied
	// Template has the settings of the template if the copy has changed since; the next apply
	// restores them. It is nil if the template can't be read.
	Template *templateSettings
}

// inheritedSettings returns the settings of a copy or template that the pod doesn't set itself.
func (m *pod) inheritedSettings(s templateSettings) map[string]attr.Value {
	return s.members(&m.container, m.ownVariables(), types.StringUnknown())
}

// ownVariables returns the variables that the pod sets itself, and the deployment's.
func (m *pod) ownVariables() map[string]bool {
	names := m.container.ownVariables(m.Private.EnvWO)
	for _, name := range api.AccessVariables {
		names[name] = true
	}
	return names
}

// recordCopy sets from_template to the settings in a response. If applied is true (after a create or
// update), or if there are no digests of this API key, it records digests of them to detect later changes.
func (m *pod) recordCopy(c *api.Client, got api.Pod, applied bool) {
	if m.TemplateID.IsNull() || m.Private.Imported {
		m.FromTemplate = types.ObjectNull(podFromTemplateTypes)
		return
	}
	m.FromTemplate = types.ObjectValueMust(podFromTemplateTypes, m.inheritedSettings(settingsOfContainer(c, *got.Container)))
	if key := c.Digest(""); applied || m.Private.Copy.Key != key {
		m.Private.Copy = podCopy{Key: key, Applied: map[string]string{}, Mounts: got.Mounts}
		for name, member := range m.FromTemplate.Attributes() {
			m.Private.Copy.Applied[name] = c.Digest(member.String())
		}
	}
}

// driftedNames returns the members of from_template that differ from those last applied.
func (m *pod) driftedNames(c *api.Client) (names []string) {
	for name, member := range m.FromTemplate.Attributes() {
		if applied := m.Private.Copy.Applied; len(applied) > 0 && applied[name] != c.Digest(member.String()) {
			names = append(names, name)
		}
	}
	return sorted(names)
}

// readTemplateCopy records the copy in a response, and reads the template if the copy has drifted.
func (m *pod) readTemplateCopy(ctx context.Context, c *api.Client, got api.Pod) error {
	m.recordCopy(c, got, false)
	m.Private.Copy.Template = nil
	if len(m.driftedNames(c)) == 0 {
		return nil
	}
	t, err := c.Templates.Get(ctx, m.TemplateID.ValueString())
	switch {
	case api.IsNotFound(err): // deleted, or a public template
		return nil
	case err != nil:
		return err
	}
	m.Private.Copy.Template = new(settingsOf(c, t))
	return nil
}

func planPodCopy(ctx context.Context, p *planrule.Plan[pod]) {
	switch {
	case p.Plan.TemplateID.IsNull():
		p.Plan.FromTemplate = types.ObjectNull(podFromTemplateTypes)
		return
	case p.State != nil && p.State.FromTemplate.IsNull(): // the read after the next update sets it
		p.Plan.FromTemplate = p.State.FromTemplate
		return
	case p.State == nil, !p.Plan.TemplateID.Equal(p.State.TemplateID):
		p.Plan.FromTemplate = types.ObjectUnknown(podFromTemplateTypes)
		return
	}
	settings, ownNames := deref(value.As[templateSettings](p.State.FromTemplate)), p.Plan.ownVariables()
	for _, name := range []string{"image", "disk", "ports", "registry"} {
		if before, after := p.Values(ctx, name); after.IsNull() && !before.IsNull() { // the template's value applies
			settings.Unknown = append(settings.Unknown, name)
		}
	}
	if !p.Plan.command().setsSameParts(p.State.command()) || p.Plan.command().isUnknown() {
		settings.Unknown = append(settings.Unknown, "args")
	}
	for name := range p.State.ownVariables() {
		if p.Plan.EnvWOKeys.IsUnknown() || !ownNames[name] {
			settings.Unknown = append(settings.Unknown, "env")
		}
	}
	args, _ := p.State.FromTemplate.Attributes()["args"].(types.String)
	members := settings.members(&p.Plan.container, ownNames, args)
	drifted := p.State.driftedNames(p.API)
	if template := p.State.Private.Copy.Template; template != nil {
		restored := p.Plan.inheritedSettings(*template)
		for _, name := range drifted {
			members[name] = restored[name]
		}
	} else if len(drifted) > 0 {
		p.Warn("template_id", "The pod is not as it was created", "The settings that pod %s copied from template %s were changed elsewhere (%s), and the template can no longer be read to restore them. "+
			"Set the attributes in the pod, or replace it.", p.State.ID.ValueString(), p.State.TemplateID.ValueString(), commaList(drifted))
	}
	p.Plan.FromTemplate = types.ObjectValueMust(podFromTemplateTypes, members)
	applied, current := p.State.Private.Copy.Mounts.Persistent, p.State.Private.Mounts.Persistent
	if p.Plan.Mounts.IsNull() && applied != nil && current != nil && *applied != *current {
		p.Warn("mounts", "The pod's storage was changed elsewhere", "Pod %s had %d GB at %s, from its template, and has %d GB at %s. No apply reverts this, because it holds data. To manage the storage, set mounts in the pod.",
			p.State.ID.ValueString(), applied.Size, applied.Path, current.Size, current.Path)
	}
}

// recordAccessVariables records which variables the deployment has set for SSH and Jupyter. Replacing the
// environment elsewhere removes them for good.
func (m *pod) recordAccessVariables(c *api.Client, got api.Pod) {
	m.Private.Lost, m.Private.AccessDigests = nil, map[string]string{}
	for _, name := range api.AccessVariables {
		if v, ok := got.Container.Env[name]; ok {
			m.Private.Access, m.Private.AccessDigests[name] = m.Private.Access.with(name), c.DigestVariable(name, v)
		} else if slices.Contains(m.Private.Access, name) {
			m.Private.Lost = append(m.Private.Lost, name)
		}
	}
}
