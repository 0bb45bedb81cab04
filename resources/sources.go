package resources

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
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

// placement are requirements on a pod's machine that only API v1 accepts, and that no read copies into the state. Removing
// interruptible replaces the pod; removing any other doesn't.
var placement = []string{
	"interruptible", "support_public_ip", "country_codes", "gpu_type_priority", "cpu_flavor_priority", "data_center_priority",
	"min_ram_per_gpu", "min_vcpu_per_gpu", "min_disk_bandwidth_mbps", "min_download_mbps", "min_upload_mbps",
}

var clusters = &kit.DerivedSources[cluster]{
	Kind:    Cluster,
	Omit:    slices.Concat([]string{"template_id"}, clusterTemplateAttributes, createOnly, configurationOnly),
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

var pods = &kit.DerivedSources[pod]{
	Complete:       func(m *pod) { m.command().complete() },
	Kind:           Pod,
	Omit:           slices.Concat([]string{"desired_state", "from_template"}, createOnly, placement, configurationOnly),
	Masked:         []string{"env"},
	Filters:        []string{"status", "cloud", "image"},
	Except:         ", except members of clusters,",
	OneVersionOnly: []planrule.OneVersion{{Version: api.V2, Attribute: "status", Except: []string{api.PodRunning, api.PodExited}, HandledByKind: true}}, // API v1 returns only these
}

var endpoints = &kit.DerivedSources[endpoint]{
	Complete:       func(m *endpoint) { m.command().complete() },
	Kind:           Endpoint,
	Omit:           append([]string{"from_template"}, configurationOnly...), // from_template is only for endpoints that the provider manages
	Masked:         []string{"env"},
	Filters:        []string{"type"},
	OneVersionOnly: []planrule.OneVersion{{Version: api.V2, Attribute: "type"}}, // on API v1 a load balancer looks like a queue
}

var networkVolumes = &kit.DerivedSources[networkVolume]{
	Kind:    NetworkVolume,
	Omit:    configurationOnly,
	Filters: []string{"data_center", "size", "type"},
}

var globalVolumes = &kit.DerivedSources[globalVolume]{
	Kind:    GlobalVolume,
	Omit:    configurationOnly,
	Filters: []string{"created_by_user_id"},
}

var secrets = &kit.DerivedSources[secret]{
	Kind: Secret,
	Omit: []string{"value_wo_version"}, // the API returns no values
}

var registryAuths = &kit.DerivedSources[registryAuth]{
	Kind: RegistryAuth,
	Omit: []string{"username", "password", "password_wo_version"}, // the API returns no credentials
}

var registryDelegations = &kit.DerivedSources[registryDelegation]{
	Kind:    RegistryDelegation,
	Filters: []string{"aws_region", "repository", "tag"},
}

var accountKeys = &kit.DerivedSources[sshKeys]{
	Kind:     SSHKeys,
	SingleID: account,
	Omit:     []string{"keep_others"}, // only a configuration has it
}

var templates = &kit.DerivedSources[template]{
	Complete: func(m *template) { m.command().complete() },
	Kind:     Template,
	Omit:     configurationOnly,
	Masked:   []string{"env"},
	Filters:  []string{"category", "image", "public", "serverless"},
}

// newCollectionKind completes a kind whose objects are a collection of the client: it sets the title
// (the name in words, unless the kind has one), Objects and Delete, and adds each other function that the
// kind lacks. expand and flatten convert an object; nil converts all fields by name.
func newCollectionKind[M, T any](k kit.Kind[M], collection func(*api.Client) *api.Collection[T], expand func(*M) T, flatten func(*M, T)) *kit.Kind[M] {
	id := func(m *M) string { return value.Text(m, "id").ValueString() }
	k.Title = cmp.Or(k.Title, strings.ReplaceAll(k.Name, "_", " "))
	if expand == nil {
		expand = func(m *M) (object T) { value.Expand(m, &object); return object }
	}
	if flatten == nil {
		flatten = func(m *M, got T) { value.Flatten(got, m) }
	}
	record := func(m *M, got T, err error) error {
		if err == nil {
			flatten(m, got)
		}
		return err
	}
	k.Objects = func(ctx context.Context, c *api.Client) ([]api.NamedObject, error) {
		return collection(c).ListNames(ctx)
	}
	k.Delete = func(ctx context.Context, c *api.Client, state *M) error { return collection(c).Delete(ctx, id(state)) }
	if k.ExistingMatches == nil {
		k.ExistingMatches = func(ctx context.Context, c *api.Client, plan *M) []api.ExistingMatch {
			return collection(c).ExistingMatches(ctx, expand(plan))
		}
	}
	if k.Create == nil {
		k.Create = func(ctx context.Context, c *api.Client, _, plan *M) error {
			got, err := collection(c).Create(ctx, expand(plan))
			return record(plan, got, err)
		}
	}
	if k.Read == nil {
		k.Read = func(ctx context.Context, c *api.Client, state *M) error {
			got, err := collection(c).Refresh(ctx, expand(state))
			return record(state, got, err)
		}
	}
	if k.Update == nil {
		k.Update = func(ctx context.Context, c *api.Client, _, state, plan *M) error {
			have, err := collection(c).Refresh(ctx, expand(state))
			if err != nil {
				return err
			}
			got, err := collection(c).Update(ctx, have, expand(plan))
			return record(plan, got, err)
		}
	}
	return &k
}

// catalogTemplates are the data sources of public templates. They reuse the schema and the
// rules of the data sources of templates.
var catalogTemplates = &kit.DerivedSources[catalogTemplate]{
	Kind: &kit.Kind[catalogTemplate]{
		Name:   "catalog_template",
		Title:  "public template",
		Schema: catalogTemplateSchema,
		Objects: func(ctx context.Context, c *api.Client) ([]api.NamedObject, error) {
			all, err := c.CatalogTemplates(ctx)
			out := make([]api.NamedObject, len(all))
			for i, t := range all {
				out[i] = api.NamedObject{ID: t.ID, Name: t.Name}
			}
			return out, err
		},
		OneVersionOnly: append([]planrule.OneVersion{{Version: api.V2, Attribute: "source", Except: []string{"official", "community"}, HandledByKind: true}}, templateOneVersion...),
		Read: func(ctx context.Context, c *api.Client, state *catalogTemplate) error {
			got, err := c.CatalogTemplate(ctx, state.ID.ValueString())
			if err != nil {
				return err
			}
			state.Source = value.KeepString(types.StringNull(), got.Source)
			state.flatten(got.Template)
			return nil
		},
	},
	Complete: func(m *catalogTemplate) { m.command().complete() },
	Omit:     append([]string{"registry", "public"}, configurationOnly...), // only the owner sees registry; public is always true
	Filters:  []string{"category", "image", "serverless", "source"},
}

type catalogTemplate struct {
	template
	Source types.String
}

var catalogTemplateSchema = func() schema.Schema {
	attributes := maps.Clone(templateSchema.Attributes)
	attributes["source"] = schema.StringAttribute{
		Computed: true, MarkdownDescription: "`official`, `verified` or `community`; API v1 shows `verified` ones as `community`.",
		Validators: []validator.String{rule.OneOf("official", "verified", "community")},
	}
	return schema.Schema{
		MarkdownDescription: "A public template, made by RunPod or shared by a user; the catalog lists at most a hundred of each source. Only its owner can change it.",
		Attributes:          attributes,
	}
}()
