package store

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Cluster is a set of identical pods with ranks and one network. Its name need not be
// unique, and is all of it that changes.
type Cluster struct {
	Head

	// Owner is the owner of the API key that made it.
	Owner string `json:"owner,omitempty"`
	Type  string `json:"type"`
	// Template is the template that its pods were made from, "" for none. They don't
	// follow it.
	Template string         `json:"template,omitempty"`
	Compute  ClusterCompute `json:"compute"`
	// Network is what its members share; nil: it is not provisioned yet.
	Network *ClusterNetwork `json:"network,omitempty"`
}

// ClusterCompute is the shape of a cluster: so many pods, each with so many GPUs.
type ClusterCompute struct {
	GPUTypeID      string `json:"gpuTypeId"`
	GPUCountPerPod int64  `json:"gpuCountPerPod"`
	PodCount       int64  `json:"podCount"`
}

// ClusterNetwork is a network of the machine's container engine, or the machine's
// loopback, which has no name.
type ClusterNetwork struct {
	Name string `json:"name,omitempty"`
	CIDR string `json:"cidr"`
}

func (c *Cluster) kind() kind { return clusters }

func (c *Cluster) refs() []string {
	if c.Template == "" {
		return nil
	}
	return []string{c.Template}
}

// Cluster reads one cluster. The error wraps ErrNotFound where there is none.
func (s *Store) Cluster(ctx context.Context, id string) (Cluster, error) {
	return get[Cluster](ctx, s, id)
}

// Clusters lists the clusters, the oldest first.
func (s *Store) Clusters(ctx context.Context) ([]Cluster, error) { return list[Cluster](ctx, s) }

// ClusterPods lists the members of a cluster by rank.
func (s *Store) ClusterPods(ctx context.Context, id string) ([]Pod, error) {
	return documents(ctx, s, func(doc []byte, _ int64, p *Pod) error { return decode(doc, p) },
		"SELECT o.doc, o.seq FROM refs r JOIN objects o ON o.id = r.owner WHERE r.target = ? AND o.kind = ? ORDER BY o.seq", id, pods.key)
}

// CreateCluster keeps a cluster and its members, all or none. build returns the pods in
// the order of their ranks; it may read in tx, and may be run more than once.
func (s *Store) CreateCluster(ctx context.Context, build func(tx *Tx) (Cluster, []Pod, error)) (c Cluster, members []Pod, err error) {
	err = s.write(ctx, func(tx *Tx) error {
		if c, members, err = build(tx); err != nil {
			return err
		}
		if err := checkClusterGPUs(c.Compute); err != nil {
			return err
		}
		if err := tx.insert(&c, tx.now); err != nil {
			return err
		}
		for i := range members {
			members[i].Cluster.ID = c.ID
			if err := tx.InsertPod(&members[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return c, members, err
}

// checkClusterGPUs goes by the largest machine of the catalog, as checkPodGPU does.
func checkClusterGPUs(c ClusterCompute) error {
	if c.GPUCountPerPod > catalog.MaxGPUs {
		return refusef("invalid gpuCountPerPod of a cluster: expected %d at most, got %d", catalog.MaxGPUs, c.GPUCountPerPod)
	}
	return nil
}

// UpdateCluster changes a cluster, and none of its members.
func (s *Store) UpdateCluster(ctx context.Context, id string, change func(c *Cluster)) (c Cluster, err error) {
	err = s.write(ctx, func(tx *Tx) error {
		c = Cluster{}
		if err := load(tx.tx, &c, id); err != nil {
			return err
		}
		change(&c)
		return tx.save(&c)
	})
	return c, err
}

// DeleteCluster deletes a cluster and all of its members.
func (s *Store) DeleteCluster(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error {
		members, err := tx.owners(pods, id)
		if err != nil {
			return err
		}
		for _, member := range members {
			if err := tx.RemovePod(member); err != nil {
				return err
			}
		}
		return tx.remove(clusters, id)
	})
}
