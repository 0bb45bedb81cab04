package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pod is one container on a GPU or CPU machine.
type Pod struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"` // need not be unique

	// TemplateID is the template of a create. Its settings are copied wherever Container and
	// Mounts are nil. v1 returns it; v2 returns it in PodState.Template for pods created on v1.
	// No update sends it.
	TemplateID *string `json:"templateId,omitempty"`
	// Container is never nil in an answer. Creates and updates omit its nil fields.
	Container *Container `json:"-"`

	GPU    *PodGPU   `json:"gpu,omitempty"` // either GPU or CPU
	CPU    *PodCPU   `json:"cpu,omitempty"`
	Mounts PodMounts `json:"mounts,omitzero"` // the kind is fixed at create; updates can't clear it

	Cloud         string   `json:"cloud,omitempty"`         // SECURE or COMMUNITY; fixed at create
	DataCenterIDs []string `json:"dataCenterIds,omitempty"` // Only a create sends it. If it is nil, the scheduler chooses.
	// GlobalNetworking, unless nil, is sent in every update: answers have the state of the running pod,
	// which a change reaches only at the next start. v1 doesn't return it.
	GlobalNetworking *GlobalNetworking `json:"globalNetworking,omitempty"`
	Locked           *bool             `json:"locked,omitempty"`       // protects against stop and reset; a create on v2 can't set it
	StartSSH         *bool             `json:"startSsh,omitempty"`     // v2 only, in a create
	StartJupyter     *bool             `json:"startJupyter,omitempty"` // v2 only, in a create
	Placement        PodPlacement      `json:"-"`                      // v1 only, in a create; answers have Interruptible

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

type PodGPU struct {
	ID    string `json:"id"` // GPU type
	Count int64  `json:"count,omitempty"`
	PodGPURequirements
	VCPUCount *float64 `json:"vcpuCount,omitempty"` // v2 only, only in answers: of all GPUs together
	Memory    *float64 `json:"memory,omitempty"`    // GB; v2 only, only in answers: of all GPUs together
}

// PodGPURequirements are requirements on the machine. Only a create sends them.
type PodGPURequirements struct {
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`     // v2 only
	MinRAMPerGPU        int64    `json:"minRamPerGpu,omitempty"`       // GB; v2 only
	MinVCPUCountPerGPU  int64    `json:"minVcpuCountPerGpu,omitempty"` // v2 only
}

type PodCPU struct {
	ID        string `json:"id"` // CPU flavor
	VCPUCount int64  `json:"vcpuCount"`
	Memory    int64  `json:"memory,omitempty"` // GB; only in answers
}

// PodMounts is the storage of a pod: at most one kind.
type PodMounts struct {
	Persistent *PersistentMount `json:"persistent,omitempty"` // not for CPU pods
	Network    []NetworkMount   `json:"network,omitempty"`    // at most one
}

type NetworkMount struct {
	VolumeID string `json:"volumeId"` // fixed at create
	Path     string `json:"path"`
}

// GlobalNetworking is a pod's private address across data centers. Requests have only Enabled.
type GlobalNetworking struct {
	Enabled     bool   `json:"enabled"`
	IP          string `json:"ip,omitempty"`
	InternalDNS string `json:"internalDns,omitempty"`
}

// MarshalJSON encodes the form of requests.
func (n GlobalNetworking) MarshalJSON() ([]byte, error) { return json.Marshal(n.Enabled) }

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
	Proxy  *SSHEndpoint `json:"proxy"`
	Direct *SSHEndpoint `json:"direct"`
}

type SSHEndpoint struct {
	Host     string `json:"host"`
	Port     int64  `json:"port"`
	Username string `json:"username"`
	Command  string `json:"command"`
}

// PodCluster is a pod's place in a cluster.
type PodCluster struct {
	ID   string `json:"id"`
	Rank *int64 `json:"rank"`
	Role string `json:"role,omitempty"`
	IP   string `json:"ip,omitempty"`
}

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

type PodPort struct {
	Private int64   `json:"private"`
	Public  *int64  `json:"public"` // nil: not published
	Type    string  `json:"type"`   // http or tcp
	IP      *string `json:"ip"`
}

// comparableMembers returns the updatable members whose answers are reliable. For global networking an
// answer has the current state, not the requested one.
func (p Pod) comparableMembers() Pod {
	p.GlobalNetworking = nil
	return p.updatableMembers()
}

func (p Pod) updatableMembers() Pod {
	return Pod{
		Name: p.Name, Container: p.Container, Mounts: p.Mounts,
		GlobalNetworking: p.GlobalNetworking, Locked: p.Locked,
	}
}

type podV1 struct {
	ID                      string            `json:"id,omitempty"`
	Name                    string            `json:"name,omitempty"`
	ImageName               *string           `json:"imageName,omitempty"` // only in requests
	Image                   *string           `json:"image,omitempty"`     // only in answers, with the same meaning
	TemplateID              *string           `json:"templateId,omitempty"`
	ContainerDiskInGB       *int64            `json:"containerDiskInGb,omitempty"`
	ContainerRegistryAuthID *string           `json:"containerRegistryAuthId,omitempty"`
	DockerEntrypoint        *[]string         `json:"dockerEntrypoint,omitempty"`
	DockerStartCmd          *[]string         `json:"dockerStartCmd,omitempty"`
	Env                     map[string]string `json:"env,omitzero"`
	Ports                   *[]string         `json:"ports,omitempty"`
	Locked                  *bool             `json:"locked,omitempty"`
	GlobalNetworking        *bool             `json:"globalNetworking,omitempty"`
	VolumeInGB              *int64            `json:"volumeInGb,omitempty"`
	VolumeMountPath         *string           `json:"volumeMountPath,omitempty"`
	NetworkVolumeID         string            `json:"networkVolumeId,omitempty"` // only in requests
	NetworkVolume           *podVolumeV1      `json:"networkVolume,omitempty"`   // only in answers

	ComputeType         string   `json:"computeType,omitempty"` // GPU or CPU
	GPUTypeIDs          []string `json:"gpuTypeIds,omitempty"`
	GPUCount            int64    `json:"gpuCount,omitempty"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"`
	CPUFlavorIDs        []string `json:"cpuFlavorIds,omitempty"`
	VCPUCount           float64  `json:"vcpuCount,omitempty"` // in an answer about a GPU pod: vCPUs of the machine
	CloudType           string   `json:"cloudType,omitempty"`
	DataCenterIDs       []string `json:"dataCenterIds,omitempty"`
	PodPlacement

	DesiredStatus string           `json:"desiredStatus,omitempty"` // RUNNING, EXITED or TERMINATED
	LastStartedAt *string          `json:"lastStartedAt,omitempty"`
	PortMappings  map[string]int64 `json:"portMappings,omitempty"`
	PublicIP      *string          `json:"publicIp,omitempty"`
	CostPerHr     float64          `json:"costPerHr,omitempty"`
	GPU           *podGPUV1        `json:"gpu,omitempty"`
	CPUFlavorID   string           `json:"cpuFlavorId,omitempty"`
	MemoryInGB    float64          `json:"memoryInGb,omitempty"`
	Machine       *machineV1       `json:"machine,omitempty"`
}

