package resources

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

const (
	queue        = "QUEUE"
	loadBalancer = "LOAD_BALANCER"
	queueDelay   = "QUEUE_DELAY"
	requestCount = "REQUEST_COUNT"
)

// Defaults of an endpoint. The versions document different idle timeouts (v1 5 s, v2 10 s). The
// provider always sends one, so that both versions behave alike.
var (
	defaultMinWorkers   = contract.Default[int64](endpointMembers.setting("workers.min").V2)
	defaultMaxWorkers   = contract.Default[int64](endpointMembers.setting("workers.max").V2)
	defaultIdleTimeout  = contract.Default[int64](endpointMembers.setting("workers.idleTimeout").V2)      // s
	defaultScalingValue = contract.Default[api.Scaling](endpointMembers.setting("scaling").V2).QueueDelay // seconds or requests
)

var endpointSchema = schema.Schema{
	MarkdownDescription: "A serverless endpoint: a queue (or a load balancer) in front of workers that scale with the load.\n\n" +
		"The container comes from a template, from the endpoint's own settings (API v2), or from both: the endpoint's settings override the template's, and `env` is merged. The endpoint follows its template: a changed template updates it, in the same apply.\n\n" +
		"Terraform silently drops a misspelled attribute of an object, such as `workers = { maximum = 50 }`: look for each value in the plan.",
	Attributes: containerAttributes(endpointMembers, " With `template_id` they are merged into the template's, and only these keys are checked for drift.", " With `template_id` they are merged into the template's.", attributes{
		"id":                  idAttribute("endpoint"),
		"name":                endpointMembers.text("name", "Name of the endpoint, up to {max} characters. It need not be unique."),
		"type":                withoutDefault(endpointMembers.text("type", "`QUEUE` or `LOAD_BALANCER` (API v2 only; scales on `REQUEST_COUNT`). A change forces replacement. Default `QUEUE`; if omitted, an existing endpoint keeps its type."), true),
		"template_id":         endpointMembers.text("templateId", "Id of a serverless template that the endpoint follows. Required on API v1; on API v2, this or `image` is required."),
		"disk":                withoutDefault(endpointMembers.integer("disk", "Container disk in GB, wiped on restart. Defaults to the template's, or to 50 without a template."), true),
		"gpu":                 keptIfOmitted(gpuAttribute),
		"cpu":                 keptIfOmitted(cpuAttribute),
		"workers":             workersAttribute,
		"scaling":             scalingAttribute,
		"data_center_ids":     endpointMembers.texts("dataCenterIds", "Data centers that workers may run in; default any."),
		"network_volumes":     endpointMembers.texts("networkVolumes", "Ids of the network volumes that workers mount."),
		"timeout":             endpointMembers.integer("timeout", "Longest execution of a job in milliseconds, {min} to {max}; default 600000."),
		"flashboot":           endpointMembers.text("flashboot", "Faster cold starts: `OFF` (default), `FLASHBOOT` or `PRIORITY_FLASHBOOT` (API v2 only). Not returned by API v1."),
		"deletion_protection": deletionProtectionAttribute("endpoint"),
		"max_hourly_cost":     maxHourlyCostAttribute(),
		"wait_for":            endpointWaitAttribute,
		"timeouts":            timeoutsAttribute,
		"created_at":          stableText("When the endpoint was created, as RFC 3339."),
		"request_urls": schema.SingleNestedAttribute{
			Computed:            true,
			MarkdownDescription: "URLs of the endpoint. A queue endpoint has all but `base`, a load-balancing one `base` and `health`.",
			PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseStateForUnknown()},
			Attributes: map[string]schema.Attribute{
				"base":        urlAttribute("Base of the paths that the workers serve."),
				"run":         urlAttribute("Submits a job (POST)."),
				"run_sync":    urlAttribute("Submits a job and waits for its result (POST)."),
				"status":      urlAttribute("State of a job (GET; put the job's id for `{job_id}`)."),
				"stream":      urlAttribute("Partial output of a job (GET; put the job's id for `{job_id}`)."),
				"cancel":      urlAttribute("Cancels a job (POST; put the job's id for `{job_id}`)."),
				"retry":       urlAttribute("Runs a failed job again (POST; put the job's id for `{job_id}`)."),
				"purge_queue": urlAttribute("Removes the waiting jobs (POST)."),
				"health":      urlAttribute("Counts of jobs and workers (GET)."),
			},
		},
		"from_template": computedObject("Settings that the workers have from the template. If the template changes, or somebody changes the endpoint elsewhere, the plan shows the difference here. API v1 returns only the template's id and the variables. Null without `template_id`. With `ignore_changes = all` the endpoint still follows its template. Let `template_id` refer to the template's resource (`gpucloud_template.worker.id`), so that the template is planned first.", fromTemplateMembers("allowed_cuda_versions")),
	}),
}

