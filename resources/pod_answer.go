package resources

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// recordApplied copies the answer to a create or update into the model. The status keeps its
// planned value, although the pod may have ended. So does a network volume on API v1, where only a
// read returns it. The next refresh reads both.
func (m *pod) recordApplied(c *api.Client, got api.Pod) {
	desired, mounts, created := m.DesiredState, m.Mounts, m.CreatedAt
	m.flatten(got)
	if desired.ValueString() != api.PodExited || !got.Active() {
		m.DesiredState = desired
	}
	if len(expandMounts(mounts).Network) > 0 && got.Mounts.Persistent == nil && len(got.Mounts.Network) == 0 {
		m.Mounts = mounts
	}
	if !created.IsUnknown() {
		m.CreatedAt = created
	}
	m.readAccess(got)
	if m.FromTemplate.IsNull() { // after an import; the next read sets it
		m.Private.Copy = podCopy{}
	} else {
		m.recordCopy(c, got, true)
	}
}

// flatten copies an answer into the model. The model doesn't change where the version returns
// nothing or an equivalent value.
func (m *pod) flatten(got api.Pod) {
	imported := m.Name.IsNull()
	m.Private.Imported = m.Private.Imported || imported
	value.Flatten(got, m, "TemplateID", "GPU", "CPU", "Mounts", "Cloud", "DataCenterIDs", "GlobalNetworking")
	for _, id := range []*string{got.TemplateID, got.Template} {
		if imported && deref(id) != "" {
			m.TemplateID = types.StringValue(*id)
		}
	}
	own := imported || m.TemplateID.IsNull()
	if got.Container != nil {
		container := *got.Container
		container.Env = comparedEnv(m.Env, m.withoutWriteOnly(m.Private.EnvWO, container.Env))
		m.settings().flatten(container, own)
	}
	if own || !m.Mounts.IsNull() {
		m.Mounts = flattenMounts(got.Mounts)
	}
	m.flattenCompute(got)
	m.flattenNetworking(got.GlobalNetworking)
	if got.Cloud != "" {
		m.Cloud = types.StringValue(got.Cloud)
	}
	if m.Locked.IsNull() {
		m.Locked = types.BoolValue(false)
	}
	if !m.DesiredState.IsNull() && got.Status != "" {
		m.DesiredState = types.StringValue(api.PodExited)
		if got.Active() {
			m.DesiredState = types.StringValue(api.PodRunning)
		}
	}
	m.flattenState(got.PodState)
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

func (m *pod) flattenCompute(got api.Pod) {
	gpu := value.As[podGPU](m.GPU)
	if gpu == nil {
		gpu = &podGPU{}
	}
	switch {
	case got.GPU != nil:
		gpu.ID, gpu.Count = types.StringValue(got.GPU.ID), types.Int64Value(max(got.GPU.Count, 1))
		gpu.VCPUCount, gpu.Memory = positiveNumber(got.GPU.VCPUCount), positiveNumber(got.GPU.Memory)
		m.GPU, m.CPU = value.Object(podGPUAttribute, gpu), value.Object[podCPU](podCPUAttribute, nil)
	case got.CPU != nil:
		cpu := &podCPU{types.StringValue(got.CPU.ID), types.Int64Value(got.CPU.VCPUCount), value.KeepInt(types.Int64Null(), got.CPU.Memory)}
		m.GPU, m.CPU = value.Object[podGPU](podGPUAttribute, nil), value.Object(podCPUAttribute, cpu)
	}
}

// positiveNumber returns null for 0.
func positiveNumber(n float64) types.Float64 {
	if n == 0 {
		return types.Float64Null()
	}
	return types.Float64Value(n)
}

// flattenNetworking copies an answer, which has the current state. A change applies at the next
// start, so false doesn't mean that networking wasn't requested.
func (m *pod) flattenNetworking(got *api.GlobalNetworking) {
	networking := value.As[globalNetworking](m.GlobalNetworking)
	if got == nil {
		got = &api.GlobalNetworking{}
	}
	switch {
	case networking == nil && !got.Enabled:
		return
	case networking == nil || got.Enabled:
		networking = &globalNetworking{Enabled: types.BoolValue(true)}
	}
	networking.IP, networking.InternalDNS = text(got.IP), text(got.InternalDNS)
	m.GlobalNetworking = value.Object(podSchema.Attributes["global_networking"], networking)
}

func (m *pod) flattenState(got api.PodState) {
	if got.Runtime != nil {
		runtime := *got.Runtime
		runtime.Ports = append([]api.PodPort{}, runtime.Ports...)
		got.Runtime = &runtime
	}
	created := m.CreatedAt
	value.Flatten(got, m)
	m.DataCenterID = types.StringPointerValue(got.DataCenterID)
	if got.CreatedAt == "" && !created.IsUnknown() {
		m.CreatedAt = created
	}
}
