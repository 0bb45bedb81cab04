package api

// Pod is one container on a GPU or CPU machine.
type Pod struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"` // need not be unique

	// TemplateID is the template of a create. Its settings are copied wherever Container and
	// Mounts are nil. v1 returns it; v2 returns it in PodState.Template for pods created on v1.
	// No update sends it.
	TemplateID *string `json:"templateId,omitempty"`
	// Container has no nil field in an answer. Creates and updates omit nil fields.
	Container *Container `json:"-"`

	GPU    *PodGPU   `json:"gpu,omitempty"` // either GPU or CPU
	CPU    *PodCPU   `json:"cpu,omitempty"`
	Mounts PodMounts `json:"mounts,omitzero"` // the kind is fixed at create; updates can't clear it

	Cloud         string   `json:"cloud,omitempty"`         // SECURE or COMMUNITY; fixed at create
	DataCenterIDs []string `json:"dataCenterIds,omitempty"` // only in a create; nil: the scheduler chooses
	// GlobalNetworking is sent in every update that sets it: it takes effect at the next start,
	// and an answer shows the current state. v1 doesn't return it.
	GlobalNetworking *GlobalNetworking `json:"globalNetworking,omitempty"`
	Locked           *bool             `json:"locked,omitempty"`       // protects against stop and reset; on v2 only in updates
	StartSSH         *bool             `json:"startSsh,omitempty"`     // v2 only, in a create
	StartJupyter     *bool             `json:"startJupyter,omitempty"` // v2 only, in a create
	Placement        PodPlacement      `json:"-"`                      // v1 only, in a create

	PodState
}

// PodState has the members that only answers have. v1 omits some of them.
type PodState struct {
	Status       string      `json:"status,omitempty"`  // PROVISIONING, STARTING, RUNNING, EXITED, ERROR or TERMINATED
	Actions      []string    `json:"actions,omitempty"` // that the status allows
	Reason       *string     `json:"reason,omitempty"`  // why the pod waits, or how it ended
	DataCenterID *string     `json:"dataCenterId,omitempty"`
	CUDAVersion  *string     `json:"cudaVersion,omitempty"`
	Template     *string     `json:"template,omitempty"`
	Cost         float64     `json:"cost,omitempty"` // per hour
	SSH          PodSSH      `json:"ssh,omitzero"`
	Cluster      *PodCluster `json:"cluster,omitempty"` // for pods of a cluster
	Runtime      *PodRuntime `json:"runtime,omitempty"` // nil unless the pod runs
	CreatedAt    string      `json:"createdAt,omitempty"`
	StartedAt    *string     `json:"startedAt,omitempty"`
}