// endpointOneVersion lists the attributes that can be configured on one API version only. An update on API v1
// handles changes of most of them, because API v1 has the same settings in a template or under other names.
var endpointOneVersion = slices.Concat(
	handledByKind(api.V2, nil, "image", "args", "entrypoint", "cmd", "disk", "env_wo", "ports", "registry", "gpu.pools"),
	handledByKind(api.V2, []string{"QUEUE"}, "type"), handledByKind(api.V2, []string{"{}"}, "env"), handledByKind(api.V2, []string{"[]"}, "gpu.excluded_types"),
	handledByKind(api.V2, []string{"false"}, "wait_for.rollout"), handledByKind(api.V2, []string{"OFF", "FLASHBOOT"}, "flashboot"),
)

var fromTemplateTypes = objectType(endpointSchema.Attributes["from_template"])

func urlAttribute(text string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: text}
}

var gpuAttribute = optionalObject("GPUs of a worker, chosen by `pools` or by `type_ids`. Without `gpu` and `cpu`, any compute. Adding or removing `gpu` forces replacement.", attributes{
	"pools":          endpointMembers.texts("gpu.pools", "GPU pools, such as `ADA_24`."),
	"excluded_types": endpointMembers.texts("gpu.excludedTypes", "GPU types in the pools that workers must not get."),
	"type_ids": schema.ListAttribute{
		ElementType: types.StringType, Optional: true, Validators: []validator.List{rule.NoNulls{}, rule.SomeElements{}, rule.Unique{}, listvalidator.ValueStringsAre(rule.NonEmpty)},
		MarkdownDescription: "GPU types in order of priority, such as `NVIDIA L4`. API v2 selects GPUs by pools and exclusions: the order is lost, and types that can't be selected in this way are an error.",
	},
	"count":                 endpointMembers.integer("gpu.count", "GPUs per worker."),
	"allowed_cuda_versions": endpointMembers.texts("gpu.allowedCudaVersions", "CUDA versions, as `major.minor`, that a machine may have; default on API v2: the template's. Not together with `min_cuda_version`."),
	"min_cuda_version":      endpointMembers.text("gpu.minCudaVersion", "Minimum CUDA version of a machine, as `major.minor`."),
})

var cpuAttribute = schema.ListNestedAttribute{
	Optional: true,
	MarkdownDescription: "CPU configurations that a worker may have, in order of preference. On API v1 all have the same `vcpu_count`. " +
		"Adding or removing `cpu` forces replacement.",
	Validators: []validator.List{rule.SomeElements{}, rule.Unique{}},
	NestedObject: schema.NestedAttributeObject{
		Attributes: map[string]schema.Attribute{
			"id":         endpointMembers.text("cpu[].id", "CPU flavor, such as `cpu3c`."),
			"vcpu_count": endpointMembers.integer("cpu[].vcpuCount", "vCPUs of a worker: a power of two from 2 up."),
		},
	},
}

var workersAttribute = schema.SingleNestedAttribute{
	Optional:            true,
	Computed:            true,
	MarkdownDescription: "How many workers run, and when idle ones end.",
	Validators:          rule.SomeAttribute,
	Attributes: map[string]schema.Attribute{
		"min":          endpointMembers.integer("workers.min", "Workers that always run."),
		"max":          endpointMembers.integer("workers.max", "Maximum number of workers."),
		"idle_timeout": withoutDefault(endpointMembers.integer("workers.idleTimeout", "Seconds, {min} to {max}, before an idle worker ends. Defaults to {default}. On API v2 a queue with `REQUEST_COUNT` can't set it: the value is null, and {default} s apply."), true),
	},
}

