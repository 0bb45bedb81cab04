package mgmt

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

func (c *call) newPodV1(p store.Pod) podV1 {
	price, cat := c.PodPrice(p), c.Catalog.Current()
	command, _ := p.Command() // args that can't be split are one word
	w := podV1{
		DockerEntrypoint: nonNilList(command.Entrypoint), DockerStartCmd: nonNilList(command.Cmd),
		PortMappings: map[string]int64{}, DesiredStatus: string(store.PodExited),
		LastStatusChange: p.Changed + ": " + p.ChangedAt.UTC().Format("Mon Jan 02 2006 15:04:05 GMT-0700 (MST)"),
		CostPerHr:        price, AdjustedCostPerHr: price, SavingsPlans: []string{}, VCPUCount: float64(runtime.NumCPU()), MachineID: p.FolderID,
		VolumeInGB: p.Volume.Size, VolumeMountPath: p.Volume.Path,
	}
	copyFields(&w, p)
	if p.Status.Active() {
		w.DesiredStatus = string(store.PodRunning)
	}
	if !p.StartedAt.IsZero() {
		w.LastStartedAt = timestamp(p.StartedAt)
	}
	for _, port := range p.OpenPorts {
		if port.Public != 0 {
			w.PortMappings[strconv.Itoa(port.Private)], w.PublicIP = int64(port.Public), new(pod.IPOf(port))
		}
	}
	if p.GPU != nil {
		gpuType, _ := cat.GPUByID(p.GPUType())
		prices := cat.OfferOf(p.GPUType()).Price.Pod
		w.GPU = &podGPUV1{p.GPUType(), p.GPU.Count, gpuType.Name, float64(prices[catalog.Secure]) / 1e9, float64(prices[catalog.Community]) / 1e9}
	} else if p.CPU != nil {
		w.CPUFlavorID, w.VCPUCount = p.CPU.FlavorIDs[0], float64(p.CPU.VCPUCount)
		w.MemoryInGB = float64(cat.CPUMemory(w.CPUFlavorID, p.CPU.VCPUCount))
	}
	return w
}

var podIncludes = flagNames{"includeMachine", "includeNetworkVolume", "includeSavingsPlans", "includeTemplate", "includeWorkers"}

// addIncluded adds the objects that a call requests with flags.
func (c *call) addIncluded(flags map[string]bool, p store.Pod, w *podV1) (err error) {
	if flags["includeMachine"] {
		w.Machine = &machineV1{
			CPUCount: int64(runtime.NumCPU()), CPUTypeID: w.CPUFlavorID, DataCenterID: p.DataCenterID, SecureCloud: p.Cloud == "SECURE",
			MinPodGPUCount: 1, CostPerHr: w.CostPerHr,
		}
		if w.GPU != nil {
			w.Machine.GPUTypeID, w.Machine.GPUType, w.Machine.GPUDisplayName = w.GPU.ID, w.GPU, w.GPU.DisplayName
			w.Machine.GPUAvailable = c.Stock()[w.GPU.ID].Count
		}
	}
	if flags["includeNetworkVolume"] && p.NetworkVolume != "" {
		v, err := store.Get[store.NetworkVolume](c.ctx(), c.Store, p.NetworkVolume)
		if err == nil {
			w.NetworkVolume = new(convert[store.NetworkVolume, networkVolumeV1](v))
		} else if !errors.Is(err, store.ErrNotFound) { // a volume that isn't found was deleted meanwhile
			return err
		}
	}
	if flags["includeTemplate"] {
		w.Template, err = c.includedTemplate(p.TemplateID)
	}
	return err
}

func (c *call) getPodV1(flags map[string]bool) (w podV1, err error) {
	p, err := c.Store.Pod(c.ctx(), c.id)
	if errors.Is(err, store.ErrNotFound) && flags["includeWorkers"] {
		workers, err := c.workerPodsV1()
		if err != nil {
			return w, err
		}
		if i := slices.IndexFunc(workers, func(w podV1) bool { return w.ID == c.id }); i >= 0 {
			return workers[i], nil
		}
	}
	if err != nil {
		return w, err
	}
	w = c.newPodV1(p)
	return w, c.addIncluded(flags, p, &w)
}

// podActionHandlerV1 performs an action, unless the pod is in the requested state. An unknown pod is an invalid request.
func podActionHandlerV1(a pod.Action) handler {
	return plainHandler(func(c *call) (podV1, error) {
		p, err := c.performAction(a, func(p store.Pod) bool {
			return a == pod.Start && p.Status.Active() || a == pod.Stop && !p.Status.Active()
		})
		if errors.Is(err, store.ErrNotFound) {
			err = store.Refusal(fmt.Sprintf("pod %q not found", c.id))
		}
		return c.newPodV1(p), err
	})
}

