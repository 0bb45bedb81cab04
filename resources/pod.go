package resources

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Pod is gpucloud_pod: a container on a GPU or CPU machine. See pod_plan.go for its fixed
// attributes.
var Pod = newCollectionKind(kit.Kind[pod]{
	Name:           "pod",
	Schema:         podSchema,
	OneVersionOnly: podOneVersion,
	Moved:          movedPod,
	Validate:       validatePod,
	Plan:           planPod,
	Volatile:       []string{"status", "data_center_id", "cost", "ssh", "runtime", "gpu.vcpu_count", "gpu.memory", "global_networking.ip", "global_networking.internal_dns"},
	Loss: func(m *pod) string {
		return fmt.Sprintf("The apply deletes pod %s (%s). %s", m.ID.ValueString(), m.Name.ValueString(), m.loss())
	},
	Create: func(ctx context.Context, c *api.Client, config, plan *pod) error {
		plan.setWriteOnlyEnv(&config.writeOnlyEnv, nil, envDigests{}, nil)
		want := plan.expand()
		unlocked := want
		stops := plan.DesiredState.ValueString() == api.PodExited
		if stops { // a locked pod couldn't be stopped
			unlocked.Locked = nil
		}
		got, err := c.Pods.Create(ctx, unlocked)
		if err != nil {
			return err
		}
		plan.ID = types.StringValue(got.ID)
		desired, locked := plan.DesiredState, plan.Locked
		if stops || locked.ValueBool() && !deref(got.Locked) {
			have := got // made equal to want except for the lock, so that the update sends only the lock
			have.Container, have.Mounts, have.GlobalNetworking, want.GlobalNetworking = want.Container, want.Mounts, nil, nil
			finished, err := applyPod(ctx, c, plan, have, want)
			if err != nil { // an error would taint the pod, which Terraform then replaces
				plan.recordApplied(c, got)
				plan.DesiredState, plan.Locked = desired, locked
				return &diagnostics.Warning{Err: fmt.Errorf("pod %s was created, and could not be stopped or locked as configured. The next apply tries again: %w", got.ID, err)}
			}
			got = finished
		}
		plan.recordApplied(c, got)
		return waitError(plan.awaitPod(ctx, c, true), afterCreate)
	},
	Read: func(ctx context.Context, c *api.Client, state *pod) error {
		got, err := c.Pods.Refresh(ctx, state.expand())
		if err != nil {
			return err
		}
		state.Private.References = state.references()
		state.Private.EnvWO.dropChanged(c, &state.writeOnlyEnv, got.Container.Env)
		state.flatten(got)
		state.recordAccessVariables(c, got)
		return state.readTemplateCopy(ctx, c, got)
	},
	Update: func(ctx context.Context, c *api.Client, config, state, plan *pod) error {
		if id := state.lostVolume(ctx, c, plan); id != "" {
			return &diagnostics.AttributeError{Attribute: "mounts.network", Err: fmt.Errorf("the network volume %s no longer exists, and the pod runs without it. Name one that exists, which replaces the pod, or remove the mount", id)}
		}
		have, err := c.Pods.Refresh(ctx, state.expand())
		if err != nil {
			return err
		}
		plan.setWriteOnlyEnv(&config.writeOnlyEnv, &state.writeOnlyEnv, state.Private.EnvWO, have.Container.Env)
		want, err := plan.desiredPod(ctx, c, state, have)
		if err != nil {
			return err
		}
		got, err := applyPod(ctx, c, plan, have, want)
		if err != nil {
			return err
		}
		plan.Private.Imported, plan.Private.Carried, plan.Private.References = false, nil, nil
		plan.recordApplied(c, got)
		return waitError(plan.awaitPod(ctx, c, false), afterUpdate)
	},
}, func(c *api.Client) *api.Collection[api.Pod] { return c.Pods.Collection }, (*pod).expand, (*pod).flatten)

