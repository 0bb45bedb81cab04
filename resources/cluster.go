package resources

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// Cluster is gpucloud_cluster: equal pods with their own network. Only its name can change.
var Cluster = newCollectionKind(kit.Kind[cluster]{
	Name:     "cluster",
	Schema:   clusterSchema,
	Version:  api.V2,
	Moved:    movedCluster,
	Validate: validateCluster,
	Plan:     planCluster,
	Volatile: []string{"template", "data_center_id", "pods", "network", "primary"},
	Loss: func(m *cluster) string {
		return fmt.Sprintf("The apply deletes cluster %s (%s). %s", m.ID.ValueString(), m.Name.ValueString(), clusterLoss)
	},
	Create: func(ctx context.Context, c *api.Client, _, plan *cluster) error {
		got, err := c.Clusters.Create(ctx, plan.expand())
		if err != nil {
			return err
		}
		plan.flatten(got)
		return waitError(plan.awaitCluster(ctx, c, true), afterCreate)
	},
	Read: func(ctx context.Context, c *api.Client, state *cluster) error {
		imported := state.Name.IsNull()
		got, err := c.Clusters.Refresh(ctx, state.expand())
		if err != nil {
			return err
		}
		state.flatten(got)
		switch {
		case !imported:
			return nil
		case got.Template != "": // the pods have the template's settings
			state.TemplateID = state.Template
			return nil
		}
		pods, err := c.Clusters.Pods(ctx, got.ID)
		if err == nil && len(pods) > 0 {
			container := *pods[0].Container // the settings are equal in all pods
			container.Env = withoutAccessVariables(state.Env, container.Env)
			state.container.flatten(container, true)
			state.Mounts = flattenMounts(pods[0].Mounts)
		}
		return err
	},
	Update: func(ctx context.Context, c *api.Client, _, state, plan *cluster) error {
		have, err := c.Clusters.Refresh(ctx, state.expand())
		if err != nil {
			return err
		}
		got, err := c.Clusters.Update(ctx, have, plan.expand())
		if err != nil {
			return err
		}
		plan.Private.Carried = nil
		plan.flatten(got)
		return waitError(plan.awaitCluster(ctx, c, false), afterUpdate)
	},
}, func(c *api.Client) *api.Collection[api.Cluster] { return c.Clusters.Collection }, (*cluster).expand, (*cluster).flatten)

const clusterLoss = "The processes of its pods end, and the data on their container disks and persistent mounts is lost. A network volume is kept."

// clusterFixed are the attributes that only a create sets: all except the name. For an imported
// cluster, an apply records the attributes that its pods don't show.
var clusterFixed = slices.Concat(
	fixedSetting{readable: true}.forAttributes("type", "compute", "template_id"),
	fixedSetting{}.forAttributes(clusterTemplateAttributes...),
	fixedSetting{constraint: true}.forAttributes("data_center_ids"),
	fixedSetting{}.forAttributes("start_ssh", "start_jupyter"),
)

// planClusterCommand keeps the start command if the configuration omits it.
func planClusterCommand(p *planrule.Plan[cluster]) {
	p.Config.command().check(p.Check)
	if c := p.Config; c.Args.IsNull() && c.Entrypoint.IsNull() && c.Cmd.IsNull() {
		p.KeepOmitted("args", "entrypoint", "cmd")
		return
	}
	p.Plan.Args, p.Plan.Entrypoint, p.Plan.Cmd = p.Config.Args, p.Config.Entrypoint, p.Config.Cmd
	if p.State != nil {
		p.Plan.command().keep(p.State.command())
	}
}

func planCluster(ctx context.Context, p *planrule.Plan[cluster]) {
	planClusterCommand(p)
	p.KeepOmitted("env", "ports", "mounts")
	p.Plan.Disk = defaultTo(p.Config.Disk, p.Prior.Disk, types.Int64Null())
	checkPersistentSize(ctx, p, p.Plan.Mounts)
	checkCatalog(ctx, p, clusterRequest(ctx, p), p.Plan.MaxHourlyCost)
	checkPodTemplate(ctx, p, p.Plan.TemplateID)
	if p.State == nil {
		checkVolumes(ctx, p, "mounts.network", nil, volumeIDs(p.Plan.Mounts))
		return
	}
	fixed := slices.DeleteFunc(slices.Clone(clusterFixed), func(f fixedSetting) bool {
		return slices.Contains(commandAttributes, f.attribute) && p.Plan.command().equals(p.State.command())
	})
	for i, f := range fixed { // with an image, the state has the settings of the pods, except variables that an import hides
		hidden := f.attribute == "env" && slices.ContainsFunc(slices.Collect(maps.Keys(p.Plan.Env.Elements())), api.IsAccessVariable)
		fixed[i].readable = f.readable || !p.State.Image.IsNull() && slices.Contains(clusterTemplateAttributes, f.attribute) && !hidden
	}
	replaced, recorded := fixedChanges(ctx, p, clusterMembers, fixed, p.State.Private.Carried)
	planReplacement(ctx, p, replaced, p.State.DataCenterIDs, p.Plan.DataCenterIDs)
	switch {
	case len(replaced) > 0:
		p.Warn(replaced[0], "The cluster will be replaced", "Only the name of a cluster can be changed in place, not its %s. The apply deletes cluster %s (%s) and creates another one, with a new id and other addresses. %s",
			commaList(replaced), p.State.ID.ValueString(), p.State.Name.ValueString(), clusterLoss)
	case len(recorded) > 0:
		warnRecorded(p, "cluster "+p.State.ID.ValueString(), recorded)
	}
}
