package mgmt

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// maxFilter is the maximum length of the parameters that the document of version 1 limits.
const maxFilter = 191 // characters

// podFilter is a parameter of the list. It selects the pods that have one of its values.
type podFilter struct {
	name      string
	list      bool     // accepts several values, repeated or separated by commas
	maxLength int      // maximum number of characters; 0 for no limit
	known     []string // allowed values; nil for any
	value     func(podV1, store.Pod) string
}

var podFilters = []podFilter{
	{name: "computeType", known: []string{"GPU", "CPU"}, value: func(w podV1, _ store.Pod) string {
		if w.CPUFlavorID != "" {
			return "CPU"
		}
		return "GPU"
	}},
	{name: "cpuFlavorId", list: true, value: func(w podV1, _ store.Pod) string { return w.CPUFlavorID }},
	{name: "dataCenterId", list: true, value: func(_ podV1, p store.Pod) string { return p.DataCenterID }},
	{name: "desiredStatus", known: []string{"RUNNING", "EXITED", "TERMINATED"}, value: func(w podV1, _ store.Pod) string { return w.DesiredStatus }},
	{name: "endpointId", maxLength: maxFilter, value: func(w podV1, _ store.Pod) string { return w.EndpointID }},
	{name: "gpuTypeId", list: true, value: func(w podV1, _ store.Pod) string {
		if w.GPU == nil {
			return ""
		}
		return w.GPU.ID
	}},
	{name: "id", value: func(w podV1, _ store.Pod) string { return w.ID }},
	{name: "imageName", value: func(w podV1, _ store.Pod) string { return w.Image }},
	{name: "name", maxLength: maxFilter, value: func(w podV1, _ store.Pod) string { return w.Name }},
	{name: "networkVolumeId", value: func(_ podV1, p store.Pod) string { return p.NetworkVolume }},
	{name: "templateId", value: func(w podV1, _ store.Pod) string { return w.TemplateID }},
}

// parameter describes the filter in the OpenAPI document.
func (f podFilter) parameter() openapi.Parameter {
	schema := &openapi.Schema{Type: "string", Enum: anyList(f.known)}
	if f.maxLength > 0 {
		schema.MaxLength = new(int64(f.maxLength))
	}
	if f.list {
		schema = &openapi.Schema{Type: "array", Items: schema}
	}
	return openapi.Parameter{Name: f.name, In: "query", Schema: schema}
}

// podsQueryV1 has the flags and the filter of a list.
type podsQueryV1 struct {
	on      map[string]bool
	matches func(podV1, store.Pod) bool
}

func readPodsQueryV1(q *query) podsQueryV1 {
	return podsQueryV1{podIncludes.read(q), readPodMatcher(q)}
}

// listPodsV1 shows pods, and with includeWorkers the workers of endpoints.
func (c *call) listPodsV1(q podsQueryV1) ([]podV1, error) {
	all, err := c.store.Pods(c.ctx())
	if err != nil {
		return nil, err
	}
	out := []podV1{}
	for _, p := range all {
		w := c.newPodV1(p)
		if p.Cluster != nil || !q.matches(w, p) {
			continue
		}
		if err := c.include(q.on, p, &w); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	if q.on["includeWorkers"] {
		workers, err := c.workerPodsV1()
		if err != nil {
			return nil, err
		}
		for _, w := range workers {
			if q.matches(w, store.Pod{}) {
				out = append(out, w)
			}
		}
	}
	return out, nil
}

// readPodMatcher reads the filters of a call.
func readPodMatcher(q *query) func(podV1, store.Pod) bool {
	allowed := map[string][]string{}
	for _, f := range podFilters {
		q.declare(f.parameter())
		values := slices.DeleteFunc(slices.Clone(q.values[f.name]), func(v string) bool { return v == "" })
		if f.list {
			values = strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' })
		} else if len(values) > 1 {
			values = values[:1]
		}
		for _, value := range values {
			q.refuseIf(f.known != nil && !slices.Contains(f.known, value),
				"invalid parameter %s: expected one of %s, got %q", f.name, strings.Join(f.known, ", "), truncate(value))
			q.refuseIf(f.maxLength > 0 && utf8.RuneCountInString(value) > f.maxLength,
				"invalid parameter %s: expected at most %d characters, got %d", f.name, f.maxLength, utf8.RuneCountInString(value))
		}
		if len(values) > 0 {
			allowed[f.name] = values
		}
	}
	return func(w podV1, p store.Pod) bool {
		for _, f := range podFilters {
			if values, ok := allowed[f.name]; ok && !slices.Contains(values, f.value(w, p)) {
				return false
			}
		}
		return true
	}
}

// workerPodsV1 returns the workers of all endpoints in the form of pods.
func (c *call) workerPodsV1() ([]podV1, error) {
	endpoints, err := c.store.Endpoints(c.ctx())
	if err != nil {
		return nil, err
	}
	var out []podV1
	for _, e := range endpoints {
		for _, w := range c.Workers.Workers(e.ID) {
			out = append(out, c.newWorkerPodV1(e, w))
		}
	}
	return out, nil
}

func (c *call) newWorkerPodV1(e store.Endpoint, w worker.Info) podV1 {
	p := store.Pod{
		Head: store.Head{ID: w.ID, Name: e.Name}, Container: e.Container, TemplateID: e.TemplateID, Owner: "", Cloud: "SECURE",
		PodState: store.PodState{Status: store.PodRunning, StartedAt: w.StartedAt, Changed: "Worker " + string(w.State), ChangedAt: c.Clock.Wall().Truncate(time.Millisecond), Machine: c.Machine},
	}
	p.Image = w.Image
	if len(w.Devices) > 0 {
		p.GPU, p.GPUTypeID = &store.PodGPU{Count: int64(len(w.Devices))}, w.Devices[0].TypeID
	} else if len(e.CPU) > 0 {
		p.CPU = &store.PodCPU{FlavorIDs: []string{e.CPU[0].FlavorID}, VCPUCount: e.CPU[0].VCPUCount}
	}
	out := c.newPodV1(p)
	out.EndpointID, out.AIAPIID, out.SLSVersion = e.ID, e.ID, w.Version
	return out
}
