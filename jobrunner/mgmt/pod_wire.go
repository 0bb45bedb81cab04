package mgmt

type podBodyV2 struct {
	Name *string `json:"name"`
	sourceBodyV2
	GPU              *podGPUBodyV2 `json:"gpu"`
	CPU              *cpuBodyV2    `json:"cpu"`
	Mounts           *podMountsV2  `json:"mounts"`
	Cloud            *string       `json:"cloud"`
	DataCenterIDs    *[]string     `json:"dataCenterIds"`
	GlobalNetworking *bool         `json:"globalNetworking"`
	Locked           *bool         `json:"locked"`
	StartJupyter     *bool         `json:"startJupyter"`
	StartSSH         *bool         `json:"startSsh"`
}

// podBodyV1 has requirements on the machine. A requirement that the machine can't measure is ignored.
type podBodyV1 struct {
	Name       *string       `json:"name"`
	TemplateID clearableText `json:"templateId"`
	containerBodyV1
	Locked           *bool         `json:"locked"`
	GlobalNetworking *bool         `json:"globalNetworking"`
	NetworkVolumeID  clearableText `json:"networkVolumeId"`

	computeBodyV1
	GPUTypePriority   *string `json:"gpuTypePriority"`
	MinRAMPerGPU      *int64  `json:"minRAMPerGPU"`
	MinVCPUPerGPU     *int64  `json:"minVCPUPerGPU"`
	CPUFlavorPriority *string `json:"cpuFlavorPriority"`

	Cloud                *string   `json:"cloudType"`
	CountryCodes         *[]string `json:"countryCodes"`
	DataCenterPriority   *string   `json:"dataCenterPriority"`
	Interruptible        *bool     `json:"interruptible"`
	SupportPublicIP      *bool     `json:"supportPublicIp"`
	MinDiskBandwidthMBps *float64  `json:"minDiskBandwidthMBps"`
	MinDownloadMbps      *float64  `json:"minDownloadMbps"`
	MinUploadMbps        *float64  `json:"minUploadMbps"`
}

type podV2 struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	containerV2
	Status           string             `json:"status"`
	Actions          []string           `json:"actions"`
	Mounts           podMountsV2        `json:"mounts"`
	GPU              *podGPUV2          `json:"gpu,omitempty"` // a pod has either gpu or cpu
	CPU              *cpuV2             `json:"cpu,omitempty"`
	Cloud            string             `json:"cloud"`
	DataCenterID     *string            `json:"dataCenterId"` // null unless the request, a network volume or the catalog file chooses one
	CUDAVersion      *string            `json:"cudaVersion"`
	SSH              podSSHV2           `json:"ssh"`
	Cluster          *podClusterV2      `json:"cluster,omitempty"`
	TemplateID       *string            `json:"template"` // null if it was created without a template, or through version 2
	Cost             float64            `json:"cost"`     // per hour
	Locked           bool               `json:"locked"`
	GlobalNetworking globalNetworkingV2 `json:"globalNetworking"`
	Runtime          *podRuntimeV2      `json:"runtime"` // null if it doesn't run
	Created          string             `json:"createdAt"`
	StartedAt        *string            `json:"startedAt"`

	// The v2 document doesn't have this member.
	Reason *string `json:"reason"` // why it waits, or how it ended
}

// podV1 is a pod, or with includeWorkers a worker. Members that don't apply are omitted.
type podV1 struct {
	ID                string            `json:"id"`
	Name              string            `json:"name"`
	Image             string            `json:"image"`
	Disk              int64             `json:"containerDiskInGb"`
	Registry          string            `json:"containerRegistryAuthId,omitempty"`
	DockerEntrypoint  []string          `json:"dockerEntrypoint"`
	DockerStartCmd    []string          `json:"dockerStartCmd"`
	Env               map[string]string `json:"env"`
	Ports             []string          `json:"ports"`
	PortMappings      map[string]int64  `json:"portMappings"`
	PublicIP          *string           `json:"publicIp"` // null if not known yet
	TemplateID        string            `json:"templateId,omitempty"`
	Template          *templateV1       `json:"template,omitempty"`
	EndpointID        string            `json:"endpointId,omitempty"`
	AIAPIID           string            `json:"aiApiId,omitempty"` // id of a worker's endpoint
	SLSVersion        int64             `json:"slsVersion,omitempty"`
	DesiredStatus     string            `json:"desiredStatus"`
	LastStartedAt     string            `json:"lastStartedAt,omitempty"`
	LastStatusChange  string            `json:"lastStatusChange"`
	Locked            bool              `json:"locked"`
	Interruptible     bool              `json:"interruptible"`
	Owner             string            `json:"consumerUserId"`
	CostPerHr         float64           `json:"costPerHr"`
	AdjustedCostPerHr float64           `json:"adjustedCostPerHr"`
	SavingsPlans      []string          `json:"savingsPlans"` // always empty
	GPU               *podGPUV1         `json:"gpu,omitempty"`
	CPUFlavorID       string            `json:"cpuFlavorId,omitempty"`
	VCPUCount         float64           `json:"vcpuCount"`
	MemoryInGB        float64           `json:"memoryInGb,omitempty"` // of CPU pods
	MachineID         string            `json:"machineId"`
	Machine           *machineV1        `json:"machine,omitempty"`
	VolumeInGB        int64             `json:"volumeInGb"`
	VolumeMountPath   string            `json:"volumeMountPath"`
	VolumeEncrypted   bool              `json:"volumeEncrypted"`
	NetworkVolume     *networkVolumeV1  `json:"networkVolume,omitempty"`
}

