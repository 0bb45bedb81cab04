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
	DockerEntrypoint   types.List   `tfsdk:"docker_entrypoint"`
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

	container
	writeOnlyEnv
	Private podPrivate `tfsdk:"-"`
}

func (m *pod) writeOnly() (*writeOnlyEnv, *envDigests) { return &m.writeOnlyEnv, &m.Private.EnvWO }

type podPrivate struct {
	Imported bool     // and not updated since: the state contains the template's settings
	Carried  []string // attributes whose values come from another provider's state: see fixedChanges
	EnvWO    envDigests
	Named    references
	Copy     podCopy
	Access   []string // variables that the deployment set in the pod
	Lost     []string // the Access variables that the last read didn't find
}

type podGPU struct {
	ID, MinCUDAVersion                      types.String
	Count, MinRAMPerGPU, MinVCPUCountPerGPU types.Int64
	AllowedCUDAVersions                     types.Set
	VCPUCount, Memory                       types.Float64
}

type podCPU struct {
	ID                types.String
	VCPUCount, Memory types.Int64
}

type podMounts struct {
	Persistent types.Object
	Network    types.List
}

type globalNetworking struct {
	Enabled         types.Bool
	IP, InternalDNS types.String
}

func (m *pod) command() command {
	return command{&m.Args, &m.Entrypoint, &m.Cmd, &m.DockerEntrypoint}
}

func (m *pod) settings() containerSettings {
	return containerSettings{&m.container, m.command(), &m.Registry}
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
