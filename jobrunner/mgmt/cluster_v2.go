package mgmt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// clusterV2 is a cluster in an answer, with a summary of its members.
type clusterV2 struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Type         string            `json:"type"`
	Compute      clusterComputeV2  `json:"compute"`
	Template     string            `json:"template,omitempty"`     // absent if it was created without templateId
	DataCenterID string            `json:"dataCenterId,omitempty"` // absent until a member has GPUs, or if its pods have no data center
	Pods         clusterPodsV2     `json:"pods"`
	Network      *clusterNetworkV2 `json:"network,omitempty"` // absent until it is provisioned
	Primary      *primaryV2        `json:"primary,omitempty"` // absent until it is placed
	Created      string            `json:"createdAt"`
}

type clusterPodsV2 struct {
	Total    int64            `json:"total"`
	ByStatus map[string]int64 `json:"byStatus"`
}

// clusterNetworkV2 never has the members about VXLAN, because the jobrunner creates no overlay network.
type clusterNetworkV2 struct {
	CIDR      string `json:"cidr"`
	VXLANID   int64  `json:"vxlanId,omitempty"`
	VXLANPort int64  `json:"vxlanPort,omitempty"`
}

type primaryV2 struct {
	PodID       string `json:"podId"`
	Status      string `json:"status"`
	SSHEndpoint string `json:"sshEndpoint,omitempty"`
}

func newClusterV2(c store.Cluster, members []store.Pod) clusterV2 {
	w := clusterV2{Compute: clusterComputeV2(c.Compute), Pods: clusterPodsV2{int64(len(members)), map[string]int64{}}}
	copyFields(&w, c)
	if c.Network != nil {
		w.Network = &clusterNetworkV2{CIDR: c.Network.CIDR}
	}
	for _, p := range members {
		w.Pods.ByStatus[string(p.Status)]++
		if p.GPUTypeID == "" { // it was never placed
			continue
		}
		w.DataCenterID = p.DataCenterID
		if *p.Cluster.Rank == 0 {
			w.Primary = &primaryV2{PodID: p.ID, Status: string(p.Status)}
			if ssh := directSSH(p); ssh != nil && p.Status == store.PodRunning {
				w.Primary.SSHEndpoint = fmt.Sprintf("%s:%d", ssh.Host, ssh.Port)
			}
		}
	}
	return w
}

func (c *call) listClustersV2() ([]clusterV2, error) {
	all, err := store.List[store.Cluster](c.ctx(), c.Store)
	if err != nil {
		return nil, err
	}
	pods, err := c.Store.Pods(c.ctx())
	members := map[string][]store.Pod{}
	for _, p := range pods {
		if p.Cluster != nil {
			members[p.Cluster.ID] = append(members[p.Cluster.ID], p)
		}
	}
	return convertAll(all, func(cluster store.Cluster) clusterV2 { return newClusterV2(cluster, members[cluster.ID]) }), err
}

func (c *call) clusterWithMembers() (store.Cluster, []store.Pod, error) {
	cluster, err := store.Get[store.Cluster](c.ctx(), c.Store, c.id)
	if err != nil {
		return cluster, nil, err
	}
	members, err := c.Store.ClusterPods(c.ctx(), c.id)
	return cluster, members, err
}

func (c *call) getClusterV2() (clusterV2, error) {
	cluster, members, err := c.clusterWithMembers()
	return newClusterV2(cluster, members), err
}

func createClusterV2(c *call, body clusterBodyV2) (w clusterV2, err error) {
	cluster, members, err := c.Store.CreateCluster(c.ctx(), func(tx *store.Tx) (store.Cluster, []store.Pod, error) {
		cluster, members, err := body.build(c, tx)
		cluster.Owner = c.owner
		for i := range members {
			members[i].Owner = c.owner
			pod.Init(&members[i], c.FolderID, c.Clock.Wall())
		}
		return cluster, members, err
	})
	return newClusterV2(cluster, members), err
}

func updateClusterV2(c *call, body clusterBodyV2) (w clusterV2, err error) {
	if _, err := c.Store.UpdateCluster(c.ctx(), c.id, func(cluster *store.Cluster) { setIfPresent(&cluster.Name, body.Name) }); err != nil {
		return w, err
	}
	return c.getClusterV2()
}

func (c *call) listClusterPodsV2() ([]podV2, error) {
	_, members, err := c.clusterWithMembers()
	return convertAll(members, c.newPodV2), err
}

// clusterBodyV2 is the body of a create or an update. An update can only rename the cluster. Only a template can
// set the pods' registry auth.
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
type clusterComputeV2 store.ClusterCompute

// templateExcludes are the settings that a cluster with a template takes only from the template.
var templateExcludes = []string{"image", "args", "entrypoint", "cmd", "disk", "env", "ports", "mounts"}

// template returns the template that the body names, or nil if it names none. It rejects a body that has
// both a template and settings. sent is the body, which shows what members were sent.
func (b clusterBodyV2) template(tx *store.Tx, sent map[string]any) (*store.Template, error) {
	if b.FromTemplate == nil {
		return nil, nil
	}
	for _, name := range templateExcludes {
		if _, ok := sent[name]; ok {
			return nil, store.Refusal("templateId and " + name + " exclude each other: the settings of a cluster's pods come either all from its template or all from the body")
		}
	}
	return podTemplate(tx, b.FromTemplate)
}

// build returns a new cluster and its members, by rank.
func (b clusterBodyV2) build(c *call, tx *store.Tx) (store.Cluster, []store.Pod, error) {
	cluster := store.Cluster{Head: store.Head{Name: *b.Name}, Type: *b.Type, Compute: store.ClusterCompute(*b.Compute)}
	t, err := b.template(tx, c.body)
	switch {
	case err != nil:
		return cluster, nil, err
	case t == nil && b.Image == nil:
		return cluster, nil, store.Refusal("a cluster needs the image of its pods: expected image or templateId")
	}
	if t != nil {
		cluster.Template = t.ID
	}
	body := convert[clusterBodyV2, podBodyV2](b)
	body.GPU = &podGPUBodyV2{ID: b.Compute.GPUTypeID, Count: &b.Compute.GPUCountPerPod}
	common, err := body.newPod(c, tx, t)
	if err != nil {
		return cluster, nil, err
	}
	if size := len(toJSON(common)) * int(b.Compute.PodCount); size > maxClusterPods {
		return cluster, nil, store.Refusal(fmt.Sprintf("the cluster's pods have %d bytes of settings together: at most %d are allowed", size, maxClusterPods))
	}
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
