package mgmt

type endpointBodyV2 struct {
	Name *string `json:"name"`
	Type *string `json:"type"`
	sourceBodyV2
	GPU            *gpuBodyV2     `json:"gpu"`
	CPU            *[]cpuBodyV2   `json:"cpu"`
	Workers        *workersBodyV2 `json:"workers"`
	Scaling        *scalingV2     `json:"scaling"`
	DataCenterIDs  *[]string      `json:"dataCenterIds"`
	NetworkVolumes *[]string      `json:"networkVolumes"`
	Timeout        *int64         `json:"timeout"`
	FlashBoot      *string        `json:"flashboot"`
}

type endpointBodyV1 struct {
	Name       *string `json:"name"`
	TemplateID *string `json:"templateId"`
	computeBodyV1
	MinCUDAVersion   clearableText `json:"minCudaVersion"`
	NetworkVolumeID  clearableText `json:"networkVolumeId"`
	NetworkVolumeIDs *[]string     `json:"networkVolumeIds"`
	WorkersMin       *int64        `json:"workersMin"`
	WorkersMax       *int64        `json:"workersMax"`
	IdleTimeout      *int64        `json:"idleTimeout"`
	ScalerType       *string       `json:"scalerType"`
	ScalerValue      *int64        `json:"scalerValue"`
	Timeout          *int64        `json:"executionTimeoutMs"`
	FlashBoot        *bool         `json:"flashboot"`
}

type computeBodyV1 struct {
	ComputeType         *string   `json:"computeType"`
	GPUTypeIDs          *[]string `json:"gpuTypeIds"`
	GPUCount            *int64    `json:"gpuCount"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions"`
	CPUFlavorIDs        *[]string `json:"cpuFlavorIds"`
	VCPUCount           *int64    `json:"vcpuCount"`
	DataCenterIDs       *[]string `json:"dataCenterIds"`
}

// onCPU reports whether the body of a create asks for CPUs.
func (b computeBodyV1) onCPU() bool { return b.ComputeType != nil && *b.ComputeType == "CPU" }

type endpointV2 struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
	containerV2
	GPU            *gpuV2        `json:"gpu,omitempty"` // absent if the endpoint runs on CPUs or any compute, or if its GPU types are in no pool
	CPU            []cpuV2       `json:"cpu,omitempty"`
	Workers        workersV2     `json:"workers"`
	Scaling        scalingV2     `json:"scaling"`
	DataCenterIDs  []string      `json:"dataCenterIds"`
	NetworkVolumes []string      `json:"networkVolumes"`
	Timeout        int64         `json:"timeout"` // ms
	FlashBoot      string        `json:"flashboot"`
	Created        string        `json:"createdAt"`
	RequestURLs    requestURLsV2 `json:"requestUrls"`
}

// endpointV1 is an endpoint in an answer. Members that don't apply are omitted, and userId always is.
type endpointV1 struct {
	ID                  string            `json:"id"`
	Name                string            `json:"name"`
	TemplateID          string            `json:"templateId,omitempty"`
	Template            *templateV1       `json:"template,omitempty"`
	ComputeType         string            `json:"computeType"`
	GPUTypeIDs          *[]string         `json:"gpuTypeIds,omitempty"`
	GPUCount            int64             `json:"gpuCount,omitempty"`
	AllowedCUDAVersions *[]string         `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      string            `json:"minCudaVersion,omitempty"`
	InstanceIDs         []string          `json:"instanceIds,omitempty"`
	DataCenterIDs       []string          `json:"dataCenterIds"`
	NetworkVolumeID     string            `json:"networkVolumeId,omitempty"`
	NetworkVolumes      []string          `json:"networkVolumeIds"`
	WorkersMin          int64             `json:"workersMin"`
	WorkersMax          int64             `json:"workersMax"`
	IdleTimeout         int64             `json:"idleTimeout"`
	ScalerType          string            `json:"scalerType"`
	ScalerValue         int64             `json:"scalerValue"`
	Timeout             int64             `json:"executionTimeoutMs"`
	Env                 map[string]string `json:"env"`
	Workers             *[]podV1          `json:"workers,omitempty"`
	Created             string            `json:"createdAt"`
	Version             int64             `json:"version"`
}

type gpuBodyV2 struct {
	Pools               *[]string `json:"pools"`
	ExcludedTypes       *[]string `json:"excludedTypes"`
	Count               *int64    `json:"count"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions"`
	MinCUDAVersion      *string   `json:"minCudaVersion"`
}

type cpuBodyV2 struct {
	ID        string `json:"id"`
	VCPUCount int64  `json:"vcpuCount"`
}

type workersBodyV2 struct {
	WorkersMin  *int64 `json:"min"`
	WorkersMax  *int64 `json:"max"`
	IdleTimeout *int64 `json:"idleTimeout"`
}

type scalingV2 struct {
	Type         string   `json:"type"`
	QueueDelay   *float64 `json:"queueDelay,omitempty"` // s
	RequestCount *int64   `json:"requestCount,omitempty"`
}

type gpuV2 struct {
	Pools               []string `json:"pools"`
	ExcludedTypes       []string `json:"excludedTypes"`
	Count               int64    `json:"count"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions"`
	MinCUDAVersion      *string  `json:"minCudaVersion"` // An endpoint without a minimum has null.
}

type cpuV2 struct {
	ID        string `json:"id"`
	VCPUCount int64  `json:"vcpuCount"`
	Memory    int64  `json:"memory"` // GB
}

type workersV2 struct {
	Min         int64  `json:"min"`
	Max         int64  `json:"max"`
	IdleTimeout *int64 `json:"idleTimeout,omitempty"` // s; absent if it doesn't apply
}

// requestURLsV2 are the URLs of an endpoint's job API, or of its load balancer.
type requestURLsV2 struct {
	Base       string `json:"base,omitempty"`
	Run        string `json:"run,omitempty"`
	RunSync    string `json:"runSync,omitempty"`
	Status     string `json:"status,omitempty"`
	Stream     string `json:"stream,omitempty"`
	Cancel     string `json:"cancel,omitempty"`
	Retry      string `json:"retry,omitempty"`
	PurgeQueue string `json:"purgeQueue,omitempty"`
	Health     string `json:"health"`
}
