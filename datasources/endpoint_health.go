package datasources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

type endpointHealth struct {
	EndpointID types.String   `tfsdk:"endpoint_id"`
	Jobs       *healthJobs    `tfsdk:"jobs"`
	Workers    *healthWorkers `tfsdk:"workers"`
}

type healthJobs struct {
	Completed  int64 `tfsdk:"completed"`
	Failed     int64 `tfsdk:"failed"`
	InProgress int64 `tfsdk:"in_progress"`
	InQueue    int64 `tfsdk:"in_queue"`
	Retried    int64 `tfsdk:"retried"`
}

type healthWorkers struct {
	Idle         int64 `tfsdk:"idle"`
	Initializing int64 `tfsdk:"initializing"`
	Ready        int64 `tfsdk:"ready"`
	Running      int64 `tfsdk:"running"`
	Throttled    int64 `tfsdk:"throttled"`
	Unhealthy    int64 `tfsdk:"unhealthy"`
}

// EndpointHealth is gpucloud_endpoint_health.
var EndpointHealth = &kit.DataSource[endpointHealth]{
	Name:  "endpoint_health",
	Title: "health of the endpoint",
	Schema: schema.Schema{
		MarkdownDescription: "Counts of the jobs and workers of an endpoint, from the job API, at the moment of the plan or apply: for `check` blocks.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id": endpointIDAttribute,
			"jobs": object("Jobs by state.", map[string]schema.Attribute{
				"completed": integer("Completed."), "failed": integer("Failed."), "in_progress": integer("Running."), "in_queue": integer("Waiting."), "retried": integer("Run again."),
			}),
			"workers": object("Workers by state.", map[string]schema.Attribute{
				"idle": integer("Ready, and without a job."), "initializing": integer("Starting."), "ready": integer("Ready, idle ones included."),
				"running": integer("With a job."), "throttled": integer("Waiting for a GPU or CPU."), "unhealthy": integer("Failing to start."),
			}),
		},
	},
	Validate: func(c diagnostics.Check, m *endpointHealth) { validID(c, "endpoint_id", m.EndpointID) },
	Read: func(ctx context.Context, c *api.Client, m *endpointHealth) error {
		got, err := c.Jobs.Health(ctx, m.EndpointID.ValueString())
		if err != nil {
			return err
		}
		j, w := got.Jobs, got.Workers
		m.Jobs = &healthJobs{int64(j.Completed), int64(j.Failed), int64(j.InProgress), int64(j.InQueue), int64(j.Retried)}
		m.Workers = &healthWorkers{int64(w.Idle), int64(w.Initializing), int64(w.Ready), int64(w.Running), int64(w.Throttled), int64(w.Unhealthy)}
		return nil
	},
}

var endpointIDAttribute = schema.StringAttribute{Required: true, MarkdownDescription: "Id of the endpoint."}

// validID refuses what can't be an id.
func validID(c diagnostics.Check, attribute string, id types.String) {
	if !id.IsNull() && !id.IsUnknown() && !api.ValidID(id.ValueString()) {
		c.Error(attribute, "Invalid value of "+attribute, "Invalid %s: expected letters, digits, - and _ only, got %q.", attribute, id.ValueString())
	}
}
