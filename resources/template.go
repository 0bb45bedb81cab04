package resources

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Template is gpucloud_template: the container settings of pods or serverless workers.
var Template = newCollectionKind(kit.Kind[template]{
	Name:           "template",
	Schema:         templateSchema,
	OneVersionOnly: templateOneVersion,
	Validate: func(_ context.Context, c diagnostics.Check, config *template) {
		config.validate(c)
	},
	Plan: planTemplate,
	Create: func(ctx context.Context, c *api.Client, config, plan *template) error {
		plan.setWriteOnlyEnv(&config.writeOnlyEnv, nil, envDigests{}, nil)
		got, err := c.Templates.Create(ctx, plan.expand())
		return plan.recordApplied(c, got, err)
	},
	Read: func(ctx context.Context, c *api.Client, state *template) error {
		got, err := c.Templates.Refresh(ctx, state.expand())
		if err == nil {
			state.Private.EnvWO.dropChanged(c, &state.writeOnlyEnv, got.Env)
			state.flatten(got)
		}
		return err
	},
	Update: func(ctx context.Context, c *api.Client, config, state, plan *template) error {
		// Compare with the current template, which may have changed since the plan.
		have, err := c.Templates.Refresh(ctx, state.expand())
		if err != nil {
			return err
		}
		plan.setWriteOnlyEnv(&config.writeOnlyEnv, &state.writeOnlyEnv, state.Private.EnvWO, have.Env)
		got, err := c.Templates.Update(ctx, have, plan.expand())
		return plan.recordApplied(c, got, err)
	},
}, func(c *api.Client) *api.Collection[api.Template] { return c.Templates }, (*template).expand, (*template).flatten)

// recordApplied copies the response to a create or update into the model.
func (m *template) recordApplied(c *api.Client, got api.Template, err error) error {
	if err == nil {
		m.Private.EnvWO.recordResponse(c, &m.writeOnlyEnv, got.Env)
		m.flatten(got)
	}
	return err
}

var templateOneVersion = templateMembers.oneVersion()

const keptOnV1 = " If omitted, an imported template (on API v1, any existing template) keeps its value."

var templateSchema = schema.Schema{
	MarkdownDescription: "A template: the container settings of serverless workers (`serverless = true`) or pods. " +
		"Endpoints that name it in `template_id` follow its changes on both API versions, in the same apply. " +
		"On API v2, endpoints of another provider configuration (an `alias`) follow in the next apply, because their plan doesn't see the planned change.",
	Attributes: containerAttributes(templateMembers, "", "", attributes{
		"id":                idAttribute("template"),
		"name":              templateMembers.text("name", "Name of the template, unique in the account. A replacement with `create_before_destroy` needs a new name."),
		"docker_entrypoint": dockerEntrypointAttribute(templateMembers),
		"disk":              templateMembers.integer("disk", "Container disk in GB, wiped on restart."),
		"mounts": keptIfOmitted(optionalObject("Storage mounts. On API v2, removing configured mounts forces replacement.", attributes{
			"persistent": requiredObject("Storage on the host that survives restarts of the container.", attributes{
				"size": persistentSizeAttribute,
				"path": mountPathAttribute,
			}),
		})),
		"public":                templateMembers.boolean("public", "Whether other users see a pod template."),
		"serverless":            withoutDefault(templateMembers.boolean("serverless", "Whether the template is for endpoints. Defaults to {default}. Forces replacement on API v1.", keptOnV1), true),
		"category":              withoutDefault(templateMembers.text("category", "Compute category: {choices}. Defaults to `{default}`. Forces replacement on API v1.", keptOnV1), true),
		"ports":                 withoutDefault(portsAttribute(templateMembers, " If omitted, an imported template keeps its ports only if they are the defaults of API v1, `8888/http` and `22/tcp`."), true),
		"readme":                templateMembers.text("readme", "Description in Markdown."),
		"start_ssh":             templateMembers.boolean("startSsh", "Whether pods of this template get SSH access."),
		"start_jupyter":         templateMembers.boolean("startJupyter", "Whether pods of this template start JupyterLab."),
		"allowed_cuda_versions": templateMembers.texts("allowedCudaVersions", "CUDA versions that a machine may have, as `major.minor`; default any."),
	}),
}

type template struct {
	ID, Name, Category, Readme                 types.String
	Mounts                                     types.Object
	Public, Serverless, StartSSH, StartJupyter types.Bool
	AllowedCUDAVersions                        types.Set

	container
	Private templatePrivate
}

type templatePrivate struct {
	EnvWO envDigests
}

