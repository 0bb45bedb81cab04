package api

import (
	"context"
	"net/http"
)

// Clusters is the collection of clusters, and their pods.
type Clusters struct {
	Collection[Cluster]
	pods func(ctx context.Context, id string) ([]Pod, error)
}

// Pods are the pods of a cluster.
func (c *Clusters) Pods(ctx context.Context, id string) ([]Pod, error) { return c.pods(ctx, id) }

func clustersV2(d *deployment, cache *listCache) *Clusters {
	r := &restCollection[Cluster]{
		deployment: d, cache: cache, kind: "cluster", path: "/v2/clusters", member: "clusters",
		required: []string{"name", "type", "compute", "createdAt"},
		id:       func(c Cluster) string { return c.ID },
		name:     func(c Cluster) string { return c.Name },
		sameFixed: func(got, want Cluster) bool {
			return got.Type == want.Type && got.Compute == want.Compute && got.Template == want.TemplateID
		},
		decode: decodePlain[Cluster],
		create: func(want Cluster) (any, error) {
			want.ID, want.ClusterState, want.Command = "", ClusterState{}, want.forCreate()
			return want, nil
		},
		update: func(have, want Cluster) (patch, error) {
			type rename struct {
				Name string `json:"name"`
			}
			return changedMembers(nil, &rename{have.Name}, rename{want.Name})
		},
	}
	members := podsV2(d, nil).rest
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
		return decodeElements(elements, members.receiver(ctx))
	}}
}

func clustersV1() *Clusters {
	none := unsupported[Cluster]{"cluster"}
	return &Clusters{none, func(context.Context, string) ([]Pod, error) { return nil, none.err() }}
}
