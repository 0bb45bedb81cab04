package resources

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// template reads the template that the endpoint follows; nil for none.
func (m *endpoint) template(ctx context.Context, c *api.Client) (*api.Template, error) {
	if m.TemplateID.IsNull() {
		return nil, nil
	}
	t, err := c.Templates.Get(ctx, m.TemplateID.ValueString())
	switch {
	case api.IsNotFound(err):
		return nil, &kit.AttributeError{Attribute: "template_id", Err: fmt.Errorf("there is no such template to follow. Set template_id to the id of one that exists: %w", err)}
	case err != nil:
		return nil, &kit.AttributeError{Attribute: "template_id", Err: fmt.Errorf("the template could not be read: %w", err)}
	}
	return &t, nil
}

// inherit adds what an update has to spell out, because the API takes it from
// a template at create alone: the CUDA versions. Beside a floor there are none.
// v1 returns none of a template: there only what the endpoint had is cleared.
func inherit(want *api.Endpoint, was api.Endpoint, t api.Template) {
	if want.GPU == nil || len(want.GPU.AllowedCUDAVersions) > 0 {
		return
	}
	if t.AllowedCUDAVersions == nil && (was.GPU == nil || len(was.GPU.AllowedCUDAVersions) == 0) {
		return
	}
	want.GPU.AllowedCUDAVersions = []string{}
	if want.GPU.MinCUDAVersion == "" && t.AllowedCUDAVersions != nil {
		want.GPU.AllowedCUDAVersions = append(want.GPU.AllowedCUDAVersions, sorted(*t.AllowedCUDAVersions)...)
	}
}

// applied takes over the answer to a create or update, and records which
// settings of the template it carried.
func (m *endpoint) applied(ctx context.Context, c *api.Client, t *api.Template, got api.Endpoint) error {
	// The id first: whatever fails from here on, the endpoint exists.
	m.ID = types.StringValue(got.ID)
	templateID, urls := m.TemplateID, m.RequestURLs
	if err := m.flatten(ctx, c, got); err != nil {
		return err
	}
	m.TemplateID = templateID
	if !urls.IsUnknown() { // as planned; a new queue_url comes with a refresh
		m.RequestURLs = urls
	}
	if t != nil && m.TemplateApplied.IsUnknown() {
		now := types.StringValue(m.fingerprint(*t, got))
		m.TemplateApplied, m.TemplateSeen = now, now
	}
	return nil
}

// compare records what a read saw of the template. A link that the API
// returned (v1) carries the template's changes by itself.
func (m *endpoint) compare(ctx context.Context, c *api.Client, got api.Endpoint) error {
	if m.TemplateID.IsNull() {
		m.TemplateApplied, m.TemplateSeen = types.StringNull(), types.StringNull()
		return nil
	}
	t, err := m.template(ctx, c)
	if api.IsNotFound(err) { // nothing to follow any more
		m.TemplateSeen = m.TemplateApplied
		return nil
	}
	if err != nil {
		return err
	}
	m.TemplateSeen = types.StringValue(m.fingerprint(*t, got))
	if got.TemplateID != nil && *got.TemplateID == m.TemplateID.ValueString() {
		m.TemplateApplied = m.TemplateSeen
	}
	return nil
}

// fingerprint is that of the template, and of the endpoint's copy of it less
// what the endpoint says of its own.
func (m *endpoint) fingerprint(t api.Template, got api.Endpoint) string {
	sum := templateFingerprint(t)
	if got.Container == nil {
		return sum
	}
	var f settings
	c := got.Container
	if m.Image.IsNull() && c.Image != nil {
		f.Image = *c.Image
	}
	if m.Args.IsNull() && c.Args != nil {
		f.Args = argv(*c.Args)
	}
	if m.Disk.IsNull() && c.Disk != nil {
		f.Disk = *c.Disk
	}
	if m.Ports.IsNull() && c.Ports != nil {
		f.Ports = sorted(*c.Ports)
	}
	if m.Registry.IsNull() && c.Registry != nil {
		f.Registry = *c.Registry
	}
	f.Env = maps.Clone(c.Env)
	for key := range value.StringMap(m.Env) {
		delete(f.Env, key)
	}
	return sum + "+" + part(partCopy, f)
}