type podGPUV1 struct {
	ID    string `json:"id"`
	Count int64  `json:"count"`
}

type podVolumeV1 struct {
	ID string `json:"id"`
}

type machineV1 struct {
	DataCenterID string `json:"dataCenterId"`
	SecureCloud  bool   `json:"secureCloud"`
}

// newPodV1 makes the updatable part of a request body.
func newPodV1(p Pod) (w podV1, err error) {
	w = podV1{Name: p.Name, Locked: p.Locked}
	if p.GlobalNetworking != nil {
		w.GlobalNetworking = &p.GlobalNetworking.Enabled
	}
	if c := p.Container; c != nil {
		w.ImageName, w.ContainerDiskInGB, w.ContainerRegistryAuthID, w.Env = c.Image, c.Disk, c.Registry, c.Env
		if c.Ports != nil {
			w.Ports = new(append([]string{}, *c.Ports...))
		}
		if w.DockerEntrypoint, w.DockerStartCmd, err = c.v1(); err != nil {
			return w, err
		}
	}
	switch mounts := p.Mounts; {
	case len(mounts.Network) > 0:
		w.VolumeMountPath = &mounts.Network[0].Path
	case mounts.Persistent != nil:
		w.VolumeInGB, w.VolumeMountPath = &mounts.Persistent.Size, &mounts.Persistent.Path
	}
	return w, nil
}

// addFixedMembers adds the members that only a create sends. A pod without a template sends volumeInGb 0
// unless it has a volume, because the server would create one by default.
func (w *podV1) addFixedMembers(p Pod) {
	if p.TemplateID == nil && len(deref(w.DockerEntrypoint)) == 0 {
		w.DockerEntrypoint = nil
	}
	w.TemplateID, w.CloudType, w.DataCenterIDs, w.PodPlacement = p.TemplateID, p.Cloud, p.DataCenterIDs, p.Placement
	if len(p.Mounts.Network) > 0 {
		w.NetworkVolumeID = p.Mounts.Network[0].VolumeID
	} else if p.Mounts.Persistent == nil && p.TemplateID == nil {
		w.VolumeInGB = new(int64(0))
	}
	switch {
	case p.CPU != nil:
		w.ComputeType, w.CPUFlavorIDs, w.VCPUCount = "CPU", []string{p.CPU.ID}, float64(p.CPU.VCPUCount)
	case p.GPU != nil:
		w.ComputeType, w.GPUTypeIDs, w.GPUCount, w.AllowedCUDAVersions = "GPU", []string{p.GPU.ID}, p.GPU.Count, p.GPU.AllowedCUDAVersions
	}
}