func (b podBodyV1) build(_ *call, tx *store.Tx) (store.Pod, error) {
	defaults := defaultsOf[podBodyV1]()
	p := store.Pod{Cloud: *defaults.Cloud}
	_ = defaults.update(nil, &p) // never fails
	var cudaVersions []string
	if b.TemplateID.Value != "" {
		t, err := readTemplateV1(tx, b.TemplateID.Value)
		if err == nil && t.Serverless {
			err = store.Refusal(fmt.Sprintf("template %q is a serverless template: a pod needs a template for pods", t.ID))
		}
		if err != nil {
			return p, err
		}
		p.UseTemplate(t)
		p.TemplateID, p.Volume, cudaVersions = t.ID, t.Volume, t.AllowedCUDAVersions
		b.Env = mergedEnv(t.Env, b.Env)
	}
	if b.onCPU() {
		b.applyCPU(tx.Catalog(), &p)
	} else {
		b.applyGPU(&p, cudaVersions)
	}
	if err := cmp.Or(b.update(tx, &p), b.applyDataCenters(tx.Catalog(), &p)); err != nil {
		return p, err
	}
	if b.NetworkVolumeID.Value != "" { // it replaces the pod's own volume
		p.NetworkVolume, p.Volume.Size = b.NetworkVolumeID.Value, 0
	}
	return p, nil
}

// applyCPU ignores the GPU members, as the document of version 1 says. A pod that names no flavor may get
// any. A CPU pod has no volume of its own.
func (b podBodyV1) applyCPU(cat *catalog.Catalog, p *store.Pod) {
	p.CPU = &store.PodCPU{VCPUCount: defaultVCPUCount}
	b.setCPUs(cat, &p.CPU.VCPUCount, &p.CPU.FlavorIDs)
	p.Volume.Size = 0
}

// applyGPU ignores the CPU members. If the pod names no type, it may get any.
func (b podBodyV1) applyGPU(p *store.Pod, cudaVersions []string) {
	p.GPU = &store.PodGPU{Count: defaultGPUCount, AllowedCUDAVersions: cudaVersions}
	setIfPresent(&p.GPU.TypeIDs, b.GPUTypeIDs)
	setIfPresent(&p.GPU.Count, b.GPUCount)
	setIfPresent(&p.GPU.AllowedCUDAVersions, b.AllowedCUDAVersions)
}

// applyDataCenters limits the data centers to countries. A list of all data centers means any.
func (b podBodyV1) applyDataCenters(cat *catalog.Catalog, p *store.Pod) error {
	if b.CountryCodes != nil && len(*b.CountryCodes) > 0 {
		ids := p.DataCenterIDs
		if len(ids) == 0 {
			ids = allDataCenters(cat)
		}
		p.DataCenterIDs = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			d, known := cat.DataCenterByID(id)
			return !known || !slices.Contains(*b.CountryCodes, d.Country)
		})
		if len(p.DataCenterIDs) == 0 {
			return store.Refusal("no data center that the pod may be in is in " + strings.Join(convertAll(*b.CountryCodes, truncate), ", "))
		}
	}
	if sameElements(p.DataCenterIDs, allDataCenters(cat)) {
		p.DataCenterIDs = nil
	}
	return nil
}

// update applies the members that creates and updates share.
func (b podBodyV1) update(_ *store.Tx, p *store.Pod) error { //nolint:unparam // a method of podBody
	copyFields(p, b)
	b.applyTo(&p.Container, &p.Volume)
	return nil
}

// shortText is the form of the parameters whose length the document of version 1 limits.
var shortText = form{"at most 191 characters", &openapi.Schema{Type: "string", MaxLength: new(int64(191))}, func(s string) bool { return utf8.RuneCountInString(s) <= 191 }}

