package api

import "net/url"

func podsV1(d *deployment, cache *listCache) *Pods {
	r := pods(d, cache)
	r.path, r.unknownIDIs400 = "/v1/pods", true
	// Without them, answers lack the cloud, the data center and the network volume.
	r.query = url.Values{"includeMachine": {"true"}, "includeNetworkVolume": {"true"}}
	r.required = []string{"name", "image", "containerDiskInGb", "dockerStartCmd", "env", "ports", "desiredStatus"}
	r.decode = decodeAs(podV1.neutral)
	r.create = func(want Pod) (any, error) {
		w, err := newPodV1(want)
		w.create(want)
		return w, err
	}
	r.update = func(have, want Pod) (patch, error) {
		p, after, err := changedV1("pod", newPodV1, have.shown(), alignedPod(have, want).mutable())
		if err != nil {
			return nil, err
		}
		return p, completeGroups(p, after, [][]string{{"volumeInGb", "volumeMountPath"}})
	}
	return &Pods{r, r, func(action PodAction) (string, any) { return "/" + string(action), nil }}
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
	NetworkVolume           *networkVolumeV1  `json:"networkVolume,omitempty"`   // only in answers

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

// create adds the members that are fixed at create. A pod without a template sends volumeInGb 0
// unless it has a volume, because the server would create one by default.
func (w *podV1) create(p Pod) {
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
		ID: w.ID, Name: w.Name, TemplateID: w.TemplateID, Container: completed(container),
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
