package mgmt

import (
	"fmt"

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
	DataCenterID string            `json:"dataCenterId,omitempty"` // absent if no member is placed, or without a data center
	Pods         clusterPodsV2     `json:"pods"`
	Network      *clusterNetworkV2 `json:"network,omitempty"` // absent until it is provisioned
	Primary      *primaryV2        `json:"primary,omitempty"` // absent until it is placed
	Created      string            `json:"createdAt"`
}

type clusterPodsV2 struct {
	Total    int64            `json:"total"`
	ByStatus map[string]int64 `json:"byStatus"`
}

// clusterNetworkV2 has no VXLAN, because there is only one machine.
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

// newClusterV2 shows a cluster with its members, which must be sorted by rank.
func newClusterV2(c store.Cluster, members []store.Pod) clusterV2 {
	w := clusterV2{Compute: clusterComputeV2(c.Compute), Pods: clusterPodsV2{int64(len(members)), map[string]int64{}}}
	copyFields(&w, c)
	if c.Network != nil {
		w.Network = &clusterNetworkV2{CIDR: c.Network.CIDR}
	}
	for _, p := range members {
		w.Pods.ByStatus[string(p.Status)]++
		if !pod.Placed(p) {
			continue
		}
		w.DataCenterID = p.DataCenterID
		if *p.Cluster.Rank == 0 {
			w.Primary = newPrimaryV2(p)
		}
	}
	return w
}

func newPrimaryV2(p store.Pod) *primaryV2 {
	w := &primaryV2{PodID: p.ID, Status: string(p.Status)}
	if ssh := directSSH(p); ssh != nil && p.Status == store.PodRunning {
		w.SSHEndpoint = fmt.Sprintf("%s:%d", ssh.Host, ssh.Port)
	}
	return w
}

func (c *call) listClustersV2() ([]clusterV2, error) {
	all, err := store.List[store.Cluster](c.ctx(), c.store)
	if err != nil {
		return nil, err
	}
	pods, err := c.store.Pods(c.ctx())
	members := map[string][]store.Pod{}
	for _, p := range pods {
		if p.Cluster != nil {
			members[p.Cluster.ID] = append(members[p.Cluster.ID], p)
		}
	}
	return convertAll(all, func(cluster store.Cluster) clusterV2 { return newClusterV2(cluster, members[cluster.ID]) }), err
}

// clusterWithMembers reads the path's cluster and its members.
func (c *call) clusterWithMembers() (store.Cluster, []store.Pod, error) {
	cluster, err := store.Get[store.Cluster](c.ctx(), c.store, c.id)
	if err != nil {
		return cluster, nil, err
	}
	members, err := c.store.ClusterPods(c.ctx(), c.id)
	return cluster, members, err
}

func (c *call) getClusterV2() (clusterV2, error) {
	cluster, members, err := c.clusterWithMembers()
	return newClusterV2(cluster, members), err
}

func createClusterV2(c *call, body clusterBodyV2) (w clusterV2, err error) {
	keys, err := c.sshKeys()
	if err != nil {
		return w, err
	}
	cluster, members, err := c.store.CreateCluster(c.ctx(), func(tx *store.Tx) (store.Cluster, []store.Pod, error) {
		cluster, members, err := body.build(tx, c.body, keys)
		cluster.Owner = c.owner
		for i := range members {
			members[i].Owner = c.owner
			pod.Create(&members[i], c.Machine, c.Clock.Wall())
		}
		return cluster, members, err
	})
	return newClusterV2(cluster, members), err
}

func updateClusterV2(c *call, body clusterBodyV2) (w clusterV2, err error) {
	if _, err := c.store.UpdateCluster(c.ctx(), c.id, func(cluster *store.Cluster) { setIfPresent(&cluster.Name, body.Name) }); err != nil {
		return w, err
	}
	return c.getClusterV2()
}

func (c *call) listClusterPodsV2() ([]podV2, error) {
	_, members, err := c.clusterWithMembers()
	return convertAll(members, c.newPodV2), err
}
