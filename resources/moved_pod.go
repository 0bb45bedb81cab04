package resources

import (
	"cmp"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// movedPod takes over values that a create sent and no answer has. It records the names of
// these attributes: a difference from another provider's state doesn't replace a pod.
var movedPod = migrate.Table[pod]{
	// The states of these two don't show whether the pod or its template set a container setting.
	// So all settings are read, and the first apply records the template's.
	migrate.Official1: func(from *migrate.State, m *pod) {
		m.StartSSH, m.StartJupyter = onlyTrue(from.True("start_ssh")), onlyTrue(from.True("start_jupyter"))
		m.movePlacement(from, from.Text("cloud_type"), from.Text("gpu_type_id"))
	},
	migrate.Decentralized: func(from *migrate.State, m *pod) {
		m.DataCenterIDs = texts(from.Texts("data_center_ids"))
		m.movePlacement(from, from.Text("cloud_type"), first(from.Texts("gpu_type_ids")))
	},
	migrate.Nilenso: func(from *migrate.State, m *pod) {
		m.StartSSH = onlyTrue(from.True("start_ssh"))
		if dataCenter := from.Text("data_center_id"); dataCenter != "" {
			m.DataCenterIDs = texts([]string{dataCenter})
		}
		m.movePlacement(from, from.Text("cloud_type"), from.Text("gpu_type_id"))
	},
	migrate.Official2: func(from *migrate.State, m *pod) {
		m.StartSSH, m.StartJupyter = onlyTrue(from.True("start_ssh")), onlyTrue(from.True("start_jupyter"))
		m.DataCenterIDs = texts(from.Texts("data_center_ids"))
		m.DesiredState = text(from.Text("desired_state"))
		if from.Text("template_id") != "" {
			m.Name = types.StringValue(from.Text("name")) // then a read omits the template's settings
			moveContainer(from, &m.container)
			m.moveMounts(from)
		}
		m.movePlacement(from, from.Text("cloud"), from.Text("gpu_type_id"))
	},
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// movePlacement takes over the values that all sources have.
func (m *pod) movePlacement(from *migrate.State, cloud, gpuType string) {
	m.TemplateID = text(from.Text("template_id"))
	if cloud == "SECURE" || cloud == "COMMUNITY" {
		m.Cloud = types.StringValue(cloud)
	}
	cuda, floor := texts(from.Texts("allowed_cuda_versions")), text(from.Text("min_cuda_version"))
	if gpuType != "" {
		count, _ := from.Int("gpu_count")
		m.GPU = value.Object(podGPUAttribute, &podGPU{ID: types.StringValue(gpuType), Count: types.Int64Value(cmp.Or(count, 1)), AllowedCUDAVersions: cuda, MinCUDAVersion: floor})
	}
	if from.True("global_networking") {
		m.GlobalNetworking = value.Object(podSchema.Attributes["global_networking"], &api.GlobalNetworking{Enabled: true})
	}
	m.Private.Carried = nonNullNames(map[string]attr.Value{
		"template_id": m.TemplateID, "data_center_ids": m.DataCenterIDs, "start_ssh": m.StartSSH, "start_jupyter": m.StartJupyter,
		"gpu.allowed_cuda_versions": cuda, "gpu.min_cuda_version": floor,
	})
}

func (m *pod) moveMounts(from *migrate.State) {
	var mounts api.PodMounts
	if persistent := from.Object("persistent_volume"); persistent != nil {
		size, _ := persistent.Int("size")
		mounts.Persistent = &api.PersistentMount{Size: size, Path: persistent.Text("path")}
	}
	for _, mount := range from.Objects("network_volumes") {
		mounts.Network = append(mounts.Network, api.NetworkMount{VolumeID: mount.Text("volume_id"), Path: mount.Text("path")})
	}
	m.Mounts = flattenMounts(mounts)
}

// movedCluster takes over values that neither the cluster nor its pods return.
var movedCluster = migrate.Table[cluster]{
	migrate.Official2: func(from *migrate.State, m *cluster) {
		m.DataCenterIDs = texts(from.Texts("data_center_ids"))
		m.StartSSH, m.StartJupyter = onlyTrue(from.True("start_ssh")), onlyTrue(from.True("start_jupyter"))
		m.Private.Carried = nonNullNames(map[string]attr.Value{"data_center_ids": m.DataCenterIDs, "start_ssh": m.StartSSH, "start_jupyter": m.StartJupyter})
	},
}
