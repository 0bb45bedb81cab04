package resources

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// createOnlyNotReturned ends the description of an attribute that only a create sends and no
// response contains.
const createOnlyNotReturned = " Forces replacement; not returned by the API."

var podSchema = schema.Schema{
	MarkdownDescription: "A pod: one container on a GPU or CPU machine, which runs and costs until it is stopped or deleted.\n\n" +
		"The container comes from a template, from the pod's own settings, or from both: the pod's settings take precedence, and `env` is merged. " +
		"A create copies the template (`from_template`); later changes of the template have no effect. A change of the container replaces it in place: its `disk` is lost, its mounts stay.",
	Attributes: containerAttributes(podMembers, " With `template_id` only these keys are compared. `PUBLIC_KEY` and `JUPYTER_PASSWORD` are compared only if configured.", " A change replaces the container.", attributes{
		"id":                idAttribute("pod"),
		"name":              podMembers.text("name", "Name of the pod, up to {max} characters. It need not be unique."),
		"template_id":       podMembers.text("templateId", "Id of a template for pods (`serverless = false`), whose settings the pod copies unless it sets its own. This or `image` is required.", createOnlyNotReturned),
		"docker_entrypoint": dockerEntrypointAttribute(podMembers),
		"disk":              withoutDefault(podMembers.integer("disk", "Container disk in GB, new at each start. Defaults to the template's, or to 50 without a template."), true),
		"ports":             keptIfOmitted(portsAttribute(podMembers)),
		"gpu":               podGPUAttribute,
		"cpu":               podCPUAttribute,
		"mounts":            keptIfOmitted(podMountsAttribute("pod")),
		"cloud":             defaultOnCreate(podMembers.text("cloud", "{choices}. Forces replacement. Default `{default}`; an existing pod keeps its value.")),
		"data_center_ids":   podMembers.texts("dataCenterIds", "Data centers that the pod may be placed in; default any.", createOnlyNotReturned),
		"global_networking": optionalObject("A private address that pods of other data centers reach. Needs an NVIDIA GPU; takes effect at the next start. Not returned by API v1.", attributes{
			"enabled":      schema.BoolAttribute{Required: true, MarkdownDescription: "Whether the pod has it."},
			"ip":           schema.StringAttribute{Computed: true, MarkdownDescription: "Its address, once it has one. API v2 only."},
			"internal_dns": schema.StringAttribute{Computed: true, MarkdownDescription: "Its DNS name, once it has one. API v2 only."},
		}),
		"locked": schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			Default:             booldefault.StaticBool(false),
			MarkdownDescription: "If true, the pod can't be stopped and its container can't be replaced. A locked pod can be deleted: see `deletion_protection`. Defaults to false.",
		},
		"start_ssh":     withoutDefault(podMembers.boolean("startSsh", "Whether the pod gets the account's SSH keys (`gpucloud_ssh_keys`) as `PUBLIC_KEY`; default: the template's, or false.", createOnlyNotReturned), false),
		"start_jupyter": withoutDefault(podMembers.boolean("startJupyter", "Whether the pod gets a generated `JUPYTER_PASSWORD`; default: the template's, or false.", createOnlyNotReturned), false),
		"desired_state": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "`RUNNING` or `EXITED`: each apply starts or stops the pod. If omitted, only a create starts it.",
			Validators:          []validator.String{oneOf("RUNNING", "EXITED")},
		},
		"deletion_protection": deletionProtectionAttribute("pod"),
		"max_hourly_cost":     maxHourlyCostAttribute(),
		"wait_for":            podWaitAttribute,
		"timeouts":            timeoutsAttribute,

		"interruptible":           withoutDefault(podMembers.boolean("interruptible", "Whether the pod may be interrupted, for a lower price.", createOnlyNotReturned), false),
		"support_public_ip":       withoutDefault(podMembers.boolean("supportPublicIp", "Whether a machine of the community cloud needs a public address.", createOnlyNotReturned), false),
		"country_codes":           podMembers.texts("countryCodes", "Countries that the pod may be placed in, as their codes.", createOnlyNotReturned),
		"gpu_type_priority":       podPriority("gpuTypePriority", "GPU types"),
		"cpu_flavor_priority":     podPriority("cpuFlavorPriority", "CPU flavors"),
		"data_center_priority":    podPriority("dataCenterPriority", "data centers"),
		"min_ram_per_gpu":         withoutDefault(podMembers.integer("minRamPerGpu", "Minimum memory of the machine for each GPU, in GB.", createOnlyNotReturned), false),
		"min_vcpu_per_gpu":        withoutDefault(podMembers.integer("minVcpuPerGpu", "Minimum vCPUs of the machine for each GPU.", createOnlyNotReturned), false),
		"min_disk_bandwidth_mbps": podMembers.number("minDiskBandwidthMBps", "Minimum bandwidth of the machine's disk, in MB per second.", createOnlyNotReturned),
		"min_download_mbps":       podMembers.number("minDownloadMbps", "Minimum download speed of the machine, in Mbit per second.", createOnlyNotReturned),
		"min_upload_mbps":         podMembers.number("minUploadMbps", "Minimum upload speed of the machine, in Mbit per second.", createOnlyNotReturned),

		"status": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "`PROVISIONING`, `STARTING`, `RUNNING`, `EXITED` (ended with status 0, or stopped), `ERROR` (ended with another status) or `TERMINATED`. API v1 returns only `RUNNING` and `EXITED`.",
		},
		"from_template":  podFromTemplate,
		"data_center_id": schema.StringAttribute{Computed: true, MarkdownDescription: "Data center of the pod, once it is placed."},
		"cost":           schema.Float64Attribute{Computed: true, MarkdownDescription: "Price per hour; 0 if the pod has ended."},
		"created_at":     fixedAttribute("When the pod was created, in RFC 3339. API v2 only."),
		"ssh": computedObject("How to reach the SSH server of the pod, while it runs.", attributes{
			"proxy":  sshEndpointAttribute("Through the deployment's proxy; null without one. API v2 only."),
			"direct": sshEndpointAttribute("Where `22/tcp` is published; null if it isn't."),
		}),
		"runtime": computedObject("The running pod; null if the pod does not run.", attributes{
			"ports": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The ports of the pod, and where they are published.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"private": schema.Int64Attribute{Computed: true, MarkdownDescription: "Port in the container."},
					"type":    schema.StringAttribute{Computed: true, MarkdownDescription: "`http` or `tcp`."},
					"public":  schema.Int64Attribute{Computed: true, MarkdownDescription: "Port outside; null if it isn't published."},
					"ip":      schema.StringAttribute{Computed: true, MarkdownDescription: "Address of the port outside."},
				}},
			},
		}),
	}),
}