var scalingAttribute = schema.SingleNestedAttribute{
	Optional:            true,
	Computed:            true,
	MarkdownDescription: "When the autoscaler adds workers.",
	Validators:          rule.SomeAttribute,
	Attributes: map[string]schema.Attribute{
		"type":          withoutDefault(endpointMembers.text("scaling.type", "`QUEUE_DELAY` (default of a `QUEUE` endpoint) or `REQUEST_COUNT` (the only one of a `LOAD_BALANCER`)."), true),
		"queue_delay":   withoutDefault(endpointMembers.number("scaling.queueDelay", "With `QUEUE_DELAY`: seconds a job may wait before a worker is added, at least {min}; API v1 takes only whole seconds. Defaults to 4."), true),
		"request_count": withoutDefault(endpointMembers.integer("scaling.requestCount", "With `REQUEST_COUNT`: requests per worker. Defaults to 4."), true),
	},
}

type endpoint struct {
	ID, Name, Type, FlashBoot, CreatedAt                                types.String
	GPU, Workers, Scaling, RequestURLs, FromTemplate, WaitFor, Timeouts types.Object
	CPU                                                                 types.List
	DataCenterIDs, NetworkVolumes                                       types.Set
	Timeout                                                             types.Int64
	DeletionProtection                                                  types.Bool
	MaxHourlyCost                                                       types.Number

	container
	Private endpointPrivate
}

func (m *endpoint) containerParts() (*container, *envDigests) { return &m.container, &m.Private.EnvWO }

type endpointGPU struct {
	Pools, ExcludedTypes, AllowedCUDAVersions types.Set
	TypeIDs                                   types.List
	Count                                     types.Int64
	MinCUDAVersion                            types.String
}

type endpointWorkers struct{ Min, Max, IdleTimeout types.Int64 }

type endpointScaling struct {
	Type         types.String
	QueueDelay   types.Float64
	RequestCount types.Int64
}

func (m *endpoint) expand() (want api.Endpoint) {
	value.Expand(m, &want)
	want.Container = m.container.expand()
	return want
}

// expandWithPools is expand with GPU types translated to pools, if the version needs pools.
func (m *endpoint) expandWithPools(ctx context.Context, c *api.Client) (api.Endpoint, error) {
	want := m.expand()
	if want.GPU == nil || len(want.GPU.TypeIDs) == 0 {
		return want, nil
	}
	pools, excluded, err := c.SelectGPUs(ctx, want.GPU.TypeIDs)
	if err == nil && len(pools) > 0 {
		want.GPU.Pools, want.GPU.ExcludedTypes = pools, excluded
	}
	return want, err
}

// flatten copies a response into the model. An attribute keeps its value if the version returns
// nothing or an equivalent value for it.
func (m *endpoint) flatten(ctx context.Context, c *api.Client, got api.Endpoint) (err error) {
	imported := m.Name.IsNull()
	got.Type = cmp.Or(got.Type, m.Type.ValueString(), queue) // v1 doesn't return it and only has queues
	if id := deref(got.TemplateID); id != "" {
		m.TemplateID = types.StringValue(id)
	}
	if got.Container != nil {
		// With a template, settings that aren't configured are a copy of the template's: see recordRead.
		container := *got.Container
		container.Env = m.withoutWriteOnly(m.Private.EnvWO, container.Env)
		m.container.flatten(container, imported || m.TemplateID.IsNull())
	}
	if m.GPU, err = m.flattenGPU(ctx, c, got.GPU, m.isLinked(got)); err != nil {
		return err
	}
	if cpu := m.expand().CPU; c.Version == api.V1 && (got.CPU == nil || sameCPU(cpu, got.CPU)) {
		got.CPU = cpu // v1 may omit them and doesn't guarantee their order
	}
	scaling := &endpointScaling{Type: types.StringValue(got.Scaling.Type)}
	if got.Scaling.Type == requestCount {
		scaling.RequestCount = types.Int64Value(got.Scaling.RequestCount)
	} else {
		scaling.QueueDelay = value.Float(got.Scaling.QueueDelay)
	}
	m.Scaling = value.Object(scalingAttribute, scaling)
	got.CreatedAt = cmp.Or(m.CreatedAt.ValueString(), got.CreatedAt)
	// API v1 may return all data centers for none, and none for all: keep the configured form.
	allDataCenters := m.Private.AnyDataCenters
	switch prior := value.Strings(m.DataCenterIDs); {
	case len(got.DataCenterIDs) == 0 && (api.AllDataCenters(prior) || sameElements(prior, allDataCenters)):
		got.DataCenterIDs = prior
	case len(prior) == 0 && sameElements(got.DataCenterIDs, allDataCenters):
		got.DataCenterIDs = nil
	}
	// A queue's URLs are derived from queue_url, so both versions show the same URLs. A load
	// balancer's URLs come from the API.
	if got.Type == queue {
		got.RequestURLs = c.Jobs.URLs(got.ID)
	}
	m.Timeout = value.KeepInt(m.Timeout, got.Timeout)
	value.Flatten(got, m, "TemplateID", "GPU", "Scaling", "Timeout")
	return nil
}

