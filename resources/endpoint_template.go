package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// On API v2, an endpoint has a copy of its template's settings and no link, so the provider
// keeps the link. from_template has the settings that the workers got from the template,
// without the endpoint's own. A plan compares it with the template as planned in this run or as
// last read, never with a new response of the API: Terraform plans again during the apply, and
// both plans must be equal.

type endpointPrivate struct {
	Template   *templateSettings // as last read or applied; nil without a template
	Linked     bool              // API v1 has returned the link to the template
	EnvWO      envDigests
	References uniqueTexts `json:"Named"` // ids of other objects that the state contains or once contained
	// AnyDataCenters are the data centers that API v1 returns if the configuration chooses none: all of the deployment.
	AnyDataCenters []string
}

// readTemplate reads the endpoint's template. It returns nil without one.
func (m *endpoint) readTemplate(ctx context.Context, c *api.Client) (*api.Template, error) {
	if m.TemplateID.IsNull() {
		return nil, nil
	}
	t, err := c.Templates.Get(ctx, m.TemplateID.ValueString())
	switch {
	case api.IsNotFound(err):
		return nil, &diagnostics.AttributeError{Attribute: "template_id", Err: fmt.Errorf("template_id names a template that does not exist. Set it to the id of an existing template: %w", err)}
	case err != nil:
		return nil, &diagnostics.AttributeError{Attribute: "template_id", Err: fmt.Errorf("the template could not be read: %w", err)}
	}
	return &t, nil
}

// inheritCUDAVersions adds the CUDA versions of the template to an update, because the API takes them from
// a template only at create. They conflict with a minimum version. API v1 doesn't return them: there the
// update can only clear the endpoint's own.
func inheritCUDAVersions(want *api.Endpoint, prior api.Endpoint, t api.Template) {
	if want.GPU == nil || len(want.GPU.AllowedCUDAVersions) > 0 {
		return
	}
	if t.AllowedCUDAVersions == nil && (prior.GPU == nil || len(prior.GPU.AllowedCUDAVersions) == 0) {
		return
	}
	want.GPU.AllowedCUDAVersions = []string{}
	if want.GPU.MinCUDAVersion == "" {
		want.GPU.AllowedCUDAVersions = append(want.GPU.AllowedCUDAVersions, sorted(deref(t.AllowedCUDAVersions))...)
	}
}

// appliesTemplate reports whether an update sends the container, because the template's settings or
// the endpoint's own change.
func (m *endpoint) appliesTemplate(state *endpoint) bool {
	changes := func(attribute string) bool {
		return !value.Attribute(m, attribute).Equal(value.Attribute(state, attribute))
	}
	gpu, oldGPU := deref(m.expand().GPU), deref(state.expand().GPU)
	return slices.ContainsFunc([]string{"template_id", "from_template", "image", "args", "entrypoint", "cmd", "disk", "env", "ports", "registry"}, changes) ||
		m.sends(&state.writeOnlyEnv) || gpu.MinCUDAVersion != oldGPU.MinCUDAVersion || !slices.Equal(gpu.AllowedCUDAVersions, oldGPU.AllowedCUDAVersions)
}

// recordApplied copies the response to a create or update into the model, and records the settings of
// the template at that time.
func (m *endpoint) recordApplied(ctx context.Context, c *api.Client, t *api.Template, got api.Endpoint) error {
	// Set the id first: the endpoint exists even if a later step fails.
	m.ID = types.StringValue(got.ID)
	templateID, urls := m.TemplateID, m.RequestURLs
	if got.Container != nil { // nil on API v1, which was sent no variables
		m.Private.EnvWO.recordResponse(c, &m.writeOnlyEnv, got.Container.Env)
	}
	if c.Version == api.V1 && len(m.DataCenterIDs.Elements()) == 0 {
		m.Private.AnyDataCenters = got.DataCenterIDs
	}
	if err := m.flatten(ctx, c, got); err != nil {
		return err
	}
	m.TemplateID = templateID
	if !urls.IsUnknown() { // as planned; a refresh shows a new queue_url
		m.RequestURLs = urls
	}
	m.Private.References = nil
	if t == nil {
		m.dropTemplate()
		return nil
	}
	linked, settings := m.isLinked(got), settingsOf(c, *t)
	m.Private.Template, m.Private.Linked = &settings, linked || m.Private.Linked && c.Version == api.V1
	planned := m.FromTemplate
	m.setFromTemplate(c, got, settings, linked)
	if planrule.Known(ctx, planned) && matchesPlan(planned, m.FromTemplate) {
		m.FromTemplate = planned
	}
	return nil
}

func (m *endpoint) dropTemplate() {
	m.FromTemplate, m.Private.Template, m.Private.Linked = types.ObjectNull(fromTemplateTypes), nil, false
}

// recordRead records the endpoint's copy and the template after a read.
func (m *endpoint) recordRead(ctx context.Context, c *api.Client, got api.Endpoint) error {
	linked := m.isLinked(got)
	if c.Version == api.V1 && m.Private.Linked && !linked {
		m.TemplateID = types.StringNull() // somebody changed the copy through API v2, which removed the link
	}
	if m.TemplateID.IsNull() {
		m.dropTemplate()
		return nil
	}
	m.Private.Linked = m.Private.Linked || linked
	m.Private.Template = nil
	t, err := m.readTemplate(ctx, c)
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	var settings templateSettings
	if t != nil {
		settings = settingsOf(c, *t)
		m.Private.Template = &settings
	}
	m.setFromTemplate(c, got, settings, linked && t != nil)
	return nil
}