func (m *template) containerParts() (*container, *envDigests) { return &m.container, &m.Private.EnvWO }

func planTemplate(ctx context.Context, p *planrule.Plan[template]) {
	if p.KeepOmitted("mounts", "ports"); !areDefaultPorts(value.Strings(p.Plan.Ports)) {
		p.Plan.Ports = p.Config.Ports
	}
	category := types.StringValue(contract.Default[string](templateMembers.setting("category").V2))
	serverless := types.BoolValue(contract.Default[bool](templateMembers.setting("serverless").V2))
	// An omitted attribute keeps its value after an import and, because a change would replace the template, on API v1.
	if p.State != nil && (p.Version != api.V2 || !p.CreatedHere) {
		category, serverless = p.State.Category, p.State.Serverless
	}
	p.Plan.Category, p.Plan.Serverless = defaultTo(p.Config.Category, types.StringNull(), category), defaultTo(p.Config.Serverless, types.BoolNull(), serverless)
	planContainer(p, (*template).containerParts)
	checkPersistentSize(ctx, p, p.Plan.Mounts)
	if p.State != nil {
		planTemplateChange(ctx, p)
	}
	if p.State == nil || p.ChangesObject(ctx) {
		p.Plan.command().checkVersion(p.Check, p.Version)
		checkRegistry(ctx, p, uniqueTexts{p.Prior.Registry.ValueString()}, p.Plan.Registry)
	}
}

func planTemplateChange(ctx context.Context, p *planrule.Plan[template]) {
	for _, attribute := range immutableChanges(ctx, p) {
		if users := linkedEndpoints(ctx, p, attribute); len(users) > 0 {
			p.Error(attribute, "The template is in use",
				"API %s can't change %s in place, and it refuses to delete a template that an endpoint is linked to (%s). "+
					"Create a second template with the change, point the endpoint at it, then remove this one.", p.Version, attribute, strings.Join(users, ", "))
			continue
		}
		p.Replace(attribute)
	}
	recordPlannedTemplate(ctx, p)
}

// immutableChanges returns the attributes that the plan changes and that p.Version can't change in place,
// including attributes that only the other version has.
func immutableChanges(ctx context.Context, p *planrule.Plan[template]) []string {
	out := p.Unchangeable(ctx, templateOneVersion)
	for _, attribute := range []string{"category", "serverless"} {
		if p.Version == api.V1 && p.Changes(ctx, attribute) {
			out = append(out, attribute)
		}
	}
	if p.Version == api.V2 && p.Plan.Mounts.IsNull() && !p.State.Mounts.IsNull() {
		out = append(out, "mounts")
	}
	if p.Version == api.V2 {
		warnOfUnknown(p, "mounts", p.Plan.Mounts, p.State.Mounts)
	}
	return out
}

// linkedEndpoints names the endpoints that are linked to the template. On v2 an endpoint has a copy of
// the template's settings and no link, so the result is empty.
func linkedEndpoints(ctx context.Context, p *planrule.Plan[template], attribute string) (names []string) {
	endpoints, err := p.API.Endpoints.List(ctx)
	if err != nil {
		p.Warn(attribute, "Could not see which endpoints use the template", "%s", err)
	}
	for _, e := range endpoints {
		if deref(e.TemplateID) == p.State.ID.ValueString() {
			names = append(names, e.Name+" ("+e.ID+")")
		}
	}
	return names
}

func (m *template) expand() (t api.Template) {
	value.Expand(m, &t)
	t.Command, t.Env = m.command().expand(false), m.withWriteOnly(value.StringMap(m.Env))
	t.Readme, t.AllowedCUDAVersions = new(m.Readme.ValueString()), new(sorted(value.Strings(m.AllowedCUDAVersions)))
	return t
}

func (m *template) flatten(got api.Template) {
	if imported := m.Name.IsNull(); !imported && len(m.Ports.Elements()) == 0 && areDefaultPorts(got.Ports) { // API v1 adds them
		got.Ports = nil
	}
	got.Env = m.withoutWriteOnly(m.Private.EnvWO, got.Env)
	for _, b := range []*types.Bool{&m.StartSSH, &m.StartJupyter} {
		if b.IsNull() || b.IsUnknown() { // after an import: the schema's default, unless the response has a value
			*b = types.BoolValue(true)
		}
	}
	value.Flatten(got, m, "Mounts")
	m.command().flatten(got.Command, true)
	mounts := &got.Mounts
	if mounts.Persistent == nil {
		mounts = nil
	}
	m.Mounts = value.Object(templateSchema.Attributes["mounts"], mounts)
}
