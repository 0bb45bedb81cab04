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
	if out.Clusters, err = store.List[store.Cluster](ctx, v.Store); err != nil {
		return out, err
	}
	for i := range out.Clusters {
		out.Clusters[i].Owner = "" // a key with few rights learns nothing about other owners
	}
	out.Volumes, err = store.List[store.NetworkVolume](ctx, v.Store)
	return out, err
}

func (v *View) pagePod(p store.Pod) page.Pod {
	out := page.Pod{
		Head: p.Head, Image: p.Image, Status: p.Status, Reason: v.PodReason(p), Actions: pod.Actions(p), GPU: p.GPU, CPU: p.CPU, GPUTypeID: p.GPUTypeID,
		Locked: p.Locked, Cluster: p.Cluster,
	}
	if p.Status == store.PodRunning {
		out.Started = page.Milliseconds(p.StartedAt)
	}
	if p.Status.Active() {
		out.Cost = v.PodPrice(p)
	}
	return out
}

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
		changed := map[string]string{}
		maps.Copy(changed, oldEnv)
		maps.Copy(changed, newEnv)
		maps.DeleteFunc(changed, func(variable, _ string) bool { return oldEnv[variable] == newEnv[variable] })
		return "env: " + strings.Join(slices.Sorted(maps.Keys(changed)), ", ")
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