// isLinked reports whether the response has a link to the template (API v1).
func (m *endpoint) isLinked(got api.Endpoint) bool {
	id := deref(got.TemplateID)
	return id != "" && id == m.TemplateID.ValueString()
}

// setFromTemplate sets from_template from the endpoint's copy, or from the template if the
// endpoint is linked to it. If the version returns neither, it sets only the environment, which is
// all that API v1 returns of a copy made by API v2.
func (m *endpoint) setFromTemplate(c *api.Client, got api.Endpoint, settings templateSettings, linked bool) {
	switch {
	case got.Container != nil:
		settings = settingsOfContainer(c, *got.Container)
		settings.CUDA = cudaVersionsOf(got)
	case linked:
		settings.CUDA, settings.CUDANotFinal = cudaVersionsOf(got), false
	case m.FromTemplate.IsUnknown():
		m.FromTemplate = types.ObjectNull(fromTemplateTypes)
		return
	default:
		if members := m.FromTemplate.Attributes(); !m.FromTemplate.IsNull() && got.WorkerEnv != nil {
			members["env"] = value.KeepMap(types.MapNull(types.StringType), withoutKeys(digests(c, got.WorkerEnv), m.ownVariables(m.Private.EnvWO)))
			m.FromTemplate = types.ObjectValueMust(fromTemplateTypes, members)
		}
		return
	}
	m.FromTemplate = m.settingsFromTemplate(c, settings, types.ObjectNull(fromTemplateTypes))
}

// settingsFromTemplate returns s without the endpoint's own settings. Settings that s marks as
// open have the values of prior.
func (m *endpoint) settingsFromTemplate(c *api.Client, s templateSettings, prior types.Object) types.Object {
	before := prior.Attributes()
	if ports, _ := before["ports"].(types.Set); s.PortsNotFinal && areDefaultPorts(value.Strings(ports)) {
		s.Ports = value.Strings(ports)
	}
	if versions, _ := before["allowed_cuda_versions"].(types.Set); s.CUDANotFinal {
		s.CUDA = value.Strings(versions)
	}
	args, _ := before["args"].(types.String)
	if c.Digest(args.ValueString()) != s.digestOfTemplateParts(c, m.command()) {
		args = types.StringUnknown()
	}
	members := s.members(&m.container, m.ownVariables(m.Private.EnvWO), args)
	if m.EnvWOKeys.IsUnknown() || s.Key != c.Digest("") {
		members["env"] = types.MapUnknown(types.StringType)
	}
	gpu := value.As[endpointGPU](m.GPU)
	switch {
	case m.GPU.IsUnknown(), slices.Contains(s.Unknown, "allowed_cuda_versions"):
		members["allowed_cuda_versions"] = types.SetUnknown(types.StringType)
	case gpu == nil, !gpu.MinCUDAVersion.IsNull(), len(gpu.AllowedCUDAVersions.Elements()) > 0:
		members["allowed_cuda_versions"] = setOrNull(nil)
	default:
		members["allowed_cuda_versions"] = setOrNull(s.CUDA)
	}
	return types.ObjectValueMust(fromTemplateTypes, members)
}

// templateAsPlanned reads the template and checks it against the plan. The cached list isn't
// enough: another configuration of the provider, which is another process, may have changed the
// template in this run.
func (m *endpoint) templateAsPlanned(ctx context.Context, c *api.Client) (*api.Template, error) {
	fail := func(err error) (*api.Template, error) {
		return nil, &diagnostics.AttributeError{Attribute: "template_id", Err: err}
	}
	t, err := c.Templates.GetFresh(ctx, m.TemplateID.ValueString())
	if err != nil {
		return fail(err)
	}
	if !matchesPlan(m.FromTemplate, m.settingsFromTemplate(c, settingsOf(c, t), m.FromTemplate)) {
		return fail(errors.New("the template has changed since the plan was made. Nothing was sent: plan again, with a refresh"))
	}
	return &t, nil
}

// matchesPlan reports whether the template has the planned values. It ignores unknown values and
// ports that the server may add.
func matchesPlan(planned, current types.Object) bool {
	if planned.IsUnknown() {
		return true
	}
	for name, want := range planned.Attributes() {
		got := current.Attributes()[name]
		if want.IsUnknown() || want.Equal(got) {
			continue
		}
		w, ok := want.(types.Set)
		if g, both := got.(types.Set); name == "ports" && ok && both && areEmptyOrDefaultPorts(w) && areEmptyOrDefaultPorts(g) {
			continue
		}
		return false
	}
	return true
}

// areEmptyOrDefaultPorts reports whether ports are empty or the defaults, which API v1 adds to empty ports.
func areEmptyOrDefaultPorts(ports types.Set) bool {
	return len(ports.Elements()) == 0 || areDefaultPorts(value.Strings(ports))
}