// PodGPU is the GPUs of a pod.
type PodGPU struct {
	ID                  string   `json:"id"` // GPU type
	Count               int64    `json:"count,omitempty"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"` // only in a create
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`      // v2 only, only in a create
	MinRAMPerGPU        int64    `json:"minRamPerGpu,omitempty"`        // GB of the machine; v2 only, only in a create
	MinVCPUCountPerGPU  int64    `json:"minVcpuCountPerGpu,omitempty"`  // v2 only, only in a create
	VCPUCount           float64  `json:"vcpuCount,omitempty"`           // v2 only, only in answers: of all GPUs together
	Memory              float64  `json:"memory,omitempty"`              // GB; v2 only, only in answers: of all GPUs together
}

// PodCPU is the CPUs of a pod without GPUs.
type PodCPU struct {
	ID        string `json:"id"` // CPU flavor
	VCPUCount int64  `json:"vcpuCount"`
	Memory    int64  `json:"memory,omitempty"` // GB; only in answers
}

// PodMounts is the storage of a pod: at most one kind.
type PodMounts struct {
	Persistent *PersistentMount `json:"persistent,omitempty" tfsdk:"persistent"` // not for CPU pods
	Network    []NetworkMount   `json:"network,omitempty" tfsdk:"network"`       // at most one
}

// NetworkMount is a network volume in a pod.
type NetworkMount struct {
	VolumeID string `json:"volumeId" tfsdk:"volume_id"` // fixed at create
	Path     string `json:"path" tfsdk:"path"`
}

// GlobalNetworking is a pod's private address across data centers. Requests have only Enabled.
type GlobalNetworking struct {
	Enabled     bool   `json:"enabled"`
	IP          string `json:"ip,omitempty"`
	InternalDNS string `json:"internalDns,omitempty"`
}

// PodPlacement has the requirements on a pod's machine that only API v1 accepts.
type PodPlacement struct {
	Interruptible        *bool    `json:"interruptible,omitempty"`
	SupportPublicIP      *bool    `json:"supportPublicIp,omitempty"`
	CountryCodes         []string `json:"countryCodes,omitempty"`
	GPUTypePriority      string   `json:"gpuTypePriority,omitempty"` // availability or custom
	CPUFlavorPriority    string   `json:"cpuFlavorPriority,omitempty"`
	DataCenterPriority   string   `json:"dataCenterPriority,omitempty"`
	MinRAMPerGPU         *int64   `json:"minRAMPerGPU,omitempty"` // GB
	MinVCPUPerGPU        *int64   `json:"minVCPUPerGPU,omitempty"`
	MinDiskBandwidthMBps *float64 `json:"minDiskBandwidthMBps,omitempty"`
	MinDownloadMbps      *float64 `json:"minDownloadMbps,omitempty"`
	MinUploadMbps        *float64 `json:"minUploadMbps,omitempty"`
}

// PodSSH has the addresses of a pod's SSH server.
type PodSSH struct {
	Proxy  *SSHEndpoint `json:"proxy" tfsdk:"proxy"`
	Direct *SSHEndpoint `json:"direct" tfsdk:"direct"`
}

// SSHEndpoint is an address of an SSH server.
type SSHEndpoint struct {
	Host     string `json:"host" tfsdk:"host"`
	Port     int64  `json:"port" tfsdk:"port"`
	Username string `json:"username" tfsdk:"username"`
	Command  string `json:"command" tfsdk:"command"`
}

// PodCluster is a pod's place in a cluster.
type PodCluster struct {
	ID   string `json:"id"`
	Rank *int64 `json:"rank"`
	Role string `json:"role,omitempty"`
	IP   string `json:"ip,omitempty"`
}

// PodRuntime is the current state of a running pod.
type PodRuntime struct {
	Uptime int64         `json:"uptime"` // seconds
	GPUs   []PodGPUUsage `json:"gpus,omitempty"`
	CPU    *Utilization  `json:"cpu,omitempty"`
	Memory *Utilization  `json:"memory,omitempty"`
	Ports  []PodPort     `json:"ports,omitempty"`
}

// PodGPUUsage is in percent; nil if unknown.
type PodGPUUsage struct {
	Util       *int64 `json:"util,omitempty"`
	MemoryUtil *int64 `json:"memoryUtil,omitempty"`
}

// Utilization is in percent.
type Utilization struct {
	Util int64 `json:"util"`
}

// PodPort is a port of a pod with its public address.
type PodPort struct {
	Private int64   `json:"private" tfsdk:"private"`
	Public  *int64  `json:"public" tfsdk:"public"` // nil: not published
	Type    string  `json:"type" tfsdk:"type"`     // http or tcp
	IP      *string `json:"ip" tfsdk:"ip"`
}

// Cluster is a group of equal pods with their own network (v2 only). Only its name can be
// changed. Answers lack the settings of its pods; the pods have them (Clusters.Pods).
type Cluster struct {
	ID      string         `json:"id,omitempty"`
	Name    string         `json:"name"` // need not be unique
	Type    string         `json:"type"` // APPLICATION, TRAINING, SLURM or RAY
	Compute ClusterCompute `json:"compute"`

	TemplateID string `json:"templateId,omitempty"` // excludes the settings from here to Mounts
	Image      string `json:"image,omitempty"`
	Command
	Disk          int64             `json:"disk,omitempty"` // GB
	Env           map[string]string `json:"env,omitempty"`
	Ports         []string          `json:"ports,omitempty"`
	Mounts        PodMounts         `json:"mounts,omitzero"`
	DataCenterIDs []string          `json:"dataCenterIds,omitempty"`
	StartSSH      *bool             `json:"startSsh,omitempty"`
	StartJupyter  *bool             `json:"startJupyter,omitempty"`

	ClusterState
}

// ClusterCompute is the machines of a cluster.
type ClusterCompute struct {
	GPUTypeID      string `json:"gpuTypeId" tfsdk:"gpu_type_id"`
	GPUCountPerPod int64  `json:"gpuCountPerPod" tfsdk:"gpu_count_per_pod"`
	PodCount       int64  `json:"podCount" tfsdk:"pod_count"`
}

// ClusterState has the members that only answers have.
type ClusterState struct {
	Template     string          `json:"template,omitempty"`     // used to create the cluster
	DataCenterID string          `json:"dataCenterId,omitempty"` // "" until a pod is placed
	Pods         *ClusterPods    `json:"pods,omitempty"`
	Network      *ClusterNetwork `json:"network,omitempty"` // nil until provisioned
	Primary      *ClusterPrimary `json:"primary,omitempty"` // nil until placed
	CreatedAt    string          `json:"createdAt,omitempty"`
}

// ClusterPods counts the pods of a cluster.
type ClusterPods struct {
	Total    int64            `json:"total" tfsdk:"total"`
	ByStatus map[string]int64 `json:"byStatus" tfsdk:"by_status"`
}

// ClusterNetwork is the network of a cluster.
type ClusterNetwork struct {
	CIDR      string `json:"cidr"`
	VXLANID   *int64 `json:"vxlanId,omitempty"`
	VXLANPort *int64 `json:"vxlanPort,omitempty"`
}

// ClusterPrimary is the pod of rank 0.
type ClusterPrimary struct {
	PodID       string `json:"podId"`
	Status      string `json:"status"`
	SSHEndpoint string `json:"sshEndpoint,omitempty"` // host:port, while it runs and publishes 22/tcp
}

// Delegation lets the deployment pull images from a repository in AWS ECR (v2 only). It can't
// be changed.
type Delegation struct {
	ID       string  `json:"id,omitempty"`
	Name     *string `json:"name,omitempty"` // need not be unique
	Resource string  `json:"resource"`       // ARN; assembled from its parts in an answer

	DelegatorUserID   string `json:"delegatorUserId,omitempty"`
	AWSUser           string `json:"awsUser,omitempty"`
	AWSRegion         string `json:"awsRegion,omitempty"`
	Repository        string `json:"repository,omitempty"`
	Tag               string `json:"tag,omitempty"`
	DockerRegistryURI string `json:"dockerRegistryUri,omitempty"`
	CreatedAt         string `json:"createdAt,omitempty"`
}
