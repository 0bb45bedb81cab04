package resources

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// The container settings that templates, endpoints and pods share (v2 document:
// ContainerConfig).

// containerAttributes merges the attributes of these settings with a kind's other attributes, which
// take precedence. env and envWO are appended to the descriptions of env and env_wo.
func containerAttributes(m members, env, envWO string, others attributes) attributes {
	all := attributes{
		"image":          imageAttribute(m, "Container image."),
		"args":           argsAttribute(m),
		"entrypoint":     entrypointAttribute(m),
		"cmd":            cmdAttribute(m),
		"env":            envAttribute(m, ": put secrets into `env_wo`."+env),
		"env_wo":         envWOAttribute(m, envWO),
		"env_wo_version": schema.Int64Attribute{Optional: true, MarkdownDescription: "Required with `env_wo`; change it to send new values."},
		"env_wo_keys":    schema.SetAttribute{ElementType: types.StringType, Computed: true, MarkdownDescription: "Names in `env_wo` whose values are unchanged since they were sent."},
		"ports":          portsAttribute(m),
		"registry":       m.text("registry", "Id of the registry auth for a private image."),
	}
	maps.Copy(all, others)
	return all
}

func envAttribute(m members, more string) schema.MapAttribute {
	return schema.MapAttribute{
		ElementType:         types.StringType,
		Optional:            true,
		MarkdownDescription: describe(m.setting("env"), "Environment variables. The state contains them"+more, nil),
		Validators:          []validator.Map{rule.NoNulls{}, mapvalidator.KeysAre(rule.VariableName), mapvalidator.ValueStringsAre(rule.VariableValue)},
	}
}

func portsAttribute(m members, more ...string) schema.SetAttribute {
	return m.texts("ports", "Exposed ports, each `<1..65535>/<http|tcp>`.", more...)
}

func imageAttribute(m members, text string, more ...string) schema.StringAttribute {
	a := m.text("image", text, more...)
	a.Validators = []validator.String{rule.ImageReference} // also rejects an empty text
	return a
}

var defaultDisk = contract.Default[int64](templateMembers.setting("disk").V2) // GB

// plannedDisk returns the planned size of the container disk. If omitted, it is null with a
// template, whose size then applies, and otherwise the documented default.
func plannedDisk(disk types.Int64, templateID, image types.String) types.Int64 {
	switch {
	case !disk.IsNull():
		return disk
	case templateID.IsNull():
		return types.Int64Value(defaultDisk)
	case templateID.IsUnknown() && !image.IsNull(): // templateID may become null
		return types.Int64Unknown()
	}
	return types.Int64Null()
}

// container has the container settings of a model. Attributes that a kind lacks are null. The others
// override the settings of a template, if they are set.
type container struct {
	TemplateID, Image, Args, Registry types.String
	Entrypoint, Cmd, DockerEntrypoint types.List
	Disk                              types.Int64
	Env                               types.Map
	Ports                             types.Set
	writeOnlyEnv
}

func (s *container) command() command {
	return command{&s.Args, &s.Entrypoint, &s.Cmd, &s.DockerEntrypoint}
}

// validate rejects settings that no API version accepts.
func (s *container) validate(c diagnostics.Check) {
	s.writeOnlyEnv.validate(c, s.Env)
	s.command().check(c)
}

// checkImage requires the image of a container, or a template that has one.
func (s *container) checkImage(c diagnostics.Check) {
	if s.TemplateID.IsNull() && s.Image.IsNull() {
		c.Error("image", "Missing image", "A container needs an image, its own or a template's: set template_id or image (API v1 takes no image of an endpoint).")
	}
}

// expand returns the settings of the model. If the object has a template, omitted settings are
// nil and inherited from it; otherwise they are empty.
func (s *container) expand() *api.Container {
	hasTemplate := !s.TemplateID.IsNull()
	c := &api.Container{Image: pointerIfSet(s.Image), Command: s.command().expand(hasTemplate), Disk: s.Disk.ValueInt64Pointer()}
	if !s.Env.IsNull() || len(s.values) > 0 || !hasTemplate {
		c.Env = s.withWriteOnly(value.StringMap(s.Env))
	}
	if !s.Ports.IsNull() || !hasTemplate {
		c.Ports = new(sorted(value.Strings(s.Ports)))
	}
	if !s.Registry.IsNull() || !hasTemplate {
		c.Registry = new(s.Registry.ValueString())
	}
	return c
}

// ownVariables returns the names of the variables that the model sets, in env and env_wo.
func (s *container) ownVariables(d envDigests) map[string]bool {
	names := s.writeOnlyNames(d)
	for name := range s.Env.Elements() {
		names[name] = true
	}
	return names
}

// flatten copies a response into the model: everything, or only the settings that the model sets.
func (s *container) flatten(got api.Container, everything bool) {
	s.command().flatten(got.Command, everything)
	var except []string
	if !everything {
		for _, name := range []string{"Image", "Disk", "Env", "Ports", "Registry"} {
			if value.Attribute(s, name).IsNull() {
				except = append(except, name)
			}
		}
		serverEnv := got.Env
		got.Env = map[string]string{}
		for name := range s.Env.Elements() {
			if v, ok := serverEnv[name]; ok {
				got.Env[name] = v
			}
		}
	}
	value.Flatten(got, s, except...)
}
