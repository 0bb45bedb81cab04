package view

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func (v *View) Objects(ctx context.Context) (out page.Objects, err error) {
	pods, err := v.Store.Pods(ctx)
	if err != nil {
		return out, err
	}
	for _, p := range pods {
		out.Pods = append(out.Pods, v.pagePod(p))
	}
	clusters, err := store.List[store.Cluster](ctx, v.Store)
	if err != nil {
		return out, err
	}
	for _, c := range clusters {
		cluster := page.Cluster{ID: c.ID, Name: c.Name, Type: c.Type, Compute: gpusOf(c.Compute.GPUCountPerPod, c.Compute.GPUTypeID), Created: c.Created}
		if c.Network != nil {
			cluster.Network = c.Network.CIDR
		}
		out.Clusters = append(out.Clusters, cluster)
	}
	out.Volumes, err = store.List[store.NetworkVolume](ctx, v.Store)
	return out, err
}

func (v *View) pagePod(p store.Pod) page.Pod {
	out := page.Pod{ID: p.ID, Name: p.Name, Image: p.Image, Status: string(p.Status), Reason: v.PodReason(p), Actions: []string{}, Compute: computeOf(p), Locked: p.Locked, Created: p.Created}
	possible := pod.Actions(p)
	for _, a := range page.PodActions {
		if slices.Contains(possible, pod.Action(a)) {
			out.Actions = append(out.Actions, a)
		}
	}
	if p.Status == store.PodRunning {
		out.Started = page.Milliseconds(p.StartedAt)
	}
	if p.Status.Active() {
		out.Cost = v.PodPrice(p)
	}
	if c := p.Cluster; c != nil {
		out.Member = page.Member{Cluster: c.ID, Rank: c.Rank, Role: c.Role, IP: c.IP}
	}
	return out
}

// computeOf describes the compute that a pod has or requests.
func computeOf(p store.Pod) string {
	switch {
	case p.GPU != nil && p.GPUTypeID != "":
		return gpusOf(p.GPU.Count, p.GPUTypeID)
	case p.GPU != nil && len(p.GPU.TypeIDs) > 0:
		return gpusOf(p.GPU.Count, strings.Join(p.GPU.TypeIDs, " or "))
	case p.GPU != nil:
		return gpusOf(p.GPU.Count, "GPU of any type")
	case p.CPU != nil:
		return fmt.Sprintf("%d vCPU %s", p.CPU.VCPUCount, strings.Join(p.CPU.FlavorIDs, " or "))
	}
	return ""
}

func gpusOf(count int64, kind string) string { return fmt.Sprintf("%d × %s", count, kind) }

func (v *View) PodLog(id string) ([]run.Line, bool) { return linesOf(v.Pods.Log(id)) }

func (v *View) Releases(ctx context.Context, endpoint string) ([]page.Release, error) {
	releases, err := v.Store.Releases(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	out := make([]page.Release, len(releases))
	for i, r := range releases {
		out[i] = page.Release{Version: r.Version, Created: page.Milliseconds(r.Created), Changes: []string{}}
		for _, c := range r.Changes {
			out[i].Changes = append(out[i].Changes, describeChange(c))
		}
	}
	return out, nil
}

// maxShownValue is the maximum length of a changed value of a release, in bytes.
const maxShownValue = 200

// describeChange describes a change for people. For variables it shows only the names, because their
// values may be secrets.
func describeChange(c store.Change) string {
	name := strings.TrimPrefix(c.Field, "template.")
	var oldEnv, newEnv map[string]string
	if name == "env" && json.Unmarshal(c.Old, &oldEnv) == nil && json.Unmarshal(c.New, &newEnv) == nil {
		all := map[string]string{}
		maps.Copy(all, oldEnv)
		maps.Copy(all, newEnv)
		var changed []string
		for _, variable := range slices.Sorted(maps.Keys(all)) {
			if oldEnv[variable] != newEnv[variable] {
				changed = append(changed, variable)
			}
		}
		return "env: " + strings.Join(changed, ", ")
	}
	return fmt.Sprintf("%s: %s → %s", name, logline.Shorten(plain(c.Old), maxShownValue), logline.Shorten(plain(c.New), maxShownValue))
}

// plain formats a value for people: as JSON, except for text and absent values.
func plain(value json.RawMessage) string {
	var text string
	switch err := json.Unmarshal(value, &text); {
	case string(value) == "null", err == nil && text == "":
		return "none"
	case err == nil:
		return text
	}
	return string(value)
}
