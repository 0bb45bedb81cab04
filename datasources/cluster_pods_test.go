package datasources_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The pods of a cluster are listed by rank, without their environment.
func TestClusterPods(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V2)
	created := must.Do(d.Client(t, api.V2).Clusters.Create(t.Context(), api.Cluster{
		Name: "c", Type: "RAY", Image: "builtin/echo", Env: map[string]string{"TOKEN": "a-planted-secret"},
		Compute: api.ClusterCompute{GPUTypeID: "NVIDIA L4", GPUCountPerPod: 1, PodCount: 3},
	}))(t)
	of := map[string]any{"cluster_id": created.ID}
	writes := d.Writes()
	got := read(t, p, "gpucloud_cluster_pods", of)
	must.Equal(t, column(got.Get("pods"), "rank"), []any{0.0, 1.0, 2.0}, "ranks")
	members := must.Do(d.Client(t, api.V2).Clusters.Pods(t.Context(), created.ID))(t)
	for _, m := range members {
		i := int(*m.Cluster.Rank)
		for attribute, want := range map[string]any{"id": m.ID, "name": m.Name, "role": m.Cluster.Role, "gpu_type_id": "NVIDIA L4", "gpu_count": 1.0, "created_at": m.CreatedAt} {
			must.Equal(t, member(got.Get("pods"), i, attribute), want, attribute, "of rank", i)
		}
		if status := member(got.Get("pods"), i, "status"); status != "PROVISIONING" { // there is no GPU
			t.Errorf("rank %d is %v", i, status)
		}
	}
	if text := got.Value.String(); d.Writes() != writes || strings.Contains(text, "a-planted-secret") {
		t.Errorf("%d writes; in the state: %s", d.Writes()-writes, text)
	}
	expectErrors(t, p, "gpucloud_cluster_pods", map[string]any{"cluster_id": "nonesuch"}, "GET", `/v2/clusters/nonesuch: 404 Not Found: cluster "nonesuch" not found`)
	expectErrors(t, p, "gpucloud_cluster_pods", map[string]any{"cluster_id": "a b"}, "cluster_id: Invalid value of cluster_id", `got "a b"`)
	expectErrors(t, drive(t, d, api.V1), "gpucloud_cluster_pods", of, "gpucloud_cluster_pods exists in management API v2 only", `api_version = "v2"`)
}
