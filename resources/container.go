package resources

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// The container settings that templates, endpoints and pods share (v2 document:
// ContainerConfig).

func envAttribute(m members, more string) schema.MapAttribute {
	return schema.MapAttribute{
		ElementType:         types.StringType,
		Optional:            true,
		MarkdownDescription: describe(m.at("env"), "Environment variables. The state contains them: put secrets into `env_wo`."+more, nil),
		Validators:          []validator.Map{noNulls{}, mapvalidator.KeysAre(variableName), mapvalidator.ValueStringsAre(variableValue)},
	}
}

func portsAttribute(m members, more ...string) schema.SetAttribute {
	return m.texts("ports", "Exposed ports, each `<1..65535>/<http|tcp>`.", more...)
}

func registryAttribute(m members) schema.StringAttribute {
	return m.text("registry", "Id of the registry auth for a private image.")
}

func imageAttribute(m members, text string, more ...string) schema.StringAttribute {
	a := m.text("image", text, more...)
	a.Validators = append(a.Validators, imageReference)
	return a
}

// The storage of a template or a pod. A size of 0, which API v1 accepts, means none.
var (
	persistentSizeAttribute = func() schema.Int64Attribute {
		a := ofPod.integer("mounts.persistent.size", "Size in GB, at least {min} on API v2.")
		a.Validators = positive
		return a
	}()
	mountPathAttribute = ofPod.text("mounts.persistent.path", "Absolute path in the container.")
)

var defaultDisk = contract.Default[int64](ofTemplate.at("disk").V2) // GB

var positive = []validator.Int64{atLeast[int64](1), notHuge[int64]()}

// containerFields are the container settings of a model. With a template, they override it.
type containerFields struct {
	image    *types.String
	command  command
	disk     *types.Int64
	env      *types.Map
	ports    *types.Set
	registry *types.String
}

// expand returns the model's own settings. If the object follows a template, omitted settings
// are the template's; otherwise they are empty.
func (f containerFields) expand(followed bool) *api.Container {
	c := &api.Container{Image: optional(*f.image), Command: f.command.expand(followed), Disk: f.disk.ValueInt64Pointer()}
	if !f.env.IsNull() || !followed {
		c.Env = value.StringMap(*f.env)
	}
	if !f.ports.IsNull() || !followed {
		c.Ports = new(sorted(value.Strings(*f.ports)))
	}
	if !f.registry.IsNull() || !followed {
		c.Registry = new(f.registry.ValueString())
	}
	return c
}

// flatten copies an answer into the model: all of it if own is true, otherwise only the
// settings that the model sets.
func (f containerFields) flatten(got api.Container, own bool) {
	if got.Image != nil && (own || !f.image.IsNull()) {
		*f.image = value.KeepString(*f.image, *got.Image)
	}
	f.command.flatten(got.Command, own)
	if got.Disk != nil && (own || !f.disk.IsNull()) {
		*f.disk = types.Int64Value(*got.Disk)
	}
	if own || !f.env.IsNull() {
		env := got.Env
		if !own {
			env = map[string]string{}
			for key := range f.env.Elements() {
				if v, ok := got.Env[key]; ok {
					env[key] = v
				}
			}
		}
		*f.env = value.KeepMap(*f.env, env)
	}
	if got.Ports != nil && (own || !f.ports.IsNull()) {
		*f.ports = value.KeepSet(*f.ports, *got.Ports)
	}
	if got.Registry != nil && (own || !f.registry.IsNull()) {
		*f.registry = value.KeepString(*f.registry, *got.Registry)
	}
}
