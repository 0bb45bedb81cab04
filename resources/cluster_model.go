package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// forcesReplacement ends the descriptions of attributes that only a create sends.
const forcesReplacement = " Forces replacement."

var clusterSchema = schema.Schema{
	MarkdownDescription: "A cluster: equal pods in one data center with their own network. Only the name can change in place. API v2 only.",
	Attributes: map[string]schema.Attribute{
		"id":   idAttribute("cluster"),
		"name": clusterMembers.text("name", "Name of the cluster. It need not be unique."),
		"type": clusterMembers.text("type", "{choices}; `SLURM` and `RAY` give the pods roles.", forcesReplacement),
		"compute": requiredObject("The machines of the cluster, which are equal."+forcesReplacement, attributes{
			"gpu_type_id":       clusterMembers.text("compute.gpuTypeId", "GPU type, such as `NVIDIA L4`."),
			"gpu_count_per_pod": clusterMembers.integer("compute.gpuCountPerPod", "GPUs of each pod."),
			"pod_count":         clusterMembers.integer("compute.podCount", "Number of pods, {min} to {max}."),
		}),
		"template_id":         clusterMembers.text("templateId", "Id of a template for pods (`serverless = false`), from which the pods get all settings of their containers and the registry auth. Conflicts with `image`, `args`, `entrypoint`, `cmd`, `disk`, `env`, `ports` and `mounts`.", forcesReplacement),
		"image":               imageAttribute(clusterMembers, "Container image of the pods. A create needs it or `template_id`.", forcesReplacement),
		"args":                keptIfOmitted(argsAttribute(clusterMembers, forcesReplacement)),
		"entrypoint":          keptIfOmitted(entrypointAttribute(clusterMembers, forcesReplacement)),
		"cmd":                 keptIfOmitted(cmdAttribute(clusterMembers, forcesReplacement)),
		"disk":                withoutDefault(clusterMembers.integer("disk", "Container disk of each pod in GB, new at each start. If omitted, a new cluster gets the deployment's default, and an existing one keeps its value.", forcesReplacement), true),
		"env":                 keptIfOmitted(envAttribute(clusterMembers, ": put secrets into the `env_wo` of a template. The cluster's own variables, such as `NODE_RANK`, take precedence."+forcesReplacement)),
		"ports":               keptIfOmitted(portsAttribute(clusterMembers, forcesReplacement)),
		"mounts":              keptIfOmitted(podMountsAttribute("cluster.", forcesReplacement)),
		"data_center_ids":     clusterMembers.texts("dataCenterIds", "Data centers that the cluster may be placed in; default any.", forcesReplacement),
		"start_ssh":           withoutDefault(clusterMembers.boolean("startSsh", "Whether the pods get the account's SSH keys (`gpucloud_ssh_keys`) as `PUBLIC_KEY`.", forcesReplacement), false),
		"start_jupyter":       withoutDefault(clusterMembers.boolean("startJupyter", "Whether the pods get a generated `JUPYTER_PASSWORD`, one for all.", forcesReplacement), false),
		"deletion_protection": deletionProtectionAttribute("cluster"),
		"wait_for":            clusterWaitAttribute,
		"timeouts":            timeoutsAttribute,
		"max_hourly_cost":     maxHourlyCostAttribute(),

		"template":       schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the template that the pods were made from, if any."},
		"data_center_id": schema.StringAttribute{Computed: true, MarkdownDescription: "Data center of the cluster, once a pod is placed."},
		"pods": computedObject("Counts of the cluster's pods.", attributes{
			"total":     schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of all pods."},
			"by_status": schema.MapAttribute{Computed: true, ElementType: types.Int64Type, MarkdownDescription: "Number of pods by status, such as `RUNNING`."},
		}),
		"network": computedObject("The network of the pods, once it is provisioned.", attributes{
			"cidr":       schema.StringAttribute{Computed: true, MarkdownDescription: "Addresses of the network, in CIDR notation."},
			"vxlan_id":   schema.Int64Attribute{Computed: true, MarkdownDescription: "Id of the overlay, if any."},
			"vxlan_port": schema.Int64Attribute{Computed: true, MarkdownDescription: "Port of the overlay, if any."},
		}),
		"primary": computedObject("The pod of rank 0, once it is placed.", attributes{
			"pod_id":       schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the pod."},
			"status":       schema.StringAttribute{Computed: true, MarkdownDescription: "Status of the pod: `PROVISIONING`, `STARTING`, `RUNNING`, `EXITED`, `ERROR` or `TERMINATED`."},
			"ssh_endpoint": schema.StringAttribute{Computed: true, MarkdownDescription: "`host:port` of the pod's SSH server, while it runs with `22/tcp`."},
		}),
		"created_at": stableText("When the cluster was created, as RFC 3339."),
	},
}

type cluster struct {
	ID, Name, Type, Template, DataCenterID, CreatedAt          types.String
	Compute, Mounts, WaitFor, Timeouts, Pods, Network, Primary types.Object
	DataCenterIDs                                              types.Set
	StartSSH, StartJupyter, DeletionProtection                 types.Bool
	MaxHourlyCost                                              types.Number

	container
	Private clusterPrivate
}

type clusterPrivate struct {
	Carried []string // attributes that a moved block took from another provider's state: see fixedChanges
}

type clusterCompute struct {
	GPUTypeID                types.String
	GPUCountPerPod, PodCount types.Int64
}

// validateCluster requires an image or a template. A template excludes other settings.
func validateCluster(_ context.Context, c diagnostics.Check, config *cluster) {
	config.checkImage(c)
	if value.IsSet(config.TemplateID) {
		for _, name := range clusterTemplateAttributes {
			if value.IsSet(value.Attribute(config, name)) {
				c.Error(name, "Setting conflicts with template_id", "%s conflicts with template_id: the pods of the cluster get it from the template. Remove one of them.", name)
			}
		}
	}
	config.command().check(c)
	validateMounts(c, config.Mounts)
}

// clusterTemplateAttributes are the attributes that a template sets, so they conflict with template_id.
var clusterTemplateAttributes = []string{"image", "args", "entrypoint", "cmd", "disk", "env", "ports", "mounts"}

func (m *cluster) expand() (want api.Cluster) {
	value.Expand(m, &want)
	want.Command = m.command().expand(!m.TemplateID.IsNull())
	return want
}

// flatten copies a response into the model, except the settings of the pods.
func (m *cluster) flatten(got api.Cluster) {
	m.ID, m.Name, m.Type = types.StringValue(got.ID), types.StringValue(got.Name), types.StringValue(got.Type)
	m.Compute = value.Object(clusterSchema.Attributes["compute"], &got.Compute)
	value.Flatten(got.ClusterState, m)
}
