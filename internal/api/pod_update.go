package api

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// pods returns the part of the collection that both versions share.
func pods(d *deployment, cache *listCache) *Collection[Pod] {
	return &Collection[Pod]{
		deployment: d, cache: cache, kind: "pod",
		untrusted:         func(p *Pod) []*string { return []*string{p.Reason} },
		fixedMembersEqual: podFixedMembersEqual,
		normalize:         normalizePods,
	}
}

func podsV1(d *deployment, cache *listCache) *Pods {
	r := pods(d, cache)
	r.path = "/v1/pods"
	// Without these parameters, answers lack the cloud, the data center and the network volume.
	r.query = url.Values{"includeMachine": {"true"}, "includeNetworkVolume": {"true"}}
	r.required = []string{"name", "image", "containerDiskInGb", "dockerStartCmd", "env", "ports", "volumeInGb", "volumeMountPath", "desiredStatus"}
	r.decode = decodeAs(podV1.neutral)
	r.create = func(want Pod) (any, error) {
		w, err := newPodV1(want)
		w.addFixedMembers(want)
		return w, err
	}
	r.update = func(have, want Pod) (patch, error) {
		want.Container = want.Container.withPortsOf(have.Container)
		p, after, err := changedV1("pod", newPodV1, have.comparableMembers(), want.updatableMembers())
		if err != nil {
			return nil, err
		}
		return p, completeGroups(p, after, [][]string{{"volumeInGb", "volumeMountPath"}})
	}
	return &Pods{r, func(action PodAction) (string, any) { return "/" + string(action), nil }}
}

func podsV2(d *deployment, cache *listCache) *Pods {
	r := pods(d, cache)
	r.path, r.member = "/v2/pods", "pods"
	r.required = []string{"name", "image", "args", "disk", "env", "ports", "mounts", "cloud", "locked", "status"}
	r.decode = decodeAs(podV2.neutral)
	r.create = func(want Pod) (any, error) { return createPodV2(want) }
	r.update = func(have, want Pod) (patch, error) {
		want.Container = want.Container.withPortsOf(have.Container)
		changes, err := changedMembers(clearingValues(contract.V2, "pod"), new(have.comparableMembers()), want.updatableMembers())
		if err != nil {
			return nil, err
		}
		settings, err := changedContainer(have.Container, want.Container)
		maps.Copy(changes, settings)
		return changes, err
	}
	return &Pods{r, func(action PodAction) (string, any) {
		return "/action", map[string]PodAction{"action": action}
	}}
}

func podFixedMembersEqual(got, want Pod) bool {
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
	case want.TemplateID != nil && want.Mounts.Kind() == "": // the template sets the mounts
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

// normalizePods removes environment variables that the server may add for a template, SSH
// and Jupyter.
func normalizePods(got, want Pod) (Pod, Pod) {
	want.GlobalNetworking, want.Locked = nil, nil
	if got.Container == nil || want.Container == nil {
		return got, want
	}
	container := *got.Container
	if want.Container.Env != nil {
		container.Env = map[string]string{}
		for name, value := range got.Container.Env {
			if _, requested := want.Container.Env[name]; requested || want.TemplateID == nil && !IsAccessVariable(name) {
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

// Pods is the collection of pods with their actions.
type Pods struct {
	*Collection[Pod]
	act func(action PodAction) (path string, body any) // path is relative to the pod
}

type PodAction string

// The actions of both versions.
const (
	StartPod   PodAction = "start"
	StopPod    PodAction = "stop"
	RestartPod PodAction = "restart"
)

// The statuses that callers distinguish.
const (
	PodRunning    = "RUNNING"
	PodExited     = "EXITED"
	PodError      = "ERROR"
	PodTerminated = "TERMINATED"
)

// Active reports whether a pod runs or is starting, that is, hasn't ended.
func (s PodState) Active() bool { return s.Status != PodExited && s.Status != PodError }

// Act sends an action once.
func (p *Pods) Act(ctx context.Context, id string, action PodAction) error {
	c, err := p.callByID(http.MethodPost, id)
	if err != nil {
		return err
	}
	path, body := p.act(action)
	c.URL, c.Body = c.URL+path, body
	defer p.cache.beginWrite()()
	response, err := p.Do(ctx, c, nil)
	if err != nil {
		return err
	}
	return p.checkSubject(id, response)
}

// SetActive starts or stops a pod, unless it is already in that state, and returns its new state.
// If the action fails, it reads the pod: the answer may be lost, the API may not know a new
// pod yet, or the status may have changed meanwhile.
func (p *Pods) SetActive(ctx context.Context, id string, active bool) (Pod, error) {
	action := StopPod
	if active {
		action = StartPod
	}
	var failure error
	for try := 1; ; try++ {
		got, err := p.GetFresh(ctx, id)
		if err != nil || got.Active() == active {
			return got, err
		}
		if failure != nil && try > httpclient.MaxTries {
			return got, failure
		}
		failure = p.Act(ctx, id, action)
		if failure == nil {
			return p.GetFresh(ctx, id)
		}
		if status := statusOf(failure); status >= 400 && status < 500 && status != http.StatusNotFound && status != http.StatusConflict {
			return got, failure
		}
		if wait, ok := httpclient.Backoff(try, failure); !ok || httpclient.Sleep(ctx, wait) != nil {
			return got, failure
		}
	}
}
