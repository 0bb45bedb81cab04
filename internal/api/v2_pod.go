package api

import (
	"encoding/json"
	"maps"
)

func podsV2(d *deployment, cache *listCache) *Pods {
	r := pods(d, cache)
	r.path, r.member = "/v2/pods", "pods"
	r.required = []string{"name", "image", "args", "disk", "env", "ports", "mounts", "cloud", "locked", "status"}
	r.decode = decodeAs(podV2.neutral)
	r.create = func(want Pod) (any, error) { return createPodV2(want) }
	r.update = func(have, want Pod) (patch, error) {
		want = alignedPod(have, want)
		have.Container, want.Container = withChangedCommand(have.Container, want.Container)
		before, err := podBodyV2(have.shown())
		if err != nil {
			return nil, err
		}
		after, err := podBodyV2(want.mutable())
		if err != nil {
			return nil, err
		}
		return after.without(before), nil
	}
	return &Pods{r, r, func(action PodAction) (string, any) {
		return "/action", map[string]PodAction{"action": action}
	}}
}

func createPodV2(want Pod) (patch, error) {
	want.ID, want.Locked, want.PodState = "", nil, PodState{} // a create can't set Locked
	if want.CPU != nil {
		want.CPU = &PodCPU{ID: want.CPU.ID, VCPUCount: want.CPU.VCPUCount}
	}
	if want.GPU != nil {
		gpu := *want.GPU
		gpu.VCPUCount, gpu.Memory = 0, 0
		want.GPU = &gpu
	}
	return podBodyV2(want)
}

// CreateSize returns the size of the request that creates a pod on v2, and its largest member
// with its size.
func (p Pod) CreateSize() (size int, largest string, most int) {
	body, err := createPodV2(p)
	if err != nil {
		return 0, "", 0
	}
	for name, value := range body {
		if len(value) > most {
			largest, most = name, len(value)
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return 0, "", 0
	}
	return len(text), largest, most
}

// podV2 inlines the container's members.
type podV2 struct {
	Pod
	Container
}

// shown returns the updatable members whose answers are reliable. For global networking an
// answer has the current state, not the requested one.
func (p Pod) shown() Pod {
	p.GlobalNetworking = nil
	return p.mutable()
}

// mutable returns the updatable members.
func (p Pod) mutable() Pod {
	return Pod{
		Name: p.Name, Container: p.Container, Mounts: p.Mounts,
		GlobalNetworking: p.GlobalNetworking, Locked: p.Locked,
	}
}

func podBodyV2(p Pod) (patch, error) {
	body, err := members(p)
	if err != nil {
		return nil, err
	}
	settings, err := containerV2(p.Container)
	maps.Copy(body, settings)
	return body, err
}

func (w podV2) neutral() Pod {
	p := w.Pod
	p.Container = completed(w.Container)
	return p
}