// applyPod changes, starts and stops a pod. It stops an unlocked pod before the update, which
// may lock it, and a locked pod after the update, which may unlock it.
func applyPod(ctx context.Context, c *api.Client, plan *pod, have, want api.Pod) (got api.Pod, err error) {
	stops := plan.DesiredState.ValueString() == api.PodExited
	stopsFirst := stops && !deref(have.Locked)
	if stopsFirst {
		if _, err := c.Pods.SetActive(ctx, have.ID, false); err != nil {
			return got, err
		}
	}
	got, err = c.Pods.Update(ctx, have, want)
	if err != nil || stopsFirst || plan.DesiredState.IsNull() {
		return got, err
	}
	return c.Pods.SetActive(ctx, have.ID, !stops)
}

// desiredPod returns the pod after an update: the planned settings, the template's for settings that the
// configuration no longer has, and the variables that aren't in the configuration.
func (m *pod) desiredPod(ctx context.Context, c *api.Client, state *pod, have api.Pod) (want api.Pod, err error) {
	want = m.expand()
	before, after := deref(value.As[api.GlobalNetworking](state.GlobalNetworking)), deref(want.GlobalNetworking)
	want.GlobalNetworking = nil
	if before.Enabled != after.Enabled {
		want.GlobalNetworking = &after
	}
	var template api.Container
	hasTemplate, imported := !m.TemplateID.IsNull(), state.Private.Imported // an imported pod doesn't know which settings are the template's
	if hasTemplate && !imported && (m.FromTemplate.IsNull() || !m.FromTemplate.Equal(state.FromTemplate)) {
		t, err := c.Templates.Get(ctx, m.TemplateID.ValueString())
		switch {
		case api.IsNotFound(err): // the pod keeps its settings
			template = *have.Container
		case err != nil:
			return want, &diagnostics.AttributeError{Attribute: "template_id", Err: fmt.Errorf("could not read the template, from which the pod gets the settings that it no longer has itself: %w", err)}
		default:
			template = t.Container()
		}
		container, oldContainer := want.Container, state.container.expand()
		inheritSetting(&container.Image, oldContainer.Image, template.Image, m.restores(state, "image"))
		inheritSetting(&container.Disk, oldContainer.Disk, template.Disk, m.restores(state, "disk"))
		inheritSetting(&container.Ports, oldContainer.Ports, template.Ports, m.restores(state, "ports"))
		inheritSetting(&container.Registry, oldContainer.Registry, template.Registry, m.restores(state, "registry"))
		if m.restores(state, "args") || !m.command().setsSameParts(state.command()) {
			switch entrypoint, cmd := m.command().ownParts(); {
			case !entrypoint && !cmd:
				container.Args = template.Args
			case !entrypoint:
				container.Entrypoint = template.Entrypoint
			case !cmd:
				container.Cmd = template.Cmd
			}
		}
	}
	restores := m.restores(state, "env") && !m.FromTemplate.Attributes()["env"].IsUnknown()
	env, ownBefore := map[string]string{}, state.ownVariables()
	for name, v := range have.Container.Env {
		fromTemplate, inTemplate := template.Env[name]
		switch {
		case api.IsAccessVariable(name), hasTemplate && (imported || !restores && !ownBefore[name]):
			env[name] = v
		case inTemplate:
			env[name] = fromTemplate
		}
	}
	if restores {
		maps.Copy(env, template.Env)
	}
	maps.Copy(env, value.StringMap(m.Env))
	want.Container.Env = m.withWriteOnly(env)
	return want, nil
}

// inheritSetting sets own to the template's setting if the pod's own was removed or the update restores it.
func inheritSetting[V any](own **V, old, template *V, restores bool) {
	if *own == nil && (old != nil || restores) {
		*own = template
	}
}

// restores reports whether an update changes a member of from_template, so that the
// template's setting is copied again.
func (m *pod) restores(state *pod, name string) bool {
	before, after := state.FromTemplate.Attributes()[name], m.FromTemplate.Attributes()[name]
	return before != nil && after != nil && !after.Equal(before)
}
