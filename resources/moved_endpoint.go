package resources

import (
	"cmp"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// movedEndpoint takes over the template, which API v2 doesn't return, the endpoint's own
// settings, and the GPU types, which API v2 returns as pools.
var movedEndpoint = migrate.Table[endpoint]{
	migrate.Official1:     moveEndpointV1,
	migrate.Decentralized: moveEndpointV1,
	migrate.Official2:     moveEndpointV2,
}

// moveEndpointV1 is for providers with the attributes of API v1.
func moveEndpointV1(from *migrate.State, m *endpoint) {
	moveTemplateLink(from, m)
	m.Image = text(from.Text("image_name"))
	m.Env = value.KeepMap(m.Env, from.Map("env"))
	m.FlashBoot = types.StringValue("OFF")
	if from.True("flashboot") {
		m.FlashBoot = types.StringValue("FLASHBOOT")
	}
	if flavors := from.Texts("cpu_flavor_ids"); from.Text("compute_type") == "CPU" && len(flavors) > 0 {
		m.moveCPU(from, flavors)
		return
	}
	gpu := endpointGPU{TypeIDs: value.KeepList(types.ListNull(types.StringType), from.Texts("gpu_type_ids"))}
	if one := from.Text("gpu_type_id"); gpu.TypeIDs.IsNull() && one != "" {
		gpu.TypeIDs = value.KeepList(gpu.TypeIDs, []string{one})
	}
	m.moveGPU(from, gpu)
}

// moveCPU: API v1 may omit the flavors, and has one vCPU count for all of them.
func (m *endpoint) moveCPU(from *migrate.State, flavors []string) {
	vcpus, _ := from.Int("vcpu_count")
	cpu := make([]api.CPU, len(flavors))
	for i, id := range flavors {
		cpu[i] = api.CPU{ID: id, VCPUCount: cmp.Or(vcpus, 2)}
	}
	m.CPU = value.Of(cpuAttribute, cpu).(types.List)
}

func moveEndpointV2(from *migrate.State, m *endpoint) {
	moveTemplateLink(from, m)
	if !m.TemplateID.IsNull() {
		moveContainer(from, &m.container)
	}
	m.moveGPU(from, endpointGPU{
		Pools: texts(from.Texts("gpu_pools")), ExcludedTypes: texts(from.Texts("excluded_types")),
	})
}

// moveTemplateLink also sets the name, because a read then treats the container's settings as
// the template's.
func moveTemplateLink(from *migrate.State, m *endpoint) {
	if m.TemplateID = text(from.Text("template_id")); !m.TemplateID.IsNull() {
		m.Name = types.StringValue(from.Text("name"))
	}
}

// moveContainer takes over the settings that an object of the official 2.0 sets in addition to
// its template.
func moveContainer(from *migrate.State, s *container) {
	s.Image, s.Args, s.Registry = text(from.Text("image")), text(from.Text("args")), text(from.Text("registry"))
	if disk, ok := from.Int("disk"); ok {
		s.Disk = types.Int64Value(disk)
	}
	s.Env = value.KeepMap(s.Env, from.Map("env"))
	s.Ports = texts(from.Texts("ports"))
}

// moveGPU takes over a selection of GPUs. With a template, CUDA versions that the state lacks
// are the template's.
func (m *endpoint) moveGPU(from *migrate.State, gpu endpointGPU) {
	gpu.AllowedCUDAVersions = texts(from.Texts("allowed_cuda_versions"))
	if gpu.Pools.IsNull() && gpu.TypeIDs.IsNull() && gpu.AllowedCUDAVersions.IsNull() {
		return
	}
	gpu.Count = types.Int64Value(1)
	m.GPU = value.Object(gpuAttribute, &gpu)
}
