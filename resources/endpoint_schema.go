package resources

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

const (
	queue        = "QUEUE"
	loadBalancer = "LOAD_BALANCER"
	queueDelay   = "QUEUE_DELAY"
	requestCount = "REQUEST_COUNT"
)

// Defaults of an endpoint. The two versions state different idle timeouts (v1
// 5 s, v2 10 s); the provider always sends one, so that the version makes no
// difference.
const (
	defaultMinWorkers   = 0
	defaultMaxWorkers   = 3
	defaultIdleTimeout  = 10 // s
	defaultScalingValue = 4  // seconds or requests
)

// Bounds of timeout in ms, those of a job's policy.executionTimeout, whose
// default it is (description: Limits).
const (
	minTimeout = 5_000
	maxTimeout = 7 * 24 * 60 * 60 * 1000
)

var endpointSchema = schema.Schema{
	MarkdownDescription: "A serverless endpoint: a queue (or a load balancer) in front of workers that scale with the load.\n\n" +
		"The container comes from a template, from the endpoint's own settings (API v2), or from both: the endpoint's win, and `env` is merged. The endpoint follows its template: a changed template updates it, in the same apply.\n\n" +
		"Terraform silently drops a misspelled attribute of an object, such as `workers = { maximum = 50 }`: look for each value in the plan.",
	Attributes: map[string]schema.Attribute{
		"id": idAttribute("endpoint"),
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the endpoint, up to 191 characters. It need not be unique.",
			Validators:          []validator.String{characters(1, 191)},
		},
		"type": schema.StringAttribute{
			Optional: true,
			Computed: true,
			MarkdownDescription: "`QUEUE` or `LOAD_BALANCER` (API v2 only; scales on `REQUEST_COUNT`). " +
				"Forces replacement. Default `QUEUE`; an existing endpoint keeps its type.",
			Validators:    []validator.String{oneOf(queue, loadBalancer)},
			PlanModifiers: []planmodifier.String{createDefault{types.StringValue(queue)}, stringplanmodifier.RequiresReplace()},
		},
		"template_id": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Id of a serverless template that the endpoint follows. API v1 needs one; on API v2 either this or `image` is needed.",
			Validators:          []validator.String{nonEmpty},
		},
		"image": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Container image. API v2 only.",
			Validators:          []validator.String{nonEmpty, imageReference},
		},
		"args": argsAttribute(" API v2 only."),
		"disk": schema.Int64Attribute{
			Optional: true,
			Computed: true,
			MarkdownDescription: "Container disk in GB, wiped on restart. Defaults to the template's, or to 50 without a template. " +
				"API v2 only.",
			Validators: positive,
		},
		"env":            envAttribute(" With `template_id` they are merged into the template's, and only these keys are compared. API v2 only."),
		"env_wo":         envWOAttribute(" With `template_id` they are merged into the template's. API v2 only."),
		"env_wo_version": envWOVersionAttribute(),
		"env_wo_keys":    envWOKeysAttribute(),
		"ports":          portsAttribute(" API v2 only."),
		"registry":       registryAttribute(" API v2 only."),
		"gpu":            keptAttribute(gpuAttribute),
		"cpu":            keptAttribute(cpuAttribute),
		"workers":        workersAttribute,
		"scaling":        scalingAttribute,
		"data_center_ids": schema.SetAttribute{
			ElementType:         types.StringType,
			Optional:            true,
			MarkdownDescription: "Data centers that workers may run in; default any.",
			Validators:          someStrings,
		},
		"network_volumes": schema.SetAttribute{
			ElementType:         types.StringType,
			Optional:            true,
			MarkdownDescription: "Ids of the network volumes that workers mount.",
			Validators:          someStrings,
		},
		"timeout": schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: "Longest execution of a job in milliseconds, 5000 to 604800000; default 600000.",
			Validators:          []validator.Int64{between(minTimeout, maxTimeout).in("milliseconds (10 minutes are 600000)")},
		},
		"flashboot": schema.StringAttribute{
			Optional:            true,
			Computed:            true,
			Default:             stringdefault.StaticString("OFF"),
			MarkdownDescription: "Faster cold starts: `OFF` (default), `FLASHBOOT` or `PRIORITY_FLASHBOOT` (API v2 only). Not returned by API v1.",
			Validators:          []validator.String{oneOf("OFF", "FLASHBOOT", "PRIORITY_FLASHBOOT")},
		},
		"deletion_protection": deletionProtectionAttribute("endpoint"),
		"max_hourly_cost":     maxHourlyCostAttribute(),
		"wait_for":            endpointWaitAttribute,
		"timeouts":            timeoutsAttribute,
		"created_at": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "When the endpoint was created, in RFC 3339.",
			PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
		"request_urls": schema.SingleNestedAttribute{
			Computed:            true,
			MarkdownDescription: "Where the endpoint is reached. A queue endpoint has all but `base`, a load-balancing one `base` and `health`.",
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
		"from_template": schema.SingleNestedAttribute{
			Computed:            true,
			MarkdownDescription: "Settings that the workers have from the template. A plan shows what changes here, because of the template or because somebody changed the endpoint. API v1 returns only the link and the variables. Null without `template_id`. Refer to a template of the configuration by its resource.",
			Attributes:          fromTemplateMembers("allowed_cuda_versions"),
		},
	},
}

