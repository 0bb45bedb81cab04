package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

func flattenMounts(ctx context.Context, got api.PodMounts) (types.Object, error) {
	if len(got.Network) == 0 {
		got.Network = nil
	}
	shown := &got
	if got.Persistent == nil && got.Network == nil {
		shown = nil
	}
	return value.Object(ctx, podMountsAttribute(""), shown)
}

// recordApplied copies the answer to a create or update into the model. The status keeps its
// planned value although the pod may have ended, and so does a network volume on API v1, which
// returns it only to reads. The next refresh reads both.
func (m *pod) recordApplied(ctx context.Context, c *api.Client, got api.Pod) error {
	desired, mounts, created := m.DesiredState, m.Mounts, m.CreatedAt
	err := m.flatten(ctx, got)
	if desired.ValueString() != api.PodExited || !got.Active() {
		m.DesiredState = desired
	}
	if planned, failed := expandMounts(ctx, mounts); failed == nil && len(planned.Network) > 0 && got.Mounts.Persistent == nil && len(got.Mounts.Network) == 0 {
		m.Mounts = mounts
	}
	if !created.IsUnknown() {
		m.CreatedAt = created
	}
	m.readAccess(got)
	if known := m.FromTemplate; known.IsNull() { // after an import; the next read sets it
		m.Private.Copy = podCopy{}
	} else {
		m.recordCopy(c, got, true)
	}
	return err
}

// flatten copies an answer into the model. The model doesn't change where the version returns
// nothing or an equivalent value.
func (m *pod) flatten(ctx context.Context, got api.Pod) (err error) {
	imported := m.Name.IsNull()
	m.Private.Imported = m.Private.Imported || imported
	m.ID = types.StringValue(got.ID)
	m.Name = types.StringValue(got.Name)
	for _, id := range []*string{got.TemplateID, got.Template} {
		if imported && id != nil && *id != "" {
			m.TemplateID = types.StringValue(*id)
		}
	}
	own := imported || m.TemplateID.IsNull()
	if got.Container != nil {
		container := *got.Container
		container.Env = comparedEnv(m.Env, m.unowned(m.Private.EnvWO, container.Env))
		m.container().flatten(container, own)
	}
	if own || !m.Mounts.IsNull() {
		if m.Mounts, err = flattenMounts(ctx, got.Mounts); err != nil {
			return err
		}
	}
	if err := m.flattenCompute(ctx, got); err != nil {
		return err
	}
	if err := m.flattenNetworking(ctx, got.GlobalNetworking); err != nil {
		return err
	}
	if got.Cloud != "" {
		m.Cloud = types.StringValue(got.Cloud)
	}
	if got.Locked != nil {
		m.Locked = types.BoolValue(*got.Locked)
	} else if m.Locked.IsNull() {
		m.Locked = types.BoolValue(false)
	}
	if !m.DesiredState.IsNull() && got.Status != "" {
		m.DesiredState = types.StringValue(api.PodExited)
		if got.Active() {
			m.DesiredState = types.StringValue(api.PodRunning)
		}
	}
	return m.flattenState(ctx, got.PodState)
}

// comparedEnv returns an answer's environment without the variables that the deployment sets on
// its own, unless the model has them.
func comparedEnv(prior types.Map, got map[string]string) map[string]string {
	env := map[string]string{}
	for name, v := range got {
		if _, own := prior.Elements()[name]; own || !api.IsAccessVariable(name) {
			env[name] = v
		}
	}
	return env
}

func (m *pod) flattenCompute(ctx context.Context, got api.Pod) (err error) {
	gpu, err := value.As[podGPU](ctx, m.GPU)
	if err != nil {
		return err
	}
	if gpu == nil {
		gpu = &podGPU{AllowedCUDAVersions: types.SetNull(types.StringType)}
	}
	switch {
	case got.GPU != nil:
		gpu.ID, gpu.Count = types.StringValue(got.GPU.ID), types.Int64Value(max(got.GPU.Count, 1))
		gpu.VCPUCount, gpu.Memory = positiveNumber(got.GPU.VCPUCount), positiveNumber(got.GPU.Memory)
		m.CPU = types.ObjectNull(objectType(podCPUAttribute))
		m.GPU, err = value.Object(ctx, podGPUAttribute, gpu)
	case got.CPU != nil:
		m.GPU = types.ObjectNull(objectType(podGPUAttribute))
		m.CPU, err = value.Object(ctx, podCPUAttribute, &podCPU{
			types.StringValue(got.CPU.ID), types.Int64Value(got.CPU.VCPUCount), value.KeepInt(types.Int64Null(), got.CPU.Memory),
		})
	}
	return err
}

// positiveNumber returns null for 0.
func positiveNumber(n float64) types.Float64 {
	if n == 0 {
		return types.Float64Null()
	}
	return types.Float64Value(n)
}

// flattenNetworking: an answer has the current state, and a change waits for the next start. So
// false doesn't mean that networking wasn't requested.
func (m *pod) flattenNetworking(ctx context.Context, got *api.GlobalNetworking) error {
	networking, err := value.As[globalNetworking](ctx, m.GlobalNetworking)
	if err != nil {
		return err
	}
	if networking == nil && (got == nil || !got.Enabled) {
		return nil
	}
	if networking == nil {
		networking = &globalNetworking{}
	}
	if got == nil {
		got = &api.GlobalNetworking{}
	}
	if got.Enabled {
		networking.Enabled = types.BoolValue(true)
	}
	networking.IP, networking.InternalDNS = value.KeepString(types.StringNull(), got.IP), value.KeepString(types.StringNull(), got.InternalDNS)
	m.GlobalNetworking, err = value.Object(ctx, podSchema.Attributes["global_networking"], networking)
	return err
}

func (m *pod) flattenState(ctx context.Context, got api.PodState) (err error) {
	none := types.StringNull()
	m.Status = value.KeepString(none, got.Status)
	m.DataCenterID = types.StringPointerValue(got.DataCenterID)
	m.Cost = types.Float64Value(got.Cost)
	if got.CreatedAt != "" || m.CreatedAt.IsUnknown() {
		m.CreatedAt = value.KeepString(none, got.CreatedAt)
	}
	if m.SSH, err = value.Object(ctx, podSchema.Attributes["ssh"], &got.SSH); err != nil {
		return err
	}
	var runtime *podRuntime
	if got.Runtime != nil {
		runtime = &podRuntime{append([]api.PodPort{}, got.Runtime.Ports...)}
	}
	m.Runtime, err = value.Object(ctx, podSchema.Attributes["runtime"], runtime)
	return err
}
