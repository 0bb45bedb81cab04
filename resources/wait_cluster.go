package resources

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// clusterWait is the condition that an apply of a cluster waits for.
type clusterWait struct{ Running types.Bool }

var clusterWaitAttribute = nonEmptyObject("What a create or update waits for, within `timeouts`. The error has the end of a pod's log.", attributes{
	"running": schema.BoolAttribute{Optional: true, MarkdownDescription: "That every pod of the cluster is `RUNNING`."},
})

// awaitCluster waits for the model's condition, and then updates the model.
func (m *cluster) awaitCluster(ctx context.Context, c *api.Client, creating bool) error {
	wait := value.As[clusterWait](m.WaitFor)
	if wait == nil || !wait.Running.ValueBool() {
		return nil
	}
	id, want := m.ID.ValueString(), value.As[clusterCompute](m.Compute).PodCount.ValueInt64()
	var behind api.Pod // a pod that doesn't run
	err := await(ctx, c, "the pods of cluster "+id+" to run", waitTime(m.Timeouts, creating), func(ctx context.Context) (progress, error) {
		members, err := c.Clusters.Pods(ctx, id)
		if err != nil {
			return progress{}, err
		}
		var found progress
		found, behind = clusterProgress(ctx, members, want)
		return found, nil
	}, func(ctx context.Context) string {
		if behind.ID == "" {
			return ""
		}
		lines, err := c.PodLog(ctx, behind.ID, api.LogQuery{Tail: lastLines, For: 5 * time.Second})
		return quoteLog(lines, err, "pod "+behind.ID)
	})
	if err != nil {
		return err
	}
	got, err := c.Clusters.GetFresh(ctx, id)
	if err == nil {
		m.flatten(got)
	}
	return err
}

// clusterProgress returns the progress of a cluster's pods and one pod that doesn't run,
// preferably one that has ended.
func clusterProgress(ctx context.Context, members []api.Pod, want int64) (found progress, behind api.Pod) {
	running := int64(0)
	for _, member := range members {
		at := podProgress(ctx, member, types.Int64Null())
		switch {
		case at.done:
			running++
			continue
		case behind.ID != "" && (found.hopeless || !at.hopeless):
			continue
		}
		behind, found.hopeless, found.text = member, at.hopeless, fmt.Sprintf("; pod %s%s: %s", member.ID, rankOf(member), at.text)
	}
	found.done = running == want
	found.text = fmt.Sprintf("%d of %d pods run%s", running, want, found.text)
	return found, behind
}

func rankOf(member api.Pod) string {
	if member.Cluster == nil || member.Cluster.Rank == nil {
		return ""
	}
	return fmt.Sprintf(" (rank %d)", *member.Cluster.Rank)
}
