package api

import (
	"maps"
	"net/url"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// pods returns the part of the collection that both versions share.
func pods(d *deployment, cache *listCache) *restCollection[Pod] {
	return &restCollection[Pod]{
		deployment: d, cache: cache, kind: "pod",
		id:        func(p Pod) string { return p.ID },
		name:      func(p Pod) string { return p.Name },
		absent:    func(p Pod) bool { return p.Status == PodTerminated },
		foreign:   func(p *Pod) []*string { return []*string{p.Reason} },
		sameFixed: sameFixedOfPod,
		normalize: normalizePods,
	}
}

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
		want.Container = want.Container.withPortsOf(have.Container)
		p, after, err := changedV1("pod", newPodV1, have.shown(), want.mutable())
		if err != nil {
			return nil, err
		}
		return p, completeGroups(p, after, [][]string{{"volumeInGb", "volumeMountPath"}})
	}
	return &Pods{r, r, func(action PodAction) (string, any) { return "/" + string(action), nil }}
}

func podsV2(d *deployment, cache *listCache) *Pods {
	r := pods(d, cache)
	r.path, r.member = "/v2/pods", "pods"
	r.required = []string{"name", "image", "args", "disk", "env", "ports", "mounts", "cloud", "locked", "status"}
	r.decode = decodeAs(podV2.neutral)
	r.create = func(want Pod) (any, error) { return createPodV2(want) }
	r.update = func(have, want Pod) (patch, error) {
		want.Container = want.Container.withPortsOf(have.Container)
		changes, err := changedMembers(clearingValues(contract.V2, "pod"), new(have.shown()), want.mutable())
		if err != nil {
			return nil, err
		}
		settings, err := changedContainer(have.Container, want.Container)
		maps.Copy(changes, settings)
		return changes, err
	}
	return &Pods{r, r, func(action PodAction) (string, any) {
		return "/action", map[string]PodAction{"action": action}
	}}
}

func sameFixedOfPod(got, want Pod) bool {
	switch {
	case want.GPU != nil && (got.GPU == nil || got.GPU.ID != want.GPU.ID || want.GPU.Count != 0 && got.GPU.Count != want.GPU.Count):
		return false
	case want.CPU != nil && (got.CPU == nil || got.CPU.ID != want.CPU.ID || got.CPU.VCPUCount != want.CPU.VCPUCount):
		return false
	case got.Cloud != "" && want.Cloud != "" && got.Cloud != want.Cloud:
		return false
	case deref(got.DataCenterID) != "" && len(want.DataCenterIDs) > 0 && !slices.Contains(want.DataCenterIDs, *got.DataCenterID):
		return false
	case deref(got.TemplateID) != "" && *got.TemplateID != deref(want.TemplateID):
		return false
	case want.TemplateID != nil && want.Mounts.Kind() == "": // the template sets them
		return true
	}
	return got.Mounts.Kind() == want.Mounts.Kind()
}

// Kind returns the kind of a pod's storage: "", "persistent" or its network volume.
func (m PodMounts) Kind() string {
	switch {
	case len(m.Network) > 0:
		return "network " + m.Network[0].VolumeID
	case m.Persistent != nil:
		return "persistent"
	}
	return ""
}

// normalizePods removes environment variables that the server may add: those of a template, of
// SSH and of Jupyter.
func normalizePods(got, want Pod) (Pod, Pod) {
	want.GlobalNetworking, want.Locked = nil, nil
	if got.Container == nil || want.Container == nil {
		return got, want
	}
	container := *got.Container
	if want.Container.Env != nil {
		container.Env = map[string]string{}
		for name, value := range got.Container.Env {
			if _, asked := want.Container.Env[name]; asked || want.TemplateID == nil && !IsAccessVariable(name) {
				container.Env[name] = value
			}
		}
	}
	got.Container = &container
	return got, want
}

// IsAccessVariable reports whether a deployment may set this variable in pods on its own.
func IsAccessVariable(name string) bool { return slices.Contains(AccessVariables, name) }

// AccessVariables are the variables that a deployment may set in pods on its own, for SSH or Jupyter.
var AccessVariables = []string{"JUPYTER_PASSWORD", "PUBLIC_KEY"}