// podFilters are the parameters of the list. Each selects the pods that have one of its values.
var podFilters = []struct {
	name  string
	form  form // of one value; without it, several values are accepted, repeated or separated by commas
	value func(podV1, store.Pod) string
}{
	{name: "computeType", form: oneOf("GPU", "CPU"), value: func(w podV1, _ store.Pod) string {
		if w.CPUFlavorID != "" {
			return "CPU"
		}
		return "GPU"
	}},
	{name: "cpuFlavorId", value: func(w podV1, _ store.Pod) string { return w.CPUFlavorID }},
	{name: "dataCenterId", value: func(_ podV1, p store.Pod) string { return p.DataCenterID }},
	{name: "desiredStatus", form: oneOf("RUNNING", "EXITED", "TERMINATED"), value: func(w podV1, _ store.Pod) string { return w.DesiredStatus }},
	{name: "endpointId", form: shortText, value: func(w podV1, _ store.Pod) string { return w.EndpointID }},
	{name: "gpuTypeId", value: func(w podV1, _ store.Pod) string {
		if w.GPU == nil {
			return ""
		}
		return w.GPU.ID
	}},
	{name: "id", form: anyText, value: func(w podV1, _ store.Pod) string { return w.ID }},
	{name: "imageName", form: anyText, value: func(w podV1, _ store.Pod) string { return w.Image }},
	{name: "name", form: shortText, value: func(w podV1, _ store.Pod) string { return w.Name }},
	{name: "networkVolumeId", form: anyText, value: func(_ podV1, p store.Pod) string { return p.NetworkVolume }},
	{name: "templateId", form: anyText, value: func(w podV1, _ store.Pod) string { return w.TemplateID }},
}

type podsQueryV1 struct {
	flags   map[string]bool
	matches func(podV1, store.Pod) bool
}

func readPodsQueryV1(q *query) podsQueryV1 {
	return podsQueryV1{podIncludes.read(q), readPodMatcher(q)}
}

// listPodsV1 shows pods, and with includeWorkers the workers of endpoints.
func (c *call) listPodsV1(q podsQueryV1) ([]podV1, error) {
	pods, err := c.Store.Pods(c.ctx())
	if err != nil {
		return nil, err
	}
	out := []podV1{}
	for _, p := range pods {
		w := c.newPodV1(p)
		if p.Cluster != nil || !q.matches(w, p) {
			continue
		}
		if err := c.addIncluded(q.flags, p, &w); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	if !q.flags["includeWorkers"] {
		return out, nil
	}
	workers, err := c.workerPodsV1()
	return append(out, slices.DeleteFunc(workers, func(w podV1) bool { return !q.matches(w, store.Pod{}) })...), err
}

func readPodMatcher(q *query) func(podV1, store.Pod) bool {
	allowed := map[string][]string{}
	for _, f := range podFilters {
		if f.form.valid == nil {
			allowed[f.name] = q.listParameter(f.name)
		} else if value := q.value(f.name, f.form); value != "" {
			allowed[f.name] = []string{value}
		}
	}
	return func(w podV1, p store.Pod) bool {
		for _, f := range podFilters {
			if values := allowed[f.name]; len(values) > 0 && !slices.Contains(values, f.value(w, p)) {
				return false
			}
		}
		return true
	}
}

func (c *call) workerPodsV1() ([]podV1, error) {
	endpoints, err := c.Store.Endpoints(c.ctx())
	if err != nil {
		return nil, err
	}
	var out []podV1
	for _, e := range endpoints {
		for _, info := range c.Workers.Workers(e.ID) {
			out = append(out, c.newWorkerPodV1(e, info))
		}
	}
	lists, err := c.AskOtherNodes(c.http)
	for _, list := range lists {
		var pods []podV1
		if err := json.Unmarshal(list, &pods); err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(pods, func(w podV1) bool { return w.EndpointID == "" })...)
	}
	return out, err
}

func (c *call) newWorkerPodV1(e store.Endpoint, info worker.Info) podV1 {
	p := store.Pod{
		Head: store.Head{ID: info.ID, Name: e.Name}, Container: e.Container, TemplateID: e.TemplateID, Cloud: "SECURE",
		PodState: store.PodState{Status: store.PodRunning, StartedAt: info.StartedAt, Changed: "Worker " + string(info.State), ChangedAt: c.Clock.Wall().Truncate(time.Millisecond), FolderID: c.FolderID},
	}
	p.Image = info.Image
	if len(info.Devices) > 0 {
		p.GPU, p.GPUTypeID = &store.PodGPU{Count: int64(len(info.Devices))}, info.Devices[0].TypeID
	} else if len(e.CPU) > 0 {
		p.CPU = &store.PodCPU{FlavorIDs: []string{e.CPU[0].FlavorID}, VCPUCount: e.CPU[0].VCPUCount}
	}
	w := c.newPodV1(p)
	w.EndpointID, w.AIAPIID, w.SLSVersion = e.ID, e.ID, info.Version
	return w
}
