package resources

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// createOnlyNotReturned ends the description of an attribute that only a create sends and no
// response contains.
const createOnlyNotReturned = " Forces replacement; not returned by the API."

var podSchema = schema.Schema{
	MarkdownDescription: "A pod: one container on a GPU or CPU machine, which runs and costs money until it is stopped or deleted.\n\n" +
		"The container comes from a template, from the pod's own settings, or from both: the pod's settings take precedence, and `env` is merged. " +
		"A create copies the template (`from_template`); later changes of the template have no effect. A change of the container replaces it in place: its `disk` is lost, its mounts stay.",
	Attributes: containerAttributes(podMembers, " With `template_id`, only these keys are checked for drift; `PUBLIC_KEY` and `JUPYTER_PASSWORD` are checked only if `env` has them.", " A change replaces the container.", attributes{
		"id":                idAttribute("pod"),
		"name":              podMembers.text("name", "Name of the pod, up to {max} characters. It need not be unique."),
		"template_id":       podMembers.text("templateId", "Id of a template for pods (`serverless = false`), whose settings the pod copies unless it sets its own. This or `image` is required.", " Forces replacement; returned only for pods of API v1."),
		"docker_entrypoint": dockerEntrypointAttribute(podMembers),
		"disk":              withoutDefault(podMembers.integer("disk", "Container disk in GB, new at each start. Defaults to the template's, or to 50 without a template."), true),
		"ports":             keptIfOmitted(portsAttribute(podMembers)),
		"gpu":               podGPUAttribute,
		"cpu":               podCPUAttribute,
		"mounts":            keptIfOmitted(podMountsAttribute("pod. Not for CPU pods.", " A change from one to the other forces replacement.")),
		"cloud":             withoutDefault(podMembers.text("cloud", "{choices}. Forces replacement. Default `{default}`; an existing pod keeps its value."), true),
		"data_center_ids":   podMembers.texts("dataCenterIds", "Data centers that the pod may be placed in; default any.", createOnlyNotReturned),
		"global_networking": optionalObject("A private address that pods of other data centers reach. Needs an NVIDIA GPU; takes effect at the next start. Not returned by API v1.", attributes{
			"enabled":      schema.BoolAttribute{Required: true, MarkdownDescription: "Whether the pod has a private address."},
			"ip":           schema.StringAttribute{Computed: true, MarkdownDescription: "Private address of the pod, once it has one. API v2 only."},
			"internal_dns": schema.StringAttribute{Computed: true, MarkdownDescription: "Private DNS name of the pod, once it has one. API v2 only."},
		}),
		"locked":              schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false), MarkdownDescription: "If true, the pod can't be stopped and its container can't be replaced. A locked pod can be deleted: see `deletion_protection`. Defaults to false."},
		"start_ssh":           withoutDefault(podMembers.boolean("startSsh", "Whether the pod gets the account's SSH keys (`gpucloud_ssh_keys`) as `PUBLIC_KEY`; default: the template's, or false.", createOnlyNotReturned), false),
		"start_jupyter":       withoutDefault(podMembers.boolean("startJupyter", "Whether the pod gets a generated `JUPYTER_PASSWORD`; default: the template's, or false.", createOnlyNotReturned), false),
		"desired_state":       schema.StringAttribute{Optional: true, Validators: []validator.String{rule.OneOf("RUNNING", "EXITED")}, MarkdownDescription: "`RUNNING` or `EXITED`: each apply starts or stops the pod. If omitted, only a create starts it."},
		"deletion_protection": deletionProtectionAttribute("pod"),
		"max_hourly_cost":     maxHourlyCostAttribute(),
		"wait_for":            podWaitAttribute,
		"timeouts":            timeoutsAttribute,

		"interruptible":           withoutDefault(podMembers.boolean("interruptible", "Whether the pod may be interrupted, for a lower price.", " Forces replacement; an import doesn't read it."), false),
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

		"status":         schema.StringAttribute{Computed: true, Validators: []validator.String{rule.OneOf("PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED")}, MarkdownDescription: "`PROVISIONING`, `STARTING`, `RUNNING`, `EXITED` (ended with status 0, or stopped), `ERROR` (ended with another status) or `TERMINATED`. API v1 returns only `RUNNING` and `EXITED`."},
		"from_template":  podFromTemplate,
		"data_center_id": schema.StringAttribute{Computed: true, MarkdownDescription: "Data center of the pod, once it is placed."},
		"cost":           schema.Float64Attribute{Computed: true, MarkdownDescription: "Price per hour; 0 if the pod has ended."},
		"created_at":     stableText("When the pod was created, as RFC 3339. API v2 only."),
		"ssh": computedObject("How to reach the SSH server of the pod, while it runs.", attributes{
			"proxy":  sshEndpointAttribute("Address at the deployment's proxy; null without one. API v2 only."),
			"direct": sshEndpointAttribute("Address at which `22/tcp` is published; null if it isn't."),
		}),
		"runtime": computedObject("The running pod; null if the pod does not run.", attributes{
			"ports": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The ports of the pod, and where they are published.", NestedObject: schema.NestedAttributeObject{Attributes: attributes{
				"private": schema.Int64Attribute{Computed: true, MarkdownDescription: "Port in the container."},
				"type":    schema.StringAttribute{Computed: true, MarkdownDescription: "`http` or `tcp`."},
				"public":  schema.Int64Attribute{Computed: true, MarkdownDescription: "Published number of the port; null if it isn't published."},
				"ip":      schema.StringAttribute{Computed: true, MarkdownDescription: "Published address of the port."},
			}}},
		}),
	}),
}

