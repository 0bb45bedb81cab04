package mgmt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// podBodyV1 is the body of a create or an update. Requirements on the machine that this machine can't
// measure are ignored.
type podBodyV1 struct {
	Name             *string            `json:"name"`
	Image            *string            `json:"imageName"`
	TemplateID       reference          `json:"templateId"`
	Disk             *int64             `json:"containerDiskInGb"`
	Registry         reference          `json:"containerRegistryAuthId"`
	DockerEntrypoint *[]string          `json:"dockerEntrypoint"`
	DockerStartCmd   *[]string          `json:"dockerStartCmd"`
	Env              *map[string]string `json:"env"`
	Ports            *[]string          `json:"ports"`
	Locked           *bool              `json:"locked"`
	GlobalNetworking *bool              `json:"globalNetworking"`
	VolumeInGB       *int64             `json:"volumeInGb"`
	VolumeMountPath  *string            `json:"volumeMountPath"`
	NetworkVolumeID  reference          `json:"networkVolumeId"`

	ComputeType         *string   `json:"computeType"`
	GPUTypeIDs          *[]string `json:"gpuTypeIds"`
	GPUTypePriority     *string   `json:"gpuTypePriority"`
	GPUCount            *int64    `json:"gpuCount"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions"`
	MinRAMPerGPU        *int64    `json:"minRAMPerGPU"`
	MinVCPUPerGPU       *int64    `json:"minVCPUPerGPU"`
	CPUFlavorIDs        *[]string `json:"cpuFlavorIds"`
	CPUFlavorPriority   *string   `json:"cpuFlavorPriority"`
	VCPUCount           *int64    `json:"vcpuCount"`

	Cloud                *string   `json:"cloudType"`
	CountryCodes         *[]string `json:"countryCodes"`
	DataCenterIDs        *[]string `json:"dataCenterIds"`
	DataCenterPriority   *string   `json:"dataCenterPriority"`
	Interruptible        *bool     `json:"interruptible"`
	SupportPublicIP      *bool     `json:"supportPublicIp"`
	MinDiskBandwidthMBps *float64  `json:"minDiskBandwidthMBps"`
	MinDownloadMbps      *float64  `json:"minDownloadMbps"`
	MinUploadMbps        *float64  `json:"minUploadMbps"`
}

// check requires an image, from the body or from a template.
func (b *podBodyV1) check(u contract.Use) []string {
	if u == contract.Create && b.Image == nil && b.TemplateID.Value == "" {
		return []string{"missing property 'imageName'"}
	}
	return nil
}

// build returns a new pod.
func (b podBodyV1) build(tx *store.Tx) (store.Pod, error) {
	p := podDefaultsV1()
	onCPU := b.ComputeType != nil && *b.ComputeType == "CPU"
	var cudaVersions []string
	if b.TemplateID.Value != "" {
		t, err := b.template(tx)
		if err != nil {
			return p, err
		}
		p.UseTemplate(t)
		p.TemplateID, p.Volume, cudaVersions = t.ID, t.Volume, t.AllowedCUDAVersions
		env := mergedEnv(t.Env, b.Env)
		b.Env = &env
	}
	if onCPU {
		b.applyCPU(tx.Catalog(), &p)
	} else {
		b.applyGPU(&p, cudaVersions)
	}
	b.apply(&p)
	if err := b.applyPlaces(tx.Catalog(), &p); err != nil {
		return p, err
	}
	if b.NetworkVolumeID.Value != "" { // it replaces the pod's own volume
		p.NetworkVolume, p.Volume.Size = b.NetworkVolumeID.Value, 0
	}
	return p, nil
}

func (b podBodyV1) template(tx *store.Tx) (store.Template, error) {
	t, err := tx.Template(b.TemplateID.Value)
	switch {
	case errors.Is(err, store.ErrNotFound): // 400, not 404: the path is valid
		return t, store.Refusal(fmt.Sprintf("template %q does not exist", b.TemplateID.Value))
	case err == nil && t.Serverless:
		return t, store.Refusal(fmt.Sprintf("template %q is a serverless template: a pod needs one for pods", t.ID))
	}
	return t, err
}

// applyCPU ignores the GPU members, as the document of version 1 says. If the pod names no flavor, it
// may get any. It has no volume of its own.
func (b podBodyV1) applyCPU(offered *catalog.Catalog, p *store.Pod) {
	p.CPU = &store.PodCPU{FlavorIDs: convertAll(offered.CPUs, func(c catalog.CPU) string { return c.ID }), VCPUCount: defaultVCPUCount}
	if b.CPUFlavorIDs != nil && len(*b.CPUFlavorIDs) > 0 {
		p.CPU.FlavorIDs = *b.CPUFlavorIDs
	}
	setIfPresent(&p.CPU.VCPUCount, b.VCPUCount)
	p.Volume.Size = 0
}

// applyGPU ignores the CPU members. If the pod names no type, it may get any.
func (b podBodyV1) applyGPU(p *store.Pod, cudaVersions []string) {
	p.GPU = &store.PodGPU{Count: defaultGPUCount, AllowedCUDAVersions: cudaVersions}
	setIfPresent(&p.GPU.TypeIDs, b.GPUTypeIDs)
	setIfPresent(&p.GPU.Count, b.GPUCount)
	setIfPresent(&p.GPU.AllowedCUDAVersions, b.AllowedCUDAVersions)
}

// applyPlaces limits the data centers to countries. A list of all data centers means any.
func (b podBodyV1) applyPlaces(offered *catalog.Catalog, p *store.Pod) error {
	if b.CountryCodes != nil && len(*b.CountryCodes) > 0 {
		places := p.DataCenterIDs
		if len(places) == 0 {
			places = allDataCenters(offered)
		}
		p.DataCenterIDs = slices.DeleteFunc(slices.Clone(places), func(id string) bool {
			d, known := offered.DataCenterByID(id)
			return !known || !slices.Contains(*b.CountryCodes, d.Country)
		})
		if len(p.DataCenterIDs) == 0 {
			return store.Refusal("no data center that the pod may be in is in " + strings.Join(convertAll(*b.CountryCodes, truncate), ", "))
		}
	}
	if sameElements(p.DataCenterIDs, allDataCenters(offered)) {
		p.DataCenterIDs = nil
	}
	return nil
}

// apply applies the members that creates and updates share.
func (b podBodyV1) apply(p *store.Pod) {
	copyFields(p, b)
	setCommandV1(&p.Container, b.DockerEntrypoint, b.DockerStartCmd)
	setIfPresent(&p.Volume.Size, b.VolumeInGB)
	setIfPresent(&p.Volume.Path, b.VolumeMountPath)
}

// update changes an existing pod.
func (b podBodyV1) update(p *store.Pod, now time.Time) error {
	if err := pod.CheckMember(*p); err != nil {
		return err
	}
	before := *p
	b.apply(p)
	return replaceChanged(p, before, now)
}
