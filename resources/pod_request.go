package resources

import (
	"context"
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

func (m *pod) expand() (want api.Pod) {
	value.Expand(m, &want)
	value.Expand(m, &want.Placement)
	if want.Container = m.settings().expand(!m.TemplateID.IsNull()); len(m.values) > 0 {
		want.Container.Env = m.withWriteOnly(value.StringMap(m.Env))
	}
	return want
}

// change returns the pod after an update: the plan, the template's settings in place of removed
// own settings, and the variables that aren't in the configuration.
func (m *pod) change(ctx context.Context, c *api.Client, state *pod, have api.Pod) (want api.Pod, err error) {
	want = m.expand()
	before, after := deref(value.As[api.GlobalNetworking](state.GlobalNetworking)), deref(want.GlobalNetworking)
	want.GlobalNetworking = nil
	if before.Enabled != after.Enabled {
		want.GlobalNetworking = &after
	}
	template := &api.Container{Env: map[string]string{}}
	if !m.TemplateID.IsNull() && !state.Private.Imported && (m.givesUp(state) || !m.FromTemplate.Equal(state.FromTemplate)) {
		t, err := c.Templates.Get(ctx, m.TemplateID.ValueString())
		switch {
		case api.IsNotFound(err): // the pod keeps its settings
			template = have.Container
		case err != nil:
			return want, &diagnostics.AttributeError{Attribute: "template_id", Err: fmt.Errorf("could not read the template, whose settings replace the removed ones of the pod: %w", err)}
		default:
			template = &api.Container{Image: &t.Image, Command: t.Command, Disk: &t.Disk, Env: t.Env, Ports: &t.Ports, Registry: &t.Registry}
		}
		takeOver(m, state, "image", &want.Container.Image, template.Image)
		m.takeOverCommand(state, &want.Container.Command, template.Command)
		takeOver(m, state, "disk", &want.Container.Disk, template.Disk)
		takeOver(m, state, "ports", &want.Container.Ports, template.Ports)
		takeOver(m, state, "registry", &want.Container.Registry, template.Registry)
	}
	restores := m.restores(state, "env") && !m.FromTemplate.Attributes()["env"].IsUnknown()
	writeOnly := state.owned(state.Private.EnvWO)
	if !restores && want.Container.Env == nil && state.Env.IsNull() && len(writeOnly) == 0 {
		return want, nil
	}
	keepsAll := !m.TemplateID.IsNull() && state.Private.Imported // it is unknown which variables are the template's
	env := m.withWriteOnly(value.StringMap(m.Env))
	if restores {
		for name, v := range template.Env {
			if _, own := env[name]; !own {
				env[name] = v
			}
		}
	}
	for name, v := range have.Container.Env {
		_, own := env[name]
		_, owned := state.Env.Elements()[name]
		owned = owned || writeOnly[name]
		fromTemplate, inTemplate := template.Env[name]
		switch {
		case own:
		case keepsAll, api.IsAccessVariable(name), !owned && !m.TemplateID.IsNull() && !restores:
			env[name] = v
		case inTemplate:
			env[name] = fromTemplate
		}
	}
	want.Container.Env = env
	return want, nil
}

// givesUp reports whether the configuration no longer has a container setting that the state
// has.
func (m *pod) givesUp(state *pod) bool {
	had := state.ownSettings()
	for name, own := range m.ownSettings() {
		if own.IsNull() && !had[name].IsNull() {
			return true
		}
	}
	entrypoint, cmd := m.command().owned()
	hadEntrypoint, hadCmd := state.command().owned()
	return hadEntrypoint && !entrypoint || hadCmd && !cmd || !m.Env.Equal(state.Env) || m.sends(&state.writeOnlyEnv)
}

// takeOver sends the template's setting if the pod gives up its own, or if somebody changed its
// copy.
func takeOver[V any](m, state *pod, name string, want **V, template *V) {
	own := m.ownSettings()[name]
	if own.IsNull() && (!state.ownSettings()[name].IsNull() || m.restores(state, name)) {
		*want = template
	}
}

// takeOverCommand is takeOver for the start command. A pod may give up a part of it.
func (m *pod) takeOverCommand(state *pod, want *api.Command, template api.Command) {
	entrypoint, cmd := m.command().owned()
	hadEntrypoint, hadCmd := state.command().owned()
	restores := m.restores(state, "args")
	switch {
	case !entrypoint && !cmd && (hadEntrypoint || hadCmd || restores):
		want.Args = template.Args
	case cmd && !entrypoint && (hadEntrypoint || restores):
		want.Entrypoint = template.Entrypoint
	case entrypoint && !cmd && (hadCmd || restores):
		want.Cmd = template.Cmd
	}
}

// restores reports whether an update restores a member of from_template.
func (m *pod) restores(state *pod, name string) bool {
	before, after := state.FromTemplate.Attributes()[name], m.FromTemplate.Attributes()[name]
	return before != nil && after != nil && !after.Equal(before)
}
