package resources

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

type pod struct {
	ID                 types.String `tfsdk:"id"`
	Name               types.String `tfsdk:"name"`
	TemplateID         types.String `tfsdk:"template_id"`
	Image              types.String `tfsdk:"image"`
	Args               types.String `tfsdk:"args"`
	Entrypoint         types.List   `tfsdk:"entrypoint"`
	Cmd                types.List   `tfsdk:"cmd"`
	DockerEntrypoint   types.List   `tfsdk:"docker_entrypoint"`
	Disk               types.Int64  `tfsdk:"disk"`
	Env                types.Map    `tfsdk:"env"`
	Ports              types.Set    `tfsdk:"ports"`
	Registry           types.String `tfsdk:"registry"`
	GPU                types.Object `tfsdk:"gpu"`
	CPU                types.Object `tfsdk:"cpu"`
	Mounts             types.Object `tfsdk:"mounts"`
	Cloud              types.String `tfsdk:"cloud"`
	DataCenterIDs      types.Set    `tfsdk:"data_center_ids"`
	GlobalNetworking   types.Object `tfsdk:"global_networking"`
	Locked             types.Bool   `tfsdk:"locked"`
	StartSSH           types.Bool   `tfsdk:"start_ssh"`
	StartJupyter       types.Bool   `tfsdk:"start_jupyter"`
	DesiredState       types.String `tfsdk:"desired_state"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	MaxHourlyCost      types.Number `tfsdk:"max_hourly_cost"`
	WaitFor            types.Object `tfsdk:"wait_for"`
	Timeouts           types.Object `tfsdk:"timeouts"`

	Interruptible        types.Bool    `tfsdk:"interruptible"`
	SupportPublicIP      types.Bool    `tfsdk:"support_public_ip"`
	CountryCodes         types.Set     `tfsdk:"country_codes"`
	GPUTypePriority      types.String  `tfsdk:"gpu_type_priority"`
	CPUFlavorPriority    types.String  `tfsdk:"cpu_flavor_priority"`
	DataCenterPriority   types.String  `tfsdk:"data_center_priority"`
	MinRAMPerGPU         types.Int64   `tfsdk:"min_ram_per_gpu"`
	MinVCPUPerGPU        types.Int64   `tfsdk:"min_vcpu_per_gpu"`
	MinDiskBandwidthMBps types.Float64 `tfsdk:"min_disk_bandwidth_mbps"`
	MinDownloadMbps      types.Float64 `tfsdk:"min_download_mbps"`
	MinUploadMbps        types.Float64 `tfsdk:"min_upload_mbps"`

	Status       types.String  `tfsdk:"status"`
	DataCenterID types.String  `tfsdk:"data_center_id"`
	Cost         types.Float64 `tfsdk:"cost"`
	CreatedAt    types.String  `tfsdk:"created_at"`
	SSH          types.Object  `tfsdk:"ssh"`
	Runtime      types.Object  `tfsdk:"runtime"`
	FromTemplate types.Object  `tfsdk:"from_template"`

	writeOnlyEnv
	Private podPrivate `tfsdk:"-"`
}

func (m *pod) writeOnly() (*writeOnlyEnv, *envDigests) { return &m.writeOnlyEnv, &m.Private.EnvWO }

type podPrivate struct {
	Imported bool     // and not updated since: the state contains the template's settings
	Carried  []string // see fixedChanges
	EnvWO    envDigests
	Named    references
	Copy     podCopy
	Access   []string // variables that the deployment set in the pod
	Lost     []string // those of them that the last read didn't find
}

type podGPU struct {
	ID                  types.String  `tfsdk:"id"`
	Count               types.Int64   `tfsdk:"count"`
	AllowedCUDAVersions types.Set     `tfsdk:"allowed_cuda_versions"`
	MinCUDAVersion      types.String  `tfsdk:"min_cuda_version"`
	MinRAMPerGPU        types.Int64   `tfsdk:"min_ram_per_gpu"`
	MinVCPUCountPerGPU  types.Int64   `tfsdk:"min_vcpu_count_per_gpu"`
	VCPUCount           types.Float64 `tfsdk:"vcpu_count"`
	Memory              types.Float64 `tfsdk:"memory"`
}

type podCPU struct {
	ID        types.String `tfsdk:"id"`
	VCPUCount types.Int64  `tfsdk:"vcpu_count"`
	Memory    types.Int64  `tfsdk:"memory"`
}

type podMounts struct {
	Persistent types.Object `tfsdk:"persistent"`
	Network    types.List   `tfsdk:"network"`
}

type globalNetworking struct {
	Enabled     types.Bool   `tfsdk:"enabled"`
	IP          types.String `tfsdk:"ip"`
	InternalDNS types.String `tfsdk:"internal_dns"`
}

func (m *pod) command() command {
	return command{&m.Args, &m.Entrypoint, &m.Cmd, &m.DockerEntrypoint}
}

func (m *pod) container() containerFields {
	return containerFields{&m.Image, m.command(), &m.Disk, &m.Env, &m.Ports, &m.Registry}
}

// loss describes the data that a deletion destroys.
func (m *pod) loss() string {
	parts := []string{fmt.Sprintf("What is on its container disk%s is lost", gigabytes(m.Disk))}
	if mounts := m.Mounts.Attributes(); mounts != nil {
		if persistent, ok := mounts["persistent"].(types.Object); ok && !persistent.IsNull() {
			size, _ := persistent.Attributes()["size"].(types.Int64)
			parts = append(parts, fmt.Sprintf("so is its persistent mount%s at %s", gigabytes(size), strings.Trim(persistent.Attributes()["path"].String(), `"`)))
		}
		if network, ok := mounts["network"].(types.List); ok && !network.IsNull() {
			parts = append(parts, "the network volume is not touched by it")
		}
	}
	text := strings.Join(parts, ", ") + "."
	if m.Status.ValueString() == api.PodRunning {
		text = "It is RUNNING: its processes end. " + text
	}
	return text
}

func gigabytes(size types.Int64) string {
	if !isSet(size) {
		return ""
	}
	return fmt.Sprintf(" (%d GB)", size.ValueInt64())
}
