package resources

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// templateSettings are the settings that workers and pods get from a template, in one form for all
// sources: the API, a plan, or the copy of an endpoint or pod. A private state stores them, so values that
// may be secrets are digests.
type templateSettings struct {
	Key        string // identifies the API key of the digests
	Image      string
	Args       string            // digest of the start command
	Entrypoint string            // digest of the start command without the cmd
	Cmd        string            // digest of the start command without the entrypoint
	Disk       int64             // GB
	Env        map[string]string // digests
	Ports      []string          // sorted
	Registry   string
	CUDA       []string // sorted
	Serverless bool

	// PortsNotFinal means that Ports isn't final: the template has no ports, and API v1 may add its defaults.
	PortsNotFinal bool
	// CUDANotFinal means that CUDA isn't final: API v1 doesn't return a template's CUDA versions, so from_template
	// keeps its earlier ones.
	CUDANotFinal bool
	// Unknown are the attributes that are unknown until apply.
	Unknown []string

	command *startcmd.Command // nil if read from a private state
}

// fromTemplateMembers are the settings that pods and endpoints get from a template. more are the
// names of further members, which are sets of CUDA versions.
func fromTemplateMembers(more ...string) map[string]schema.Attribute {
	members := map[string]schema.Attribute{
		"image":    schema.StringAttribute{Computed: true, MarkdownDescription: "Container image."},
		"args":     schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "Arguments, quoted as a shell would."},
		"disk":     schema.Int64Attribute{Computed: true, MarkdownDescription: "Container disk in GB."},
		"env":      schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Environment variables, with digests instead of values."},
		"ports":    schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Exposed ports."},
		"registry": schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the registry auth."},
	}
	for _, name := range more {
		members[name] = schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "CUDA versions that a machine may have."}
	}
	return members
}

func settingsOf(c *api.Client, t api.Template) templateSettings {
	s := settingsOfContainer(c, t.Container())
	s.Serverless, s.CUDA, s.CUDANotFinal = t.Serverless, sorted(deref(t.AllowedCUDAVersions)), t.AllowedCUDAVersions == nil
	return s
}

func settingsOfContainer(c *api.Client, container api.Container) templateSettings {
	command, _ := container.Meaning() // text that can't be split is one word
	return templateSettings{
		Key: c.Digest(""), Image: deref(container.Image), Disk: deref(container.Disk), Env: digests(c, container.Env), Ports: sorted(deref(container.Ports)), Registry: deref(container.Registry),
		command: &command, Args: c.Digest(command.String()),
		Entrypoint: c.Digest(startcmd.Command{Entrypoint: command.Entrypoint}.String()), Cmd: c.Digest(startcmd.Command{Cmd: command.Cmd}.String()),
	}
}

// digestOfTemplateParts returns the digest of the command parts that a pod or endpoint leaves to the template.
func (s *templateSettings) digestOfTemplateParts(c *api.Client, own command) string {
	switch entrypoint, cmd := own.ownParts(); {
	case entrypoint && cmd:
		return c.Digest("")
	case entrypoint:
		return s.Cmd
	case cmd:
		return s.Entrypoint
	}
	return s.Args
}