// podOneVersion lists the attributes that only one API version has, with the values that the
// other version accepts. podFixed has the rules for their changes.
var podOneVersion = slices.Concat(
	handledByKind(api.V1, []string{"false", "0", "0.000000", "[]", "availability"}, placement...),
	handledByKind(api.V2, nil, "gpu.min_cuda_version", "gpu.min_ram_per_gpu", "gpu.min_vcpu_count_per_gpu"),
	handledByKind(api.V2, []string{"false"}, "start_ssh", "start_jupyter"),
)

var podGPUAttribute = optionalObject("The GPUs of the pod. Either `gpu` or `cpu` is needed.", attributes{
	"id":                     podMembers.text("gpu.id", "GPU type, such as `NVIDIA L4`. Forces replacement."),
	"count":                  withoutDefault(podMembers.integer("gpu.count", "Number of GPUs. Forces replacement. Default {default}; an existing pod keeps its value."), true),
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
	"memory":     schema.Int64Attribute{Computed: true, PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}, MarkdownDescription: "Memory in GB, which follows from the flavor and the vCPUs."},
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
	ID, Name, Cloud, DesiredState                         types.String
	GPU, CPU, Mounts, GlobalNetworking, WaitFor, Timeouts types.Object
	DataCenterIDs                                         types.Set
	Locked, StartSSH, StartJupyter, DeletionProtection    types.Bool
	MaxHourlyCost                                         types.Number
	container

	// Only API v1 has these.
	Interruptible, SupportPublicIP                         types.Bool
	CountryCodes                                           types.Set
	GPUTypePriority, CPUFlavorPriority, DataCenterPriority types.String
	MinRAMPerGPU, MinVCPUPerGPU                            types.Int64
	MinDiskBandwidthMBps, MinDownloadMbps, MinUploadMbps   types.Float64

	Status, DataCenterID, CreatedAt types.String
	Cost                            types.Float64
	SSH, Runtime, FromTemplate      types.Object

	Private podPrivate
}

func (m *pod) containerParts() (*container, *envDigests) { return &m.container, &m.Private.EnvWO }

