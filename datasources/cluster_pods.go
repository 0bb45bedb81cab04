package datasources

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

type clusterConfig struct{ ClusterID types.String }

type clusterPods struct{ Pods []clusterPod }

type clusterPod struct {
	api.Pod
	Rank                *int64
	Role, IP, GPUTypeID string
	GPUCount            int64
	SSH                 *api.SSHEndpoint
}

var ClusterPods = &kit.DataSource[clusterConfig, clusterPods]{
	Name:    "cluster_pods",
	Title:   "pods of the cluster",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The pods of a cluster with their ranks, at the moment of the plan or apply. `gpucloud_pods` has no pods of clusters. API v2 only.",
		Attributes: map[string]schema.Attribute{
			"cluster_id": requiredID("Id of the cluster."),
			"pods": objects("The pods, ordered by rank.", map[string]schema.Attribute{
				"id":             text("Id of the pod, for `gpucloud_pod_logs`."),
				"name":           text("Name of the pod."),
				"rank":           integer("Rank of the pod, from 0. The pod of rank 0 is the primary."),
				"role":           text("Role of the pod, in a cluster of type `SLURM` or `RAY`."),
				"ip":             text("Address of the pod in the cluster's network, once it has one."),
				"status":         text("`PROVISIONING`, `STARTING`, `RUNNING`, `EXITED`, `ERROR` or `TERMINATED`."),
				"reason":         text("Why the pod waits, or how it ended."),
				"gpu_type_id":    text("Id of the pod's GPU type."),
				"gpu_count":      integer("Number of the pod's GPUs."),
				"data_center_id": text("Id of the pod's data center, once it is placed."),
				"ssh": object("SSH server of the pod, while it runs and has the port `22/tcp`: the published address or, without one, the proxy.", map[string]schema.Attribute{
					"host": text("Host name or address."), "port": integer("Port."), "username": text("User name."),
				}),
				"created_at": text("When the pod was created, as RFC 3339."),
				"started_at": text("When the pod last started, as RFC 3339."),
			}),
		},
	},
	Read: func(ctx context.Context, c *api.Client, m *clusterConfig) (clusterPods, error) {
		id := m.ClusterID.ValueString()
		got, err := c.Clusters.Pods(ctx, id)
		if err != nil {
			if _, readErr := c.Clusters.Get(ctx, id); api.IsNotFound(readErr) {
				err = readErr // the list is missing because the cluster is
			}
		}
		pods := convert(got, clusterPodOf)
		slices.SortFunc(pods, func(a, b clusterPod) int {
			return cmp.Or(cmp.Compare(sortRank(a), sortRank(b)), cmp.Compare(a.ID, b.ID))
		})
		return clusterPods{pods}, err
	},
}

// sortRank sorts a pod without a rank last.
func sortRank(p clusterPod) int64 {
	if p.Rank == nil {
		return math.MaxInt64
	}
	return *p.Rank
}

func clusterPodOf(p api.Pod) clusterPod {
	out := clusterPod{Pod: p, SSH: cmp.Or(p.SSH.Direct, p.SSH.Proxy)}
	if p.Cluster != nil {
		out.Rank, out.Role, out.IP = p.Cluster.Rank, p.Cluster.Role, p.Cluster.IP
	}
	if p.GPU != nil {
		out.GPUTypeID, out.GPUCount = p.GPU.ID, p.GPU.Count
	}
	return out
}