// members returns the members of from_template. Settings that the object sets itself are null. args
// is the template's part of the start command, for settings that have only its digest.
func (s *templateSettings) members(own *container, variables map[string]bool, args types.String) map[string]attr.Value {
	if s.command != nil {
		args = textOrNull(own.command().partsOfTemplate(*s.command).String())
	}
	members := map[string]attr.Value{
		"image": textOrNull(s.Image), "args": args, "disk": types.Int64Value(s.Disk), "ports": setOrNull(s.Ports), "registry": textOrNull(s.Registry),
		"env": value.KeepMap(types.MapNull(types.StringType), withoutKeys(s.Env, variables)),
	}
	for name, v := range map[string]attr.Value{"image": own.Image, "args": own.Args, "disk": own.Disk, "ports": own.Ports, "registry": own.Registry} {
		isUnknown := slices.ContainsFunc(s.Unknown, func(a string) bool { return a == name || name == "args" && slices.Contains(commandAttributes, a) })
		switch typ := podFromTemplateTypes[name]; {
		case v.IsUnknown(), v.IsNull() && isUnknown:
			members[name] = value.Unknown(typ)
		case !v.IsNull():
			members[name] = value.Null(typ)
		}
	}
	if own.Env.IsUnknown() || slices.Contains(s.Unknown, "env") {
		members["env"] = types.MapUnknown(types.StringType)
	}
	switch entrypoint, cmd := own.command().ownParts(); {
	case own.Args.IsUnknown(), own.Entrypoint.IsUnknown(), own.Cmd.IsUnknown(), own.DockerEntrypoint.IsUnknown():
		members["args"] = types.StringUnknown()
	case entrypoint && cmd:
		members["args"] = types.StringNull()
	}
	return members
}

func cudaVersionsOf(e api.Endpoint) []string { return sorted(deref(e.GPU).AllowedCUDAVersions) }

// templateAttributes are the attributes of a template that its settings hold.
var templateAttributes = slices.Concat(commandAttributes, []string{"image", "disk", "env", "ports", "registry", "allowed_cuda_versions", "serverless"})

// recordPlannedTemplate records the planned settings for the endpoints that follow the
// template, which are planned later.
func recordPlannedTemplate(ctx context.Context, p *planrule.Plan[template]) {
	id := p.State.ID.ValueString()
	isChanged := func(attribute string) bool { return p.Changes(ctx, attribute) }
	if slices.ContainsFunc(templateAttributes, isChanged) || slices.ContainsFunc([]string{"env_wo_version", "env_wo_keys"}, isChanged) {
		p.Templates.Store(id, new(plannedSettings(ctx, p)))
	} else {
		p.Templates.Delete(id)
	}
}

// plannedTemplate returns the settings that this run plans for a template, or nil if it doesn't
// change them. Each provider configuration is a process of its own: changes of another one (an
// alias) are visible in the next run.
func plannedTemplate[M any](p *planrule.Plan[M], id string) *templateSettings {
	planned, _ := p.Templates.Load(id)
	settings, _ := planned.(*templateSettings)
	return settings
}

func plannedSettings(ctx context.Context, p *planrule.Plan[template]) templateSettings {
	s := settingsOf(p.API, p.Plan.expand())
	s.PortsNotFinal = len(p.State.Ports.Elements())+len(p.Plan.Ports.Elements()) == 0
	s.CUDANotFinal = p.Version == api.V1
	for _, a := range templateAttributes {
		if !p.Known(ctx, a) {
			s.Unknown = append(s.Unknown, a)
		}
	}
	// A write-only value may differ at apply.
	switch prior := p.State.Private.EnvWO; {
	case p.Plan.sends(&p.State.writeOnlyEnv), p.State.changedElsewhere(prior), len(prior.Values) > 0 && prior.Key != p.API.Digest(""):
		s.Unknown = append(s.Unknown, "env")
	default:
		maps.Copy(s.Env, prior.Values)
	}
	return s
}

// digests replaces the values of an environment, which may be secrets, with digests, to show
// which variable differs.
func digests(c *api.Client, env map[string]string) map[string]string {
	out := make(map[string]string, len(env))
	for name, v := range env {
		out[name] = c.DigestVariable(name, v)
	}
	return out
}

// areDefaultPorts reports whether these are the default ports of API v1.
func areDefaultPorts(ports []string) bool {
	return slices.Equal(sorted(ports), []string{"22/tcp", "8888/http"})
}

func withoutKeys(env map[string]string, keys map[string]bool) map[string]string {
	out := maps.Clone(env)
	maps.DeleteFunc(out, func(name, _ string) bool { return keys[name] })
	return out
}