type podGPUBodyV2 struct {
	ID                  string    `json:"id"`
	Count               *int64    `json:"count"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions"`
	MinCUDAVersion      *string   `json:"minCudaVersion"`
	MinRAMPerGPU        int64     `json:"minRamPerGpu"` // GB
	MinVCPUPerGPU       int64     `json:"minVcpuCountPerGpu"`
}

// podMountsV2 is used in bodies and answers.
type podMountsV2 struct {
	Persistent *persistentV2     `json:"persistent,omitempty"`
	Network    *[]networkMountV2 `json:"network,omitempty"`
}

type networkMountV2 struct {
	VolumeID string `json:"volumeId"`
	Path     string `json:"path"`
}

type podGPUV2 struct {
	ID        string  `json:"id"`
	Count     int64   `json:"count"`
	VCPUCount float64 `json:"vcpuCount"` // of all GPUs together, as is Memory
	Memory    float64 `json:"memory"`    // GB
}

type podSSHV2 struct {
	Proxy  *sshEndpointV2 `json:"proxy"` // always null
	Direct *sshEndpointV2 `json:"direct"`
}

type sshEndpointV2 struct {
	Host     string `json:"host"`
	Port     int64  `json:"port"`
	Username string `json:"username"`
	Command  string `json:"command"`
}

type podClusterV2 struct {
	ID   string `json:"id"`
	Rank *int64 `json:"rank"`
	Role string `json:"role,omitempty"`
	IP   string `json:"ip,omitempty"`
}

type globalNetworkingV2 struct {
	Enabled     bool   `json:"enabled"`
	IP          string `json:"ip,omitempty"`
	InternalDNS string `json:"internalDns,omitempty"`
}

type podRuntimeV2 struct {
	Uptime int64           `json:"uptime"` // s
	GPUs   []podGPUUsageV2 `json:"gpus"`
	CPU    *utilizationV2  `json:"cpu,omitempty"`
	Memory *utilizationV2  `json:"memory,omitempty"`
	Ports  []podPortV2     `json:"ports"`
}

type podGPUUsageV2 struct {
	Util       *int64 `json:"util,omitempty"` // percent, like MemoryUtil and utilizationV2.Util
	MemoryUtil *int64 `json:"memoryUtil,omitempty"`
}

type utilizationV2 struct {
	Util int64 `json:"util"`
}

type podPortV2 struct {
	Private int64   `json:"private"`
	Public  *int64  `json:"public"`
	Type    string  `json:"type"`
	IP      *string `json:"ip"`
}

type podGPUV1 struct {
	ID             string  `json:"id"`
	Count          int64   `json:"count"`
	DisplayName    string  `json:"displayName"`
	SecurePrice    float64 `json:"securePrice"`
	CommunityPrice float64 `json:"communityPrice"`
}

// machineV1 describes this machine, even if the pod runs on another one.
type machineV1 struct {
	GPUTypeID      string    `json:"gpuTypeId,omitempty"`
	GPUType        *podGPUV1 `json:"gpuType,omitempty"`
	GPUDisplayName string    `json:"gpuDisplayName,omitempty"`
	GPUAvailable   int64     `json:"gpuAvailable"`
	CPUCount       int64     `json:"cpuCount"`
	CPUTypeID      string    `json:"cpuTypeId,omitempty"`
	DataCenterID   string    `json:"dataCenterId,omitempty"`
	SecureCloud    bool      `json:"secureCloud"`
	MinPodGPUCount int64     `json:"minPodGpuCount"`
	CostPerHr      float64   `json:"costPerHr"`
}