// podOneVersion lists the attributes that only one API version has, with the values that the
// other version accepts. podFixed checks the attributes that only a create sends.
var podOneVersion = slices.Concat(
	handledByKind(api.V1, []string{"false", "0", "0.000000", "[]"}, "interruptible", "support_public_ip", "country_codes",
		"min_ram_per_gpu", "min_vcpu_per_gpu", "min_disk_bandwidth_mbps", "min_download_mbps", "min_upload_mbps"),
	handledByKind(api.V1, []string{"availability"}, "gpu_type_priority", "cpu_flavor_priority", "data_center_priority"),
	handledByKind(api.V2, nil, "gpu.min_cuda_version", "gpu.min_ram_per_gpu", "gpu.min_vcpu_count_per_gpu"),
	handledByKind(api.V2, []string{"false"}, "start_ssh", "start_jupyter"),
)

var podGPUAttribute = optionalObject("The GPUs of the pod. Either `gpu` or `cpu` is needed.", attributes{
	"id":                     podMembers.text("gpu.id", "GPU type, such as `NVIDIA L4`. Forces replacement."),
	"count":                  defaultOnCreate(podMembers.integer("gpu.count", "Number of GPUs. Forces replacement. Default {default}; an existing pod keeps its value.")),
	"allowed_cuda_versions":  podMembers.texts("gpu.allowedCudaVersions", "CUDA versions, as `major.minor`, of the machine; default: the template's, or any. Not with `min_cuda_version`.", createOnlyNotReturned),
	"min_cuda_version":       podMembers.text("gpu.minCudaVersion", "Minimum CUDA version of the machine, as `major.minor`.", createOnlyNotReturned),
	"min_ram_per_gpu":        podMembers.integer("gpu.minRamPerGpu", "Minimum memory of the machine for each GPU, in GB: a filter, not an allocation.", createOnlyNotReturned),
	"min_vcpu_count_per_gpu": podMembers.integer("gpu.minVcpuCountPerGpu", "Minimum vCPUs of the machine for each GPU: a filter, not an allocation.", createOnlyNotReturned),
	"vcpu_count":             schema.Float64Attribute{Computed: true, MarkdownDescription: "vCPUs of the pod, for all GPUs together. API v2 only."},
	"memory":                 schema.Float64Attribute{Computed: true, MarkdownDescription: "Memory of the pod in GB, for all GPUs together. API v2 only."},
})

var podCPUAttribute = optionalObject("The CPUs of a pod without GPUs. Either `gpu` or `cpu` is needed.", attributes{
	"id":         podMembers.text("cpu.id", "CPU flavor, such as `cpu3c`. Forces replacement."),
	"vcpu_count": podMembers.integer("cpu.vcpuCount", "Number of vCPUs: a power of two from 2 up. Forces replacement."),
	"memory": schema.Int64Attribute{
		Computed:            true,
		MarkdownDescription: "Memory in GB, which follows from the flavor and the vCPUs.",
		PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
	},
})

func sshEndpointAttribute(text string) schema.SingleNestedAttribute {
	return computedObject(text, attributes{
		"host":     schema.StringAttribute{Computed: true, MarkdownDescription: "Host name or address."},
		"port":     schema.Int64Attribute{Computed: true, MarkdownDescription: "Port."},
		"username": schema.StringAttribute{Computed: true, MarkdownDescription: "User name."},
		"command":  schema.StringAttribute{Computed: true, MarkdownDescription: "Command that connects."},
	})
}

// podPriority is a preference that only API v1 accepts.
func podPriority(path, things string) schema.StringAttribute {
	return withoutDefault(podMembers.text(path, "How the "+things+" are tried: `availability`, or `custom` for the given order.", createOnlyNotReturned), false)
}

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
	Carried  []string // attributes that a moved block took from another provider's state: see fixedChanges
	EnvWO    envDigests
	Named    references // ids of other objects that earlier states contained
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
	parts := []string{fmt.Sprintf("What is on its container disk%s is lost", gigabytes(m.Disk.ValueInt64()))}
	mounts := expandMounts(m.Mounts)
	if mount := mounts.Persistent; mount != nil {
		parts = append(parts, fmt.Sprintf("so is its persistent mount%s at %s", gigabytes(mount.Size), mount.Path))
	}
	if len(mounts.Network) > 0 {
		parts = append(parts, "the network volume is not touched by it")
	}
	text := strings.Join(parts, ", ") + "."
	if m.Status.ValueString() == api.PodRunning {
		text = "It is RUNNING: its processes end. " + text
	}
	return text
}

func gigabytes(size int64) string {
	if size == 0 { // not known
		return ""
	}
	return fmt.Sprintf(" (%d GB)", size)
}
