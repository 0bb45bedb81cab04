package store

import "context"

// Cluster is identical pods with ranks and a shared network. Users can change only its name, which need not be unique.
type Cluster struct {
	Head

	// Owner is the owner of the API key that created it.
	Owner string `json:"owner,omitempty"`
	Type  string `json:"type"`
	// Template is the id of its pods' template, or "". The template's later changes don't affect them.
	Template string         `json:"template,omitempty"`
	Compute  ClusterCompute `json:"compute"`
	// Network is nil until it is provisioned.
	Network *ClusterNetwork `json:"network,omitempty"`
}

// ClusterCompute is the number of a cluster's pods and of their GPUs.
type ClusterCompute struct {
	GPUTypeID      string `json:"gpuTypeId"`
	GPUCountPerPod int64  `json:"gpuCountPerPod"`
	PodCount       int64  `json:"podCount"`
}

// ClusterNetwork is a network of the container engine or, without a name, the loopback interface.
type ClusterNetwork struct {
	Name string `json:"name,omitempty"`
	CIDR string `json:"cidr"`
}

func (c *Cluster) kind() kind { return clusters }

func (c *Cluster) refs() []string { return []string{c.Template} }

// ClusterPods lists the members of a cluster in the order of their ranks.
func (s *Store) ClusterPods(ctx context.Context, id string) ([]Pod, error) {
	out, _, err := documents[Pod](ctx, s, pods.label, noLimit, "SELECT o.doc, o.seq FROM refs r JOIN objects o ON o.id = r.owner WHERE r.target = ? AND o.kind = ? ORDER BY o.seq", id, pods.key)
	return out, err
}

// CreateCluster stores a cluster and its members in one transaction. build returns the pods
// in the order of their ranks. It may read in tx, and may run more than once.
func (s *Store) CreateCluster(ctx context.Context, build func(tx *Tx) (Cluster, []Pod, error)) (c Cluster, members []Pod, err error) {
	err = s.write(ctx, func(tx *Tx) error {
		if c, members, err = build(tx); err != nil {
			return err
		}
		if err := tx.insert(&c); err != nil {
			return err
		}
		for i := range members {
			members[i].Cluster.ID = c.ID
			if err := tx.insert(&members[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return c, members, err
}

func (s *Store) UpdateCluster(ctx context.Context, id string, change func(c *Cluster)) (Cluster, error) {
	return update(ctx, s, id, func(_ *Tx, c *Cluster) error { change(c); return nil })
}

func (c *Cluster) beforeDelete(tx *Tx) error {
	members, err := tx.referrers(pods, c.ID)
	for _, member := range members {
		if err := tx.remove(pods, member); err != nil {
			return err
		}
	}
	return err
}
