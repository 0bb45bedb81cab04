package mgmt

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func (c *call) newPodV1(p store.Pod) podV1 {
	price := c.hourlyPrice(p)
	command, _ := p.Command() // args that can't be split are one word
	w := podV1{
		DockerEntrypoint: nonNilList(command.Entrypoint), DockerStartCmd: nonNilList(command.Cmd),
		PortMappings: map[string]int64{}, DesiredStatus: desiredStatus(p.Status),
		LastStatusChange: p.Changed + ": " + p.ChangedAt.UTC().Format("Mon Jan 02 2006 15:04:05 GMT-0700 (MST)"),
		CostPerHr:        price, AdjustedCostPerHr: price, SavingsPlans: []string{}, VCPUCount: float64(runtime.NumCPU()), MachineID: p.Machine,
		VolumeInGB: p.Volume.Size, VolumeMountPath: p.Volume.Path,
	}
	copyFields(&w, p)
	if !p.StartedAt.IsZero() {
		w.LastStartedAt = timestamp(p.StartedAt)
	}
	for _, open := range p.OpenPorts {
		if open.Public != 0 {
			w.PortMappings[strconv.Itoa(open.Private)], w.PublicIP = int64(open.Public), new(pod.IPOf(open))
		}
	}
	if p.GPU != nil {
		w.GPU = c.newPodGPUV1(shownType(p), p.GPU.Count)
	} else if p.CPU != nil {
		w.CPUFlavorID, w.VCPUCount = p.CPU.FlavorIDs[0], float64(p.CPU.VCPUCount)
		w.MemoryInGB = float64(c.Catalog.Now().CPUMemory(w.CPUFlavorID, p.CPU.VCPUCount))
	}
	return w
}

func (c *call) newPodGPUV1(id string, count int64) *podGPUV1 {
	known, _ := c.Catalog.Now().GPUByID(id)
	return &podGPUV1{ID: id, Count: count, DisplayName: known.Name}
}

func desiredStatus(s store.PodStatus) string {
	switch {
	case s.Active():
		return string(store.PodRunning)
	case s == store.PodTerminated:
		return string(s)
	}
	return string(store.PodExited)
}

// podIncludes are the flags of lists and reads of pods.
var podIncludes = flags{"includeMachine", "includeNetworkVolume", "includeSavingsPlans", "includeTemplate", "includeWorkers"}

// include adds the objects that a call requests with flags.
func (c *call) include(on map[string]bool, p store.Pod, w *podV1) (err error) {
	if on["includeMachine"] {
		w.Machine = &machineV1{
			CPUCount: int64(runtime.NumCPU()), CPUTypeID: w.CPUFlavorID, DataCenterID: p.DataCenterID, SecureCloud: p.Cloud == "SECURE",
			MinPodGPUCount: 1, CostPerHr: w.CostPerHr,
		}
		if w.GPU != nil {
			w.Machine.GPUTypeID, w.Machine.GPUType, w.Machine.GPUDisplayName = w.GPU.ID, w.GPU, w.GPU.DisplayName
			w.Machine.GPUAvailable = c.Stock()[w.GPU.ID].Count
		}
	}
	if on["includeNetworkVolume"] && p.NetworkVolume != "" {
		v, err := store.Get[store.NetworkVolume](c.ctx(), c.store, p.NetworkVolume)
		if err == nil {
			w.NetworkVolume = new(convert[store.NetworkVolume, podVolumeV1](v))
		} else if !errors.Is(err, store.ErrNotFound) { // otherwise it was deleted meanwhile
			return err
		}
	}
	if on["includeTemplate"] {
		w.Template, err = c.includedTemplate(p.TemplateID)
	}
	return err
}

func (c *call) getPodV1(on map[string]bool) (w podV1, err error) {
	p, err := c.store.Pod(c.ctx(), c.id)
	if errors.Is(err, store.ErrNotFound) && on["includeWorkers"] {
		workers, failed := c.workerPodsV1()
		if failed != nil {
			return w, failed
		}
		for _, w := range workers {
			if w.ID == c.id {
				return w, nil
			}
		}
	}
	if err != nil {
		return w, err
	}
	w = c.newPodV1(p)
	return w, c.include(on, p, &w)
}

func createPodV1(c *call, body podBodyV1) (store.Pod, error) {
	return c.createPod(body.build)
}

func updatePodV1(c *call, body podBodyV1) (store.Pod, error) {
	p, err := c.store.UpdatePod(c.ctx(), c.id, func(_ *store.Tx, p *store.Pod) error { return body.update(p, c.Clock.Wall()) })
	return p, conflictV1(err)
}

// conflictV1 turns a conflict of version 2 into an invalid request, as version 1 has it.
func conflictV1(err error) error {
	if refusal, ok := errors.AsType[*httpanswer.Refusal](err); ok && refusal.Status == http.StatusConflict {
		return httpanswer.Refuse(http.StatusBadRequest, "%s", refusal.Text)
	}
	return err
}

func deletePodV1(c *call) (any, error) { return nil, conflictV1(c.deletePod()) }

// podActionV1 performs an action. It is a no-op if the pod is already in the requested state. An
// unknown pod is an invalid request.
func podActionV1(a pod.Action) handler {
	return plainHandler(func(c *call) (podV1, error) {
		p, err := c.act(a, func(p store.Pod) bool {
			return a == pod.Start && p.Status.Active() || a == pod.Stop && !p.Status.Active()
		})
		if errors.Is(err, store.ErrNotFound) {
			err = store.Refusal(fmt.Sprintf("pod %q not found", c.id))
		}
		return c.newPodV1(p), conflictV1(err)
	})
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
		b.Env = mergedEnv(t.Env, b.Env)
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
