package resources

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// Sources lists the constructors of the data sources that are derived from kinds.
var Sources = []func() datasource.DataSource{
	catalogTemplates.One, catalogTemplates.All,
	clusters.One, clusters.All,
	endpoints.One, endpoints.All,
	globalVolumes.One, globalVolumes.All,
	networkVolumes.One, networkVolumes.All,
	pods.One, pods.All,
	registryAuths.One, registryAuths.All,
	registryDelegations.One, registryDelegations.All,
	secrets.One, secrets.All,
	accountKeys.One,
	templates.One, templates.All,
}

// configurationOnly are attributes for the provider's own behavior, which no API returns.
var configurationOnly = []string{"deletion_protection", "env_wo_keys", "env_wo_version", "max_hourly_cost", "timeouts", "wait_for"}

// createOnly are attributes of pods and clusters that only a create sends and no API returns.
var createOnly = []string{"data_center_ids", "start_ssh", "start_jupyter"}

// placement are requirements on a pod's machine that API v1 accepts and doesn't return.
var placement = []string{
	"interruptible", "support_public_ip", "country_codes", "gpu_type_priority", "cpu_flavor_priority", "data_center_priority",
	"min_ram_per_gpu", "min_vcpu_per_gpu", "min_disk_bandwidth_mbps", "min_download_mbps", "min_upload_mbps",
}

var clusters = &kit.Source[cluster]{
	Kind:    Cluster,
	Omit:    slices.Concat([]string{"template_id", "image", "args", "entrypoint", "cmd", "disk", "env", "ports", "mounts"}, createOnly, configurationOnly),
	Filters: []string{"type"},
	// Read without the attributes that need a request for each cluster's pods.
	Read: func(ctx context.Context, c *api.Client, m *cluster) error {
		got, err := c.Clusters.Get(ctx, m.ID.ValueString())
		if err == nil {
			m.flatten(got)
		}
		return err
	},
}

var pods = &kit.Source[pod]{
	Complete: func(m *pod) { m.command().complete() },
	Kind:     Pod,
	Omit:     slices.Concat([]string{"desired_state", "from_template"}, createOnly, placement, configurationOnly),
	Masked:   []string{"env"},
	Filters:  []string{"status", "cloud", "image"},
	Only:     []planrule.OneVersion{{Version: api.V2, Attribute: "status", Except: []string{api.PodRunning, api.PodExited}, HandledByKind: true}}, // API v1 returns these
}

var endpoints = &kit.Source[endpoint]{
	Complete: func(m *endpoint) { m.command().complete() },
	Kind:     Endpoint,
	Omit:     append([]string{"from_template"}, configurationOnly...), // only for endpoints that the provider manages
	Masked:   []string{"env"},
	Filters:  []string{"type"},
	Only:     []planrule.OneVersion{{Version: api.V2, Attribute: "type"}}, // on API v1 a load balancer looks like a queue
}

var networkVolumes = &kit.Source[networkVolume]{
	Kind:    NetworkVolume,
	Omit:    configurationOnly,
	Filters: []string{"data_center", "size", "type"},
}

var globalVolumes = &kit.Source[globalVolume]{
	Kind:    GlobalVolume,
	Omit:    configurationOnly,
	Filters: []string{"created_by_user_id"},
}

var secrets = &kit.Source[secret]{
	Kind: Secret,
	Omit: []string{"value_wo_version"}, // the API returns no values
}

var registryAuths = &kit.Source[registryAuth]{
	Kind: RegistryAuth,
	Omit: []string{"username", "password", "password_wo_version"}, // the API returns no credentials
}

var registryDelegations = &kit.Source[registryDelegation]{
	Kind:    RegistryDelegation,
	Filters: []string{"aws_region", "repository", "tag"},
}

var accountKeys = &kit.Source[sshKeys]{
	Kind:   SSHKeys,
	Single: account,
	Omit:   []string{"keep_others"}, // only a configuration has it
}

var templates = &kit.Source[template]{
	Complete: func(m *template) { m.command().complete() },
	Kind:     Template,
	Omit:     configurationOnly,
	Masked:   []string{"env"},
	Filters:  []string{"category", "image", "public", "serverless"},
}
