package datasources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

type job struct {
	Status        string `tfsdk:"status"`
	Output        string `tfsdk:"output"`
	Error         string `tfsdk:"error"`
	WorkerID      string `tfsdk:"worker_id"`
	DelayTime     int64  `tfsdk:"delay_time"`
	ExecutionTime int64  `tfsdk:"execution_time"`
	Retries       int    `tfsdk:"retries"`
}

// Job is gpucloud_job, the data source: a job that something else has submitted.
var Job = &kit.DataSource[inEndpoint, job]{
	Name:  "job",
	Title: "job",
	Schema: schema.Schema{
		MarkdownDescription: "A job of a queue endpoint, by its id: its status and output at the moment of the plan or apply, for `check` blocks. It submits nothing and waits for nothing. " +
			"A result is kept for 30 minutes after its end (1 minute after `runsync`); a job that is gone is an error.\n\n" +
			"The state keeps the output: for one that is a secret, and to run a job, use the ephemeral resource of the same name.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id":    endpointIDAttribute,
			"id":             schema.StringAttribute{Required: true, MarkdownDescription: "Id of the job."},
			"status":         text("`IN_QUEUE`, `IN_PROGRESS`, `COMPLETED`, `FAILED`, `CANCELLED` or `TIMED_OUT`."),
			"output":         optionalText("What the handler returned, as JSON, for `jsondecode()`. While the job runs, this is its latest progress update. Null if there is no output."),
			"error":          optionalText("Why the job failed."),
			"worker_id":      optionalText("Id of the worker that has it, or had it last."),
			"delay_time":     integer("Milliseconds in the queue; 0 while it waits."),
			"execution_time": integer("Milliseconds of execution; 0 before its end."),
			"retries":        integer("How often it was dispatched again, after a worker was lost."),
		},
	},
	Validate: func(c diagnostics.Check, m *inEndpoint) { m.validate(c) },
	Read: func(ctx context.Context, c *api.Client, m *inEndpoint) (job, error) {
		got, err := c.Jobs.Status(ctx, m.EndpointID.ValueString(), m.ID.ValueString())
		return job{got.Status, string(got.Output), got.Error, got.WorkerID, got.DelayTime, got.ExecutionTime, got.Retries}, err
	},
}
