package api

import (
	"context"
	"net/http"
)

// Cluster is a group of equal pods with their own network (v2 only). Only its name can be
// changed. Answers lack the settings of its pods; the pods have them (Clusters.Pods).
type Cluster struct {
	ID      string         `json:"id,omitempty"`
	Name    string         `json:"name"` // need not be unique
	Type    string         `json:"type"` // APPLICATION, TRAINING, SLURM or RAY
	Compute ClusterCompute `json:"compute"`

	TemplateID string `json:"templateId,omitempty"` // excludes the settings from here to Mounts
	Image      string `json:"image,omitempty"`
	Command
	Disk          int64             `json:"disk,omitempty"` // GB
	Env           map[string]string `json:"env,omitempty"`
	Ports         []string          `json:"ports,omitempty"`
	Mounts        PodMounts         `json:"mounts,omitzero"`
	DataCenterIDs []string          `json:"dataCenterIds,omitempty"`
	StartSSH      *bool             `json:"startSsh,omitempty"`
	StartJupyter  *bool             `json:"startJupyter,omitempty"`

	ClusterState
}

type ClusterCompute struct {
	GPUTypeID      string `json:"gpuTypeId"`
	GPUCountPerPod int64  `json:"gpuCountPerPod"`
	PodCount       int64  `json:"podCount"`
}

// ClusterState has the members that only answers have.
type ClusterState struct {
	Template     string          `json:"template,omitempty"`     // used to create the cluster
	DataCenterID string          `json:"dataCenterId,omitempty"` // "" until a pod is placed
	Pods         *ClusterPods    `json:"pods,omitempty"`
	Network      *ClusterNetwork `json:"network,omitempty"` // nil until provisioned
	Primary      *ClusterPrimary `json:"primary,omitempty"` // nil until placed
	CreatedAt    string          `json:"createdAt,omitempty"`
}

type ClusterPods struct {
	Total    int64            `json:"total"`
	ByStatus map[string]int64 `json:"byStatus"`
}

type ClusterNetwork struct {
	CIDR      string `json:"cidr"`
	VXLANID   *int64 `json:"vxlanId,omitempty"`
	VXLANPort *int64 `json:"vxlanPort,omitempty"`
}

// ClusterPrimary is the pod of rank 0.
type ClusterPrimary struct {
	PodID       string `json:"podId"`
	Status      string `json:"status"`
	SSHEndpoint string `json:"sshEndpoint,omitempty"` // host:port, while it runs and publishes 22/tcp
}

// Clusters is the collection of clusters, and their pods.
type Clusters struct {
	*Collection[Cluster]
	Pods func(ctx context.Context, id string) ([]Pod, error)
}

func clustersV2(d *deployment, cache *listCache) *Clusters {
	r := &Collection[Cluster]{
		deployment: d, cache: cache, kind: "cluster", path: "/v2/clusters", member: "clusters",
		required: []string{"name", "type", "compute", "createdAt"},
		fixedMembersEqual: func(got, want Cluster) bool {
			return got.Type == want.Type && got.Compute == want.Compute && got.Template == want.TemplateID
		},
		decode: decodePlain[Cluster],
		create: func(want Cluster) (any, error) {
			want.ID, want.ClusterState, want.Command = "", ClusterState{}, want.forCreate()
			return want, nil
		},
		update: func(have, want Cluster) (patch, error) {
			return changedMembers(nil, &Cluster{Name: have.Name}, Cluster{Name: want.Name})
		},
	}
	pods := podsV2(d, nil)
	return &Clusters{r, func(ctx context.Context, id string) ([]Pod, error) {
		c, err := r.callByID(http.MethodGet, id)
		if err != nil {
			return nil, err
		}
		c.URL += "/pods"
		elements, err := r.elements(ctx, c, "pods")
		if err != nil {
			return nil, err
		}
		return decodeElements(elements, pods.decoder(ctx, nil))
	}}
}