var fromTemplateTypes = endpointSchema.Attributes["from_template"].GetType().(attr.TypeWithAttributeTypes).AttributeTypes()

func urlAttribute(text string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: text}
}

var gpuAttribute = schema.SingleNestedAttribute{
	Optional:            true,
	MarkdownDescription: "GPUs of a worker, chosen by `pools` or by `type_ids`. Without `gpu` and `cpu`, any compute. Adding or removing the block forces replacement.",
	Attributes: map[string]schema.Attribute{
		"pools": schema.SetAttribute{
			ElementType:         types.StringType,
			Optional:            true,
			MarkdownDescription: "GPU pools, such as `ADA_24`. API v2 only.",
			Validators:          append([]validator.Set{someElements{}}, someStrings...),
		},
		"excluded_types": schema.SetAttribute{
			ElementType:         types.StringType,
			Optional:            true,
			MarkdownDescription: "GPU types in the pools that workers must not get. API v2 only.",
			Validators:          someStrings,
		},
		"type_ids": schema.ListAttribute{
			ElementType:         types.StringType,
			Optional:            true,
			MarkdownDescription: "GPU types in order of priority, such as `NVIDIA L4`. API v2 has pools and exclusions instead: the order is lost there, and a selection that they can't express is an error.",
			Validators: []validator.List{
				noNulls{},
				someElements{},
				unique{},
				listvalidator.ValueStringsAre(nonEmpty),
			},
		},
		"count": schema.Int64Attribute{
			Optional:            true,
			Computed:            true,
			Default:             int64default.StaticInt64(1),
			MarkdownDescription: "GPUs per worker. Defaults to 1.",
			Validators:          positive,
		},
		"allowed_cuda_versions": cudaVersionsAttribute("CUDA versions, as `major.minor`, that a machine may have; on API v2 the template's when left out. Not together with `min_cuda_version`."),
		"min_cuda_version": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Lowest CUDA version, as `major.minor`, that a machine may have.",
			Validators:          []validator.String{cudaVersion},
		},
	},
}

var cpuAttribute = schema.ListNestedAttribute{
	Optional: true,
	MarkdownDescription: "CPU configurations that a worker may have, in order of preference. On API v1 all have the same `vcpu_count`. " +
		"Adding or removing the block forces replacement.",
	Validators: []validator.List{someElements{}, unique{}},
	NestedObject: schema.NestedAttributeObject{
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "CPU flavour, such as `cpu3c`.",
				Validators:          []validator.String{nonEmpty},
			},
			"vcpu_count": schema.Int64Attribute{
				Required:            true,
				MarkdownDescription: "vCPUs of a worker: a power of two from 2 up.",
				Validators:          vcpuCounts,
			},
		},
	},
}

var workersAttribute = schema.SingleNestedAttribute{
	Optional:            true,
	Computed:            true,
	MarkdownDescription: "Bounds of the autoscaler.",
	Validators:          value.NotEmpty,
	Default: objectdefault.StaticValue(types.ObjectValueMust(
		map[string]attr.Type{"min": types.Int64Type, "max": types.Int64Type, "idle_timeout": types.Int64Type},
		map[string]attr.Value{
			"min":          types.Int64Value(defaultMinWorkers),
			"max":          types.Int64Value(defaultMaxWorkers),
			"idle_timeout": types.Int64Unknown(),
		},
	)),
	Attributes: map[string]schema.Attribute{
		"min": schema.Int64Attribute{
			Optional:            true,
			Computed:            true,
			Default:             int64default.StaticInt64(defaultMinWorkers),
			MarkdownDescription: "Workers that always run. Defaults to 0.",
			Validators:          []validator.Int64{atLeast[int64](0), notHuge[int64]()},
		},
		"max": schema.Int64Attribute{
			Optional:            true,
			Computed:            true,
			Default:             int64default.StaticInt64(defaultMaxWorkers),
			MarkdownDescription: "Most workers at a time. Defaults to 3.",
			Validators:          []validator.Int64{atLeast[int64](0), notHuge[int64]()},
		},
		"idle_timeout": schema.Int64Attribute{
			Optional: true,
			Computed: true,
			MarkdownDescription: "Seconds, 1 to 3600, before an idle worker ends. Defaults to 10. " +
				"On API v2 null with `REQUEST_COUNT`, where it is 10 s.",
			Validators: []validator.Int64{between(1, 3600).in("seconds")},
		},
	},
}

var scalingAttribute = schema.SingleNestedAttribute{
	Optional:            true,
	Computed:            true,
	MarkdownDescription: "What the autoscaler looks at.",
	Validators:          value.NotEmpty,
	Attributes: map[string]schema.Attribute{
		"type": schema.StringAttribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: "`QUEUE_DELAY` (default of a `QUEUE` endpoint) or `REQUEST_COUNT` (the only one of a `LOAD_BALANCER`).",
			Validators:          []validator.String{oneOf(queueDelay, requestCount)},
		},
		"queue_delay": schema.Float64Attribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: "With `QUEUE_DELAY`: seconds a job may wait before a worker is added, at least 0.5; whole seconds from 1 on API v1. Defaults to 4.",
			Validators:          []validator.Float64{atLeast(0.5), notHuge[float64]()},
		},
		"request_count": schema.Int64Attribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: "With `REQUEST_COUNT`: requests per worker. Defaults to 4.",
			Validators:          positive,
		},
	},
}
