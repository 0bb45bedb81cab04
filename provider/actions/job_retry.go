package actions

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/jobrun"
)

var jobRetry = &definition[jobRetryModel]{
	name:    "job_retry",
	failure: "Could not retry the job",
	about: "Runs a job that is `FAILED` or `TIMED_OUT` again, under its id and with its input, and waits for its end. Its previous output is removed. " +
		"A job that does not complete is an error; one that takes longer than `timeout` goes on. The service keeps the result of a job for 30 minutes (1 minute if it was submitted to `/runsync`), after which it can't be retried. " + jobrun.Costs,
	attributes: map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: jobrun.EndpointID},
		"job_id":      schema.StringAttribute{Required: true, MarkdownDescription: "Id of the job."},
		"timeout":     timeoutAttribute("How long to wait for the end of the job"),
	},
	validate: func(_ context.Context, c diagnostics.Check, config *jobRetryModel) {
		config.jobModel.validate(c)
		config.patience.validate(c)
	},
	invoke: func(ctx context.Context, c *api.Client, config *jobRetryModel, report reporter) error {
		endpointID := config.EndpointID.ValueString()
		job, err := c.Jobs.Retry(ctx, endpointID, config.JobID.ValueString())
		if err != nil {
			return err
		}
		waiting, done := config.bounded(ctx)
		defer done()
		job, err = c.Jobs.Await(waiting, endpointID, job, reportStatus(report))
		if err == nil {
			report("Job %s is %s after %d ms of execution.", job.ID, job.Status, job.ExecutionTime)
		}
		return err
	},
}

type jobRetryModel struct {
	jobModel
	patience
}

// reportStatus reports each new status of a job.
func reportStatus(report reporter) func(api.Job) {
	last := ""
	return func(now api.Job) {
		if now.Status != last {
			report("Job %s is %s.", now.ID, now.Status)
			last = now.Status
		}
	}
}
