package resources

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

func (m *pod) expand(ctx context.Context) (want api.Pod, err error) {
	want = api.Pod{
		ID:            m.ID.ValueString(),
		Name:          m.Name.ValueString(),
		TemplateID:    optional(m.TemplateID),
		Container:     m.container().expand(!m.TemplateID.IsNull()),
		Cloud:         m.Cloud.ValueString(),
		DataCenterIDs: sorted(value.Strings(m.DataCenterIDs)),
		Locked:        m.Locked.ValueBoolPointer(),
		StartSSH:      m.StartSSH.ValueBoolPointer(),
		StartJupyter:  m.StartJupyter.ValueBoolPointer(),
		Placement: api.PodPlacement{
			Interruptible: m.Interruptible.ValueBoolPointer(), SupportPublicIP: m.SupportPublicIP.ValueBoolPointer(),
			CountryCodes: sorted(value.Strings(m.CountryCodes)), GPUTypePriority: m.GPUTypePriority.ValueString(),
			CPUFlavorPriority: m.CPUFlavorPriority.ValueString(), DataCenterPriority: m.DataCenterPriority.ValueString(),
			MinRAMPerGPU: m.MinRAMPerGPU.ValueInt64Pointer(), MinVCPUPerGPU: m.MinVCPUPerGPU.ValueInt64Pointer(),
			MinDiskBandwidthMBps: m.MinDiskBandwidthMBps.ValueFloat64Pointer(), MinDownloadMbps: m.MinDownloadMbps.ValueFloat64Pointer(),
			MinUploadMbps: m.MinUploadMbps.ValueFloat64Pointer(),
		},
	}
	if len(m.values) > 0 {
		want.Container.Env = m.merged(value.StringMap(m.Env))
	}
	gpu, err := value.As[podGPU](ctx, m.GPU)
	if err != nil {
		return want, err
	}
	if gpu != nil {
		want.GPU = &api.PodGPU{
			ID: gpu.ID.ValueString(), Count: gpu.Count.ValueInt64(),
			AllowedCUDAVersions: sorted(value.Strings(gpu.AllowedCUDAVersions)), MinCUDAVersion: gpu.MinCUDAVersion.ValueString(),
			MinRAMPerGPU: gpu.MinRAMPerGPU.ValueInt64(), MinVCPUCountPerGPU: gpu.MinVCPUCountPerGPU.ValueInt64(),
		}
	}
	cpu, err := value.As[podCPU](ctx, m.CPU)
	if err != nil {
		return want, err
	}
	if cpu != nil {
		want.CPU = &api.PodCPU{ID: cpu.ID.ValueString(), VCPUCount: cpu.VCPUCount.ValueInt64()}
	}
	networking, err := value.As[globalNetworking](ctx, m.GlobalNetworking)
	if err != nil {
		return want, err
	}
	if networking != nil {
		want.GlobalNetworking = &api.GlobalNetworking{Enabled: networking.Enabled.ValueBool()}
	}
	want.Mounts, err = expandMounts(ctx, m.Mounts)
	return want, err
}

// expandMounts converts the storage of a pod, or of a cluster's pods.
func expandMounts(ctx context.Context, from types.Object) (out api.PodMounts, err error) {
	mounts, err := value.As[podMounts](ctx, from)
	if err != nil || mounts == nil {
		return out, err
	}
	persistent, err := value.As[persistentMount](ctx, mounts.Persistent)
	if err != nil {
		return out, err
	}
	if persistent != nil {
		out.Persistent = &api.PersistentMount{Size: persistent.Size.ValueInt64(), Path: persistent.Path.ValueString()}
	}
	for _, e := range mounts.Network.Elements() {
		mount, err := value.As[networkMount](ctx, e.(types.Object))
		if err != nil {
			return out, err
		}
		if mount != nil {
			out.Network = append(out.Network, api.NetworkMount{VolumeID: mount.VolumeID.ValueString(), Path: mount.Path.ValueString()})
		}
	}
	return out, nil
}

// change returns the pod after an update: the plan, with the template's settings where the pod
// gives up its own, and the variables that aren't in the configuration.
func (m *pod) change(ctx context.Context, c *api.Client, state *pod, have api.Pod) (want api.Pod, err error) {
	if want, err = m.expand(ctx); err != nil {
		return want, err
	}
	if m.GlobalNetworking.Equal(state.GlobalNetworking) || !m.networkingChanges(ctx, state) {
		want.GlobalNetworking = nil
	} else if want.GlobalNetworking == nil {
		want.GlobalNetworking = &api.GlobalNetworking{}
	}
	template := &api.Container{Env: map[string]string{}}
	if !m.TemplateID.IsNull() && !state.Private.Imported && (m.givesUp(state) || !m.FromTemplate.Equal(state.FromTemplate)) {
		t, err := c.Templates.Get(ctx, m.TemplateID.ValueString())
		switch {
		case api.IsNotFound(err): // the pod keeps its settings
			template = have.Container
		case err != nil:
			return want, &diagnostics.AttributeError{Attribute: "template_id", Err: fmt.Errorf("the template, whose settings stand where the pod's own are removed, could not be read: %w", err)}
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
	env := m.merged(value.StringMap(m.Env))
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
	for _, setting := range [][2]attr.Value{{state.Image, m.Image}, {state.Disk, m.Disk}, {state.Ports, m.Ports}, {state.Registry, m.Registry}} {
		if !setting[0].IsNull() && setting[1].IsNull() {
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

func (m *pod) networkingChanges(ctx context.Context, state *pod) bool {
	before, err := value.As[globalNetworking](ctx, state.GlobalNetworking)
	after, failed := value.As[globalNetworking](ctx, m.GlobalNetworking)
	enabled := func(n *globalNetworking) bool { return n != nil && n.Enabled.ValueBool() }
	return err != nil || failed != nil || enabled(before) != enabled(after)
}
