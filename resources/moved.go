package resources

import (
	"cmp"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// A moved block takes over an object from another provider. For each source, the tables
// below list the values that are read from the other provider's state: only values that no
// response of the API has. The next read fetches the rest, as after an import, so that errors
// in the other state don't matter. Settings that only API v1 has are ignored: a configuration
// for API v2 couldn't express them.
//
// Templates and network volumes have no table: the API returns all their values.

// textOrNull returns null for "".
func textOrNull(s string) types.String { return value.KeepString(types.StringNull(), s) }

// setOrNull returns null for an empty list.
func setOrNull(list []string) types.Set { return value.KeepSet(types.SetNull(types.StringType), list) }

// nullIfFalse returns null for false, which most states have for an omitted setting.
func nullIfFalse(b types.Bool) types.Bool {
	if !b.ValueBool() {
		return types.BoolNull()
	}
	return b
}

func namesWithValue(attributes map[string]attr.Value) (names []string) {
	for name, v := range attributes {
		if !noValue(v) {
			names = append(names, name)
		}
	}
	return sorted(names)
}

// movedRegistryAuth takes over the user name, and records password_wo_version = 1: the API keeps the password,
// so a configuration with this version plans no change of it.
var movedRegistryAuth = migrate.Table[registryAuth]{
	migrate.Official1: moveRegistryAuth,
	migrate.Official2: moveRegistryAuth,
}

func moveRegistryAuth(state *migrate.State, m *registryAuth) {
	if m.Username = textOrNull(state.Text("username")); !m.Username.IsNull() {
		m.PasswordWOVersion = types.Int64Value(1)
	}
}

// movedRegistryDelegation takes over the spelling of the repository, with or without the
// default tag.
var movedRegistryDelegation = migrate.Table[registryDelegation]{
	migrate.Official1: moveRegistryDelegation,
	migrate.Official2: moveRegistryDelegation,
}

func moveRegistryDelegation(state *migrate.State, m *registryDelegation) {
	m.Resource = textOrNull(state.Text("resource"))
}

// movedEndpoint takes over the template, which API v2 doesn't return, the endpoint's own
// settings, and the GPU types, which API v2 returns as pools.
var movedEndpoint = migrate.Table[endpoint]{
	migrate.Official1:     moveEndpointV1,
	migrate.Decentralized: moveEndpointV1,
	migrate.Official2:     moveEndpointV2,
}

// moveEndpointV1 is for providers with the attributes of API v1.
func moveEndpointV1(state *migrate.State, m *endpoint) {
	moveTemplateLink(state, m)
	m.Image = textOrNull(state.Text("image_name"))
	m.Env = value.KeepMap(m.Env, state.Map("env"))
	m.FlashBoot = types.StringValue("OFF")
	if state.Bool("flashboot").ValueBool() {
		m.FlashBoot = types.StringValue("FLASHBOOT")
	}
	if flavors := state.Texts("cpu_flavor_ids"); state.Text("compute_type") == "CPU" && len(flavors) > 0 {
		m.moveCPU(state, flavors)
		return
	}
	gpu := endpointGPU{TypeIDs: value.KeepList(types.ListNull(types.StringType), state.Texts("gpu_type_ids"))}
	if typeID := state.Text("gpu_type_id"); gpu.TypeIDs.IsNull() && typeID != "" {
		gpu.TypeIDs = value.KeepList(gpu.TypeIDs, []string{typeID})
	}
	m.moveGPU(state, gpu)
}

// moveCPU takes over the flavors, which API v1 may omit, and their common vCPU count.
func (m *endpoint) moveCPU(state *migrate.State, flavors []string) {
	vcpus, _ := state.Int("vcpu_count")
	cpu := make([]api.CPU, len(flavors))
	for i, id := range flavors {
		cpu[i] = api.CPU{ID: id, VCPUCount: cmp.Or(vcpus, 2)}
	}
	m.CPU = value.Of(cpuAttribute, cpu).(types.List)
}

func moveEndpointV2(state *migrate.State, m *endpoint) {
	moveTemplateLink(state, m)
	if !m.TemplateID.IsNull() {
		moveContainer(state, &m.container)
	}
	m.moveGPU(state, endpointGPU{
		Pools: setOrNull(state.Texts("gpu_pools")), ExcludedTypes: setOrNull(state.Texts("excluded_types")),
	})
}

// moveTemplateLink takes over the template. It also sets the name: a read takes a state without a
// name for an import, and would record the container's settings as the endpoint's own.
func moveTemplateLink(state *migrate.State, m *endpoint) {
	if m.TemplateID = textOrNull(state.Text("template_id")); !m.TemplateID.IsNull() {
		m.Name = types.StringValue(state.Text("name"))
	}
}

// moveContainer takes over the settings that an object of the official 2.0 sets in addition to
// its template.
func moveContainer(state *migrate.State, s *container) {
	s.Image, s.Args, s.Registry = textOrNull(state.Text("image")), textOrNull(state.Text("args")), textOrNull(state.Text("registry"))
	if disk, ok := state.Int("disk"); ok {
		s.Disk = types.Int64Value(disk)
	}
	s.Env = value.KeepMap(s.Env, state.Map("env"))
	s.Ports = setOrNull(state.Texts("ports"))
}

// moveGPU takes over a selection of GPUs. With a template, CUDA versions that the state lacks
// are the template's.
func (m *endpoint) moveGPU(state *migrate.State, gpu endpointGPU) {
	gpu.AllowedCUDAVersions = setOrNull(state.Texts("allowed_cuda_versions"))
	if gpu.Pools.IsNull() && gpu.TypeIDs.IsNull() && gpu.AllowedCUDAVersions.IsNull() {
		return
	}
	gpu.Count = types.Int64Value(1)
	m.GPU = value.Object(gpuAttribute, &gpu)
}

// movedPod takes over values that a create sent and no response has. It records the names of
// these attributes: a difference from another provider's state doesn't replace a pod.
var movedPod = migrate.Table[pod]{
	// Except for Official2, the states don't show whether the pod or its template set a container setting.
	// So the name stays null: the next read takes all settings, as after an import, and the first apply records the template's.
	migrate.Official1: func(state *migrate.State, m *pod) {
		m.StartSSH, m.StartJupyter = nullIfFalse(state.Bool("start_ssh")), nullIfFalse(state.Bool("start_jupyter"))
		m.moveCommon(state, state.Text("cloud_type"), state.Text("gpu_type_id"))
	},
	migrate.Decentralized: func(state *migrate.State, m *pod) {
		m.DataCenterIDs = setOrNull(state.Texts("data_center_ids"))
		m.moveCommon(state, state.Text("cloud_type"), append(state.Texts("gpu_type_ids"), "")[0]) // the first type or ""
	},
	migrate.Nilenso: func(state *migrate.State, m *pod) {
		m.StartSSH = nullIfFalse(state.Bool("start_ssh"))
		if dataCenter := state.Text("data_center_id"); dataCenter != "" {
			m.DataCenterIDs = setOrNull([]string{dataCenter})
		}
		m.moveCommon(state, state.Text("cloud_type"), state.Text("gpu_type_id"))
	},
	migrate.Official2: func(state *migrate.State, m *pod) {
		m.StartSSH, m.StartJupyter = state.Bool("start_ssh"), state.Bool("start_jupyter")
		m.DataCenterIDs = setOrNull(state.Texts("data_center_ids"))
		m.DesiredState = textOrNull(state.Text("desired_state"))
		m.Env = value.KeepMap(m.Env, state.Map("env")) // a read hides PUBLIC_KEY unless env has it
		if state.Text("template_id") != "" {
			m.Name = types.StringValue(state.Text("name")) // then a read omits the template's settings
			moveContainer(state, &m.container)
			m.moveMounts(state)
		}
		m.moveCommon(state, state.Text("cloud"), state.Text("gpu_type_id"))
	},
}

// moveCommon takes over the values that all sources have.
func (m *pod) moveCommon(state *migrate.State, cloud, gpuType string) {
	m.TemplateID = textOrNull(state.Text("template_id"))
	if cloud == "SECURE" || cloud == "COMMUNITY" {
		m.Cloud = types.StringValue(cloud)
	}
	cuda, minCUDA := setOrNull(state.Texts("allowed_cuda_versions")), textOrNull(state.Text("min_cuda_version"))
	if gpuType != "" {
		count, _ := state.Int("gpu_count")
		m.GPU = value.Object(podGPUAttribute, &podGPU{ID: types.StringValue(gpuType), Count: types.Int64Value(cmp.Or(count, 1)), AllowedCUDAVersions: cuda, MinCUDAVersion: minCUDA})
	}
	if state.Bool("global_networking").ValueBool() {
		m.GlobalNetworking = value.Object(podSchema.Attributes["global_networking"], &api.GlobalNetworking{Enabled: true})
	}
	m.Private.Carried = namesWithValue(map[string]attr.Value{
		"template_id": m.TemplateID, "data_center_ids": m.DataCenterIDs, "start_ssh": m.StartSSH, "start_jupyter": m.StartJupyter,
		"gpu.allowed_cuda_versions": cuda, "gpu.min_cuda_version": minCUDA,
	})
}

func (m *pod) moveMounts(state *migrate.State) {
	var mounts api.PodMounts
	if persistent := state.Object("persistent_volume"); persistent != nil {
		size, _ := persistent.Int("size")
		mounts.Persistent = &api.PersistentMount{Size: size, Path: persistent.Text("path")}
	}
	for _, mount := range state.Objects("network_volumes") {
		mounts.Network = append(mounts.Network, api.NetworkMount{VolumeID: mount.Text("volume_id"), Path: mount.Text("path")})
	}
	m.Mounts = flattenMounts(mounts)
}

// movedCluster takes over values that neither the cluster nor its pods return.
var movedCluster = migrate.Table[cluster]{
	migrate.Official2: func(state *migrate.State, m *cluster) {
		m.DataCenterIDs = setOrNull(state.Texts("data_center_ids"))
		m.StartSSH, m.StartJupyter = state.Bool("start_ssh"), state.Bool("start_jupyter")
		m.Private.Carried = namesWithValue(map[string]attr.Value{"data_center_ids": m.DataCenterIDs, "start_ssh": m.StartSSH, "start_jupyter": m.StartJupyter})
	},
}