func (m *endpoint) flattenGPU(ctx context.Context, c *api.Client, got *api.GPU, linked bool) (types.Object, error) {
	gpu := value.As[endpointGPU](m.GPU)
	switch {
	case got == nil, gpu == nil && len(got.Pools)+len(got.TypeIDs)+len(got.AllowedCUDAVersions) == 0 && got.MinCUDAVersion == "" && got.Count <= 1: // no GPU was selected
		return value.Object[endpointGPU](gpuAttribute, nil), nil
	case gpu == nil:
		gpu = &endpointGPU{}
	}
	switch {
	case len(got.TypeIDs) > 0: // on v1
		if len(gpu.Pools.Elements()) == 0 && !sameElements(value.Strings(gpu.TypeIDs), got.TypeIDs) {
			gpu.TypeIDs = value.KeepList(gpu.TypeIDs, got.TypeIDs)
		}
	case len(gpu.TypeIDs.Elements()) > 0: // on v2, selected by type
		pools, excluded, err := c.SelectGPUs(ctx, value.Strings(gpu.TypeIDs))
		if _, inexpressible := errors.AsType[*api.SelectionError](err); err != nil && !inexpressible {
			return m.GPU, err
		}
		if err != nil || !sameElements(pools, got.Pools) || !sameElements(excluded, got.ExcludedTypes) {
			gpu.TypeIDs = types.List{}
			gpu.Pools = value.KeepSet(gpu.Pools, got.Pools)
			gpu.ExcludedTypes = value.KeepSet(gpu.ExcludedTypes, got.ExcludedTypes)
		}
	case c.Version == api.V2:
		gpu.Pools = value.KeepSet(gpu.Pools, got.Pools)
		gpu.ExcludedTypes = value.KeepSet(gpu.ExcludedTypes, got.ExcludedTypes)
	}
	gpu.Count = types.Int64Value(max(got.Count, 1))
	// Without a template, the CUDA versions are the endpoint's own. A link to a template (API v1) doesn't
	// include them. Otherwise the server may have copied them from the template.
	if m.TemplateID.IsNull() || len(gpu.AllowedCUDAVersions.Elements()) > 0 || linked {
		gpu.AllowedCUDAVersions = value.KeepSet(gpu.AllowedCUDAVersions, got.AllowedCUDAVersions)
	}
	gpu.MinCUDAVersion = value.KeepString(gpu.MinCUDAVersion, got.MinCUDAVersion)
	return value.Object(gpuAttribute, gpu), nil
}

func sameCPU(a, b []api.CPU) bool {
	compare := func(a, b api.CPU) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.VCPUCount, b.VCPUCount)) }
	return slices.Equal(slices.SortedFunc(slices.Values(a), compare), slices.SortedFunc(slices.Values(b), compare))
}

func sameElements(a, b []string) bool { return slices.Equal(sorted(a), sorted(b)) }