type podPrivate struct {
	Imported      bool     // the pod was imported and not updated since: the state contains the settings of its template, too
	Carried       []string // attributes that a moved block took from another provider's state: see fixedChanges
	EnvWO         envDigests
	References    uniqueTexts `json:"Named"` // ids of other objects that the state contains or once contained
	Copy          podCopy
	Access        uniqueTexts       // names of variables that the deployment set in the pod
	AccessDigests map[string]string // digests of the Access variables
	Lost          []string          // the Access variables that the last read didn't find
	Mounts        api.PodMounts     // mounts in the last response: the state has none if they are the template's
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

func (m *pod) expand() (want api.Pod) {
	value.Expand(m, &want)
	value.Expand(m, &want.Placement)
	want.Container = m.container.expand()
	return want
}

// flatten copies a response into the model. An attribute keeps its value if the version returns
// nothing or an equivalent value for it.
func (m *pod) flatten(got api.Pod) {
	imported := m.Name.IsNull()
	m.Private.Imported = m.Private.Imported || imported
	if id := cmp.Or(deref(got.TemplateID), deref(got.Template)); imported && id != "" {
		m.TemplateID = types.StringValue(id)
	}
	everything := imported || m.TemplateID.IsNull()
	container := *got.Container
	container.Env = withoutAccessVariables(m.Env, m.withoutWriteOnly(m.Private.EnvWO, container.Env))
	m.container.flatten(container, everything)
	m.Private.Mounts = got.Mounts
	if everything || !m.Mounts.IsNull() {
		m.Mounts = flattenMounts(got.Mounts)
	}
	m.flattenCompute(got)
	// A response has the current state of global networking. A change applies at the next start, so
	// the response may be false after a request for true.
	if network := deref(got.GlobalNetworking); network.Enabled || !m.GlobalNetworking.IsNull() {
		network.Enabled = network.Enabled || deref(value.As[api.GlobalNetworking](m.GlobalNetworking)).Enabled
		m.GlobalNetworking = value.Object(podSchema.Attributes["global_networking"], &network)
	}
	if !m.DesiredState.IsNull() && got.Status != "" {
		m.DesiredState = types.StringValue(api.PodExited)
		if got.Active() {
			m.DesiredState = types.StringValue(api.PodRunning)
		}
	}
	if got.Runtime != nil && got.Runtime.Ports == nil {
		got.Runtime.Ports = []api.PodPort{}
	}
	got.Cloud, got.CreatedAt = cmp.Or(got.Cloud, m.Cloud.ValueString()), cmp.Or(m.CreatedAt.ValueString(), got.CreatedAt)
	got.Locked, got.DataCenterID = cmp.Or(got.Locked, new(m.Locked.ValueBool())), new(deref(got.DataCenterID))
	value.Flatten(got, m, "TemplateID", "GPU", "CPU", "Mounts", "DataCenterIDs", "GlobalNetworking")
	value.Flatten(got.PodState, m)
}

func (m *pod) flattenCompute(got api.Pod) {
	switch {
	case got.GPU != nil:
		gpu := deref(value.As[podGPU](m.GPU)) // keeps the requirements, which no response has
		value.Flatten(*got.GPU, &gpu)
		gpu.Count = types.Int64Value(max(got.GPU.Count, 1))
		m.GPU, m.CPU = value.Object(podGPUAttribute, &gpu), value.Object[podCPU](podCPUAttribute, nil)
	case got.CPU != nil:
		cpu := &podCPU{types.StringValue(got.CPU.ID), types.Int64Value(got.CPU.VCPUCount), value.KeepInt(types.Int64Null(), got.CPU.Memory)}
		m.GPU, m.CPU = value.Object[podGPU](podGPUAttribute, nil), value.Object(podCPUAttribute, cpu)
	}
}

// withoutAccessVariables removes from got the variables that the deployment sets on its own, unless the
// configured environment has them, and returns got.
func withoutAccessVariables(configured types.Map, got map[string]string) map[string]string {
	maps.DeleteFunc(got, func(name, _ string) bool {
		_, isConfigured := configured.Elements()[name]
		return !isConfigured && api.IsAccessVariable(name)
	})
	return got
}

// recordApplied copies the response to a create or update into the model. desired_state keeps its
// planned value, unless that is EXITED and the pod is active. A network volume on API v1 keeps its
// planned value, because only a read returns it. The next refresh reads both.
func (m *pod) recordApplied(c *api.Client, got api.Pod) {
	m.Private.EnvWO.recordResponse(c, &m.writeOnlyEnv, got.Container.Env)
	desired, mounts := m.DesiredState, m.Mounts
	m.flatten(got)
	if desired.ValueString() != api.PodExited || !got.Active() {
		m.DesiredState = desired
	}
	if len(volumeIDs(mounts)) > 0 && got.Mounts.Kind() == "" {
		m.Mounts = mounts
	}
	m.recordAccessVariables(c, got)
	if !m.FromTemplate.IsNull() { // after an import, the next read sets it
		m.recordCopy(c, got, true)
	}
}

// storage returns the mounts that the pod has, its own or its template's.
func (m *pod) storage() api.PodMounts {
	if m.Mounts.IsNull() {
		return m.Private.Mounts
	}
	return expandMounts(m.Mounts)
}

// loss describes the data that a deletion destroys.
func (m *pod) loss() string {
	text := "The data on its container disk is lost"
	if disk := m.Disk; !disk.IsNull() { // null: the template's
		text = fmt.Sprintf("The data on its container disk (%d GB) is lost", disk.ValueInt64())
	}
	if m.Status.ValueString() == api.PodRunning {
		text = "It is RUNNING: its processes end. " + text
	}
	mounts := m.storage()
	if mount := mounts.Persistent; mount != nil {
		text += fmt.Sprintf(", and so is its persistent mount (%d GB) at %s", mount.Size, mount.Path)
	}
	if len(mounts.Network) > 0 {
		text += ". Its network volume is kept"
	}
	return text + "."
}
