package datasources

import (
	"cmp"
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// EndpointWorkers is gpucloud_endpoint_workers.
var EndpointWorkers = &kit.DataSource[endpointConfig, api.EndpointWorkers]{
	Name:    "endpoint_workers",
	Title:   "workers of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The active workers of an endpoint, at the moment of the plan or apply. API v2 only; `gpucloud_endpoint_health` counts them on both versions.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id":      endpointIDAttribute,
			"endpoint_version": integer("Number of the endpoint's newest release."),
			"summary": object("Workers by status.", map[string]schema.Attribute{
				"running": integer("With a job."), "idle": integer("Ready, and without a job."), "initializing": integer("Starting."),
				"throttled": integer("Waiting for a GPU or CPU."), "unhealthy": integer("Failing to start."), "total": integer("All."),
			}),
			"workers": objects("The workers, ordered by id.", map[string]schema.Attribute{
				"id":             text("Id of the worker, for `gpucloud_worker_logs`."),
				"status":         text("`RUNNING`, `IDLE`, `INITIALIZING`, `THROTTLED` or `UNHEALTHY`."),
				"is_stale":       boolean("Whether it has an older release than the endpoint."),
				"version":        integer("Number of the release that it has."),
				"gpu_count":      integer("GPUs that it has."),
				"image":          text("Container image."),
				"uptime_seconds": integer("How long it has run."),
				"gpu_type_id":    text("Id of its GPU type."),
				"data_center_id": text("Where it runs."),
				"started_at":     text("When it started, as RFC 3339."),
				"reason":         text("Why it is `THROTTLED` or `UNHEALTHY`, if the deployment says so."),
			}),
		},
	},
	Validate: func(c diagnostics.Check, m *endpointConfig) { m.validate(c) },
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (api.EndpointWorkers, error) {
		got, err := c.EndpointWorkers(ctx, m.EndpointID.ValueString())
		got.Workers = listIf(true, got.Workers)
		slices.SortFunc(got.Workers, func(a, b api.Worker) int { return cmp.Compare(a.ID, b.ID) })
		return got, err
	},
}