func (w podV1) neutral() Pod {
	container := Container{Image: w.Image, Command: Command{Entrypoint: w.DockerEntrypoint, Cmd: w.DockerStartCmd}, Disk: w.ContainerDiskInGB, Env: w.Env, Ports: w.Ports, Registry: w.ContainerRegistryAuthID}
	p := Pod{
		ID: w.ID, Name: w.Name, TemplateID: w.TemplateID, Container: newContainer(container),
		Locked: w.Locked, Placement: PodPlacement{Interruptible: w.Interruptible},
		PodState: PodState{Status: w.DesiredStatus, Cost: w.CostPerHr, StartedAt: w.LastStartedAt, Runtime: w.runtime()},
	}
	if w.CPUFlavorID != "" {
		p.CPU = &PodCPU{ID: w.CPUFlavorID, VCPUCount: int64(w.VCPUCount), Memory: int64(w.MemoryInGB)}
	} else if w.GPU != nil {
		p.GPU = &PodGPU{ID: w.GPU.ID, Count: w.GPU.Count}
	}
	switch path := deref(w.VolumeMountPath); {
	case w.NetworkVolume != nil:
		p.Mounts.Network = []NetworkMount{{w.NetworkVolume.ID, path}}
	case deref(w.VolumeInGB) > 0:
		p.Mounts.Persistent = &PersistentMount{*w.VolumeInGB, path}
	}
	if w.Machine != nil {
		p.Cloud = "COMMUNITY"
		if w.Machine.SecureCloud {
			p.Cloud = "SECURE"
		}
		if w.Machine.DataCenterID != "" {
			p.DataCenterID = &w.Machine.DataCenterID
		}
	}
	if p.Runtime != nil {
		p.SSH.Direct = p.Runtime.ssh()
	}
	return p
}

// podV2 inlines the container's members.
type podV2 struct {
	Pod
	Container
}

func createPodV2(want Pod) (patch, error) {
	want.ID, want.Locked, want.PodState = "", nil, PodState{} // a create can't set Locked
	if want.CPU != nil {
		want.CPU = &PodCPU{ID: want.CPU.ID, VCPUCount: want.CPU.VCPUCount}
	}
	if want.GPU != nil {
		want.GPU = &PodGPU{ID: want.GPU.ID, Count: want.GPU.Count, PodGPURequirements: want.GPU.PodGPURequirements}
	}
	return withContainer(want, want.Container)
}

// CreateSize returns the size of the request that creates a pod on v2, and its largest member
// with its size.
func (p Pod) CreateSize() (size int, largest string, largestSize int) {
	body, err := createPodV2(p)
	if err != nil {
		return 0, "", 0
	}
	for name, value := range body {
		if len(value) > largestSize {
			largest, largestSize = name, len(value)
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return 0, "", 0
	}
	return len(text), largest, largestSize
}

func (w podV2) neutral() Pod {
	p := w.Pod
	p.Container = newContainer(w.Container)
	return p
}

// runtime returns nil unless the pod runs. While it starts, API v1 returns no start time.
func (w podV1) runtime() *PodRuntime {
	if w.DesiredStatus != PodRunning || deref(w.LastStartedAt) == "" {
		return nil
	}
	runtime := &PodRuntime{}
	for _, port := range deref(w.Ports) {
		number, protocol, _ := strings.Cut(port, "/")
		private, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue
		}
		p := PodPort{Private: private, Type: protocol}
		if public, ok := w.PortMappings[number]; ok {
			p.Public, p.IP = &public, w.PublicIP
		}
		runtime.Ports = append(runtime.Ports, p)
	}
	return runtime
}

const sshPort = 22

// ssh returns the address of the SSH server, if port 22 is public.
func (r PodRuntime) ssh() *SSHEndpoint {
	i := slices.IndexFunc(r.Ports, func(p PodPort) bool { return p.Private == sshPort && p.Type == "tcp" && p.Public != nil && p.IP != nil })
	if i < 0 {
		return nil
	}
	host, port := *r.Ports[i].IP, *r.Ports[i].Public
	return &SSHEndpoint{Host: host, Port: port, Username: "root", Command: fmt.Sprintf("ssh root@%s -p %d", host, port)}
}
