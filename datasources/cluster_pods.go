package datasources

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

type ofCluster struct {
	ClusterID types.String `tfsdk:"cluster_id"`
}

type clusterPods struct {
	Pods []clusterPod `tfsdk:"pods"`
}

type clusterPod struct {
	ID           string  `tfsdk:"id"`
	Name         string  `tfsdk:"name"`
	Rank         *int64  `tfsdk:"rank"`
	Role         string  `tfsdk:"role"`
	IP           string  `tfsdk:"ip"`
	Status       string  `tfsdk:"status"`
	Reason       *string `tfsdk:"reason"`
	GPUTypeID    string  `tfsdk:"gpu_type_id"`
	GPUCount     int64   `tfsdk:"gpu_count"`
	DataCenterID *string `tfsdk:"data_center_id"`
	SSH          *podSSH `tfsdk:"ssh"`
	CreatedAt    string  `tfsdk:"created_at"`
	StartedAt    *string `tfsdk:"started_at"`
}

type podSSH struct {
	Host     string `tfsdk:"host"`
	Port     int64  `tfsdk:"port"`
	Username string `tfsdk:"username"`
}

var ClusterPods = &kit.DataSource[ofCluster, clusterPods]{
	Name:    "cluster_pods",
	Title:   "pods of the cluster",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The pods of a cluster with their ranks, at the moment of the plan or apply. `gpucloud_pods` has no pods of clusters. API v2 only.",
		Attributes: map[string]schema.Attribute{
			"cluster_id": schema.StringAttribute{Required: true, MarkdownDescription: "Id of the cluster."},
			"pods": objects("The pods, ordered by rank.", map[string]schema.Attribute{
				"id":             text("Id of the pod, for `gpucloud_pod_logs`."),
				"name":           text("Name of the pod."),
				"rank":           integer("Its rank, from 0. The pod of rank 0 is the primary."),
				"role":           optionalText("Its role, in a cluster of type `SLURM` or `RAY`."),
				"ip":             optionalText("Its address in the cluster's network, once it has one."),
				"status":         text("`PROVISIONING`, `STARTING`, `RUNNING`, `EXITED`, `ERROR` or `TERMINATED`."),
				"reason":         text("Why it waits, or how it ended."),
				"gpu_type_id":    optionalText("Id of its GPU type."),
				"gpu_count":      integer("Number of its GPUs."),
				"data_center_id": text("Id of its data center, once it is placed."),
				"ssh": object("Its SSH server, while it runs and has the port `22/tcp`: the published address or, without one, the proxy.", map[string]schema.Attribute{
					"host": text("Host name or address."), "port": integer("Port."), "username": text("User."),
				}),
				"created_at": optionalText("When it was created, as RFC 3339."),
				"started_at": text("When it last started, as RFC 3339."),
			}),
		},
	},
	Validate: func(c diagnostics.Check, m *ofCluster) { kit.ValidID(c, "cluster_id", m.ClusterID) },
	Read: func(ctx context.Context, c *api.Client, m *ofCluster) (clusterPods, error) {
		id := m.ClusterID.ValueString()
		got, err := c.Clusters.Pods(ctx, id)
		if err != nil {
			if _, reading := c.Clusters.Get(ctx, id); api.IsNotFound(reading) {
				err = reading // the list is missing because the cluster is
			}
		}
		pods := convert(got, clusterPodOf)
		slices.SortFunc(pods, func(a, b clusterPod) int { return cmp.Or(cmp.Compare(rankOf(a), rankOf(b)), cmp.Compare(a.ID, b.ID)) })
		return clusterPods{pods}, err
	},
}

// rankOf sorts a pod without a rank last.
func rankOf(p clusterPod) int64 {
	if p.Rank == nil {
		return math.MaxInt64
	}
	return *p.Rank
}

func clusterPodOf(p api.Pod) clusterPod {
	out := clusterPod{ID: p.ID, Name: p.Name, Status: p.Status, Reason: p.Reason, DataCenterID: p.DataCenterID, CreatedAt: p.CreatedAt, StartedAt: p.StartedAt}
	if p.Cluster != nil {
		out.Rank, out.Role, out.IP = p.Cluster.Rank, p.Cluster.Role, p.Cluster.IP
	}
	if p.GPU != nil {
		out.GPUTypeID, out.GPUCount = p.GPU.ID, p.GPU.Count
	}
	if at := cmp.Or(p.SSH.Direct, p.SSH.Proxy); at != nil {
		out.SSH = &podSSH{at.Host, at.Port, at.Username}
	}
	return out
}
