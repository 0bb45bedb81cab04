package datasources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

type job struct {
	EndpointID    types.String `tfsdk:"endpoint_id"`
	ID            types.String `tfsdk:"id"`
	Status        types.String `tfsdk:"status"`
	Output        types.String `tfsdk:"output"`
	Error         types.String `tfsdk:"error"`
	WorkerID      types.String `tfsdk:"worker_id"`
	DelayTime     types.Int64  `tfsdk:"delay_time"`
	ExecutionTime types.Int64  `tfsdk:"execution_time"`
	Retries       types.Int64  `tfsdk:"retries"`
}

// Job is gpucloud_job, the data source: a job that something else has submitted.
var Job = &kit.DataSource[job]{
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
			"output":         text("What the handler returned, as JSON, for `jsondecode()`; null where there is none. Of a job in progress, its latest report."),
			"error":          text("Why the job failed."),
			"worker_id":      text("Id of the worker that has it, or had it last."),
			"delay_time":     integer("Milliseconds in the queue; 0 while it waits."),
			"execution_time": integer("Milliseconds of execution; 0 before its end."),
			"retries":        integer("How often it was dispatched again, after a worker was lost."),
		},
	},
	Validate: func(c diagnostics.Check, m *job) {
		validID(c, "endpoint_id", m.EndpointID)
		validID(c, "id", m.ID)
	},
	Read: func(ctx context.Context, c *api.Client, m *job) error {
		got, err := c.Jobs.Status(ctx, m.EndpointID.ValueString(), m.ID.ValueString())
		none := types.StringNull()
		m.Status = types.StringValue(got.Status)
		m.Output = value.KeepString(none, string(got.Output))
		m.Error = value.KeepString(none, got.Error)
		m.WorkerID = value.KeepString(none, got.WorkerID)
		m.DelayTime, m.ExecutionTime, m.Retries = types.Int64Value(got.DelayTime), types.Int64Value(got.ExecutionTime), types.Int64Value(int64(got.Retries))
		return err
	},
}
