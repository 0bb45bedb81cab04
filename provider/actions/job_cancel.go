package actions

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/jobrun"
)

var jobCancel = &definition[jobModel]{
	name:    "job_cancel",
	failure: "Could not cancel the job",
	about:   "Cancels a job. A job that has ended isn't an error.",
	attributes: map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: jobrun.EndpointID},
		"job_id":      schema.StringAttribute{Required: true, MarkdownDescription: "Id of the job."},
	},
	validate: func(_ context.Context, c diagnostics.Check, config *jobModel) { config.validate(c) },
	invoke: func(ctx context.Context, c *api.Client, config *jobModel, report reporter) error {
		endpointID, id := config.EndpointID.ValueString(), config.JobID.ValueString()
		job, err := c.Jobs.Status(ctx, endpointID, id)
		switch {
		case err != nil:
			return err
		case job.Finished():
			report("Job %s has ended already, as %s.", id, job.Status)
			return nil
		}
		if _, err = c.Jobs.Cancel(ctx, endpointID, id); err != nil {
			// The job may have ended since the status was read.
			if now, reading := c.Jobs.Status(ctx, endpointID, id); reading != nil || !now.Finished() {
				return fmt.Errorf("job %s is %s: %w", id, job.Status, err)
			}
		}
		report("Job %s, which was %s, is cancelled.", id, job.Status)
		return nil
	},
}

type jobModel struct {
	EndpointID types.String `tfsdk:"endpoint_id"`
	JobID      types.String `tfsdk:"job_id"`
}

func (m *jobModel) validate(c diagnostics.Check) {
	jobrun.CheckID(c, "endpoint_id", m.EndpointID)
	jobrun.CheckID(c, "job_id", m.JobID)
}
