package mgmt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// clusterBodyV2 is the body of a create, or of an update, which only renames. A private registry comes
// only from a template.
type clusterBodyV2 struct {
	Name         *string           `json:"name"`
	Type         *string           `json:"type"`
	Compute      *clusterComputeV2 `json:"compute"`
	FromTemplate *string           `json:"templateId"`
	Image        *string           `json:"image"`
	commandBodyV2
	Disk          *int64             `json:"disk"`
	Env           *map[string]string `json:"env"`
	Ports         *[]string          `json:"ports"`
	Mounts        *podMountsV2       `json:"mounts"`
	DataCenterIDs *[]string          `json:"dataCenterIds"`
	StartJupyter  *bool              `json:"startJupyter"`
	StartSSH      *bool              `json:"startSsh"`
}

// clusterComputeV2 is used in bodies and answers.
type clusterComputeV2 struct {
	GPUTypeID      string `json:"gpuTypeId"`
	GPUCountPerPod int64  `json:"gpuCountPerPod"`
	PodCount       int64  `json:"podCount"`
}

func (b *clusterBodyV2) check(u contract.Use) []string { return requireChange(u, b) }

// templateExcludes are the settings that a cluster with a template takes only from the template.
var templateExcludes = []string{"image", "args", "entrypoint", "cmd", "disk", "env", "ports", "mounts"}

// template returns the template that the body names, or nil. Next to templateId, the body must have no
// settings of its own.
func (b clusterBodyV2) template(tx *store.Tx, sent map[string]any) (*store.Template, error) {
	if b.FromTemplate == nil {
		return nil, nil
	}
	for _, name := range templateExcludes {
		if _, own := sent[name]; own {
			return nil, store.Refusal("templateId and " + name + " exclude each other: the settings of a cluster's pods come either all from its template or all from the body")
		}
	}
	return podTemplate(tx, b.FromTemplate)
}

// build returns a new cluster and its members, by rank.
func (b clusterBodyV2) build(tx *store.Tx, sent map[string]any, sshKeys string) (store.Cluster, []store.Pod, error) {
	cluster := store.Cluster{Head: store.Head{Name: *b.Name}, Type: *b.Type, Compute: store.ClusterCompute(*b.Compute)}
	t, err := b.template(tx, sent)
	switch {
	case err != nil:
		return cluster, nil, err
	case t == nil && b.Image == nil:
		return cluster, nil, store.Refusal("a cluster needs the image of its pods: expected image or templateId")
	}
	common := podDefaultsV2()
	copyFields(&common, b)
	if err := b.setCommand(&common.Container); err != nil {
		return cluster, nil, err
	}
	common.GPU = &store.PodGPU{TypeIDs: []string{b.Compute.GPUTypeID}, Count: b.Compute.GPUCountPerPod}
	if err := b.Mounts.applyTo(&common); err != nil {
		return cluster, nil, err
	}
	ssh, jupyter := false, false
	if t != nil {
		cluster.Template = t.ID
		common.UseTemplate(*t)
		common.Volume, common.GPU.AllowedCUDAVersions = t.Volume, t.AllowedCUDAVersions
		ssh, jupyter = t.StartSSH, t.StartJupyter
	}
	setIfPresent(&ssh, b.StartSSH)
	setIfPresent(&jupyter, b.StartJupyter)
	injectAccess(&common, ssh, jupyter, sshKeys)
	members := make([]store.Pod, b.Compute.PodCount)
	for rank := range members {
		p := common
		p.Name = fmt.Sprintf("%s-%d", cluster.Name, rank)
		p.Env, p.Ports, p.DataCenterIDs = maps.Clone(p.Env), slices.Clone(p.Ports), slices.Clone(p.DataCenterIDs)
		p.Cluster = &store.ClusterMember{Rank: new(int64(rank)), Role: pod.ClusterRole(cluster.Type, rank), Size: b.Compute.PodCount}
		members[rank] = p
	}
	return cluster, members, nil
}
