package actions

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/jobrun"
)

var jobCancel = &definition[jobModel]{
	name:        "job_cancel",
	failure:     "Could not cancel the job",
	description: "Cancels a job. If the job has ended already, the action succeeds.",
	attributes: map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: jobrun.EndpointIDDescription},
		"job_id":      schema.StringAttribute{Required: true, MarkdownDescription: "Id of the job."},
	},
	validate: func(c diagnostics.Check, config *jobModel) { config.validate(c) },
	invoke: func(ctx context.Context, c *api.Client, config *jobModel, report reporter) error {
		endpointID, id := config.EndpointID.ValueString(), config.JobID.ValueString()
		before, err := c.Jobs.Status(ctx, endpointID, id)
		if err != nil {
			return err
		}
		job := before
		if !before.Finished() {
			job, err = c.Jobs.Cancel(ctx, endpointID, id) // the job may have ended meanwhile
		}
		if err != nil {
			var readErr error
			if job, readErr = c.Jobs.Status(ctx, endpointID, id); readErr != nil || !job.Finished() {
				return fmt.Errorf("job %s is %s: %w", id, before.Status, err)
			}
		}
		if before.Finished() || job.Finished() && job.Status != "CANCELLED" {
			report("Job %s has ended already, as %s.", id, job.Status)
		} else {
			report("Job %s, which was %s, is cancelled.", id, before.Status)
		}
		return nil
	},
}

type jobModel struct{ EndpointID, JobID types.String }

func (m *jobModel) validate(c diagnostics.Check) {
	kit.ValidID(c, "endpoint_id", m.EndpointID)
	kit.ValidID(c, "job_id", m.JobID)
}

var jobRetry = &definition[jobRetryModel]{
	name:    "job_retry",
	failure: "Could not retry the job",
	description: "Runs a job that is `FAILED` or `TIMED_OUT` again, under its id and with its input, and waits for its end. Its previous output is removed. " +
		"If the job doesn't complete, the action fails. If the job takes longer than `timeout`, the action fails, and the job continues. A job can be retried for 30 minutes after its end (if it was submitted to `/runsync`: 1 minute, or its `wait` if that is longer). " + jobrun.CostsWarning,
	attributes: map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: jobrun.EndpointIDDescription},
		"job_id":      schema.StringAttribute{Required: true, MarkdownDescription: "Id of the job."},
		"timeout":     timeoutAttribute("How long to wait for the end of the job"),
	},
	validate: func(c diagnostics.Check, config *jobRetryModel) {
		config.jobModel.validate(c)
		config.timeoutModel.validate(c)
	},
	invoke: func(ctx context.Context, c *api.Client, config *jobRetryModel, report reporter) error {
		endpointID := config.EndpointID.ValueString()
		job, err := c.Jobs.Retry(ctx, endpointID, config.JobID.ValueString())
		if err != nil {
			return err
		}
		waitCtx, cancel := config.withTimeout(ctx)
		defer cancel()
		job, err = c.Jobs.Await(waitCtx, endpointID, job, reportStatus(report))
		if err == nil {
			report("Job %s is %s after %d ms of execution.", job.ID, job.Status, job.ExecutionTime)
		}
		return err
	},
}

type jobRetryModel struct {
	jobModel
	timeoutModel
}

func reportStatus(report reporter) func(api.Job) {
	last := ""
	return func(job api.Job) {
		if job.Status != last {
			report("Job %s is %s.", job.ID, job.Status)
			last = job.Status
		}
	}
}

var jobRun = &definition[jobRunModel]{
	name:    "job_run",
	failure: "The job did not complete as expected",
	description: "Runs a job on an endpoint and checks its output: a smoke test. If the job doesn't complete or has another output than expected, the action fails. " +
		"If Terraform is interrupted or the job exceeds `timeout`, the job is cancelled. " + jobrun.CostsWarning,
	attributes: addJobAttributes(map[string]schema.Attribute{
		"expected_output": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "The whole output, as JSON. Default: any output.",
		},
		"expected_members": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "JSON object that the output must contain, such as `jsonencode({ model = { name = \"sdxl\" } })`. " +
				"The output and its objects may have other members, too.",
		},
	}),
	validate: func(c diagnostics.Check, config *jobRunModel) {
		config.Validate(c)
		if _, err := decode(config.ExpectedOutput); err != nil {
			c.Error("expected_output", "Invalid expected_output", "Invalid expected_output: expected JSON, such as jsonencode({ done = true }): %s.", err)
		}
		members, err := decode(config.ExpectedMembers)
		if _, isObject := members.(map[string]any); err != nil || !isObject && !config.ExpectedMembers.IsNull() && !config.ExpectedMembers.IsUnknown() {
			c.Error("expected_members", "Invalid expected_members", "Invalid expected_members: expected a JSON object, such as jsonencode({ done = true }).")
		}
	},
	invoke: func(ctx context.Context, c *api.Client, config *jobRunModel, report reporter) error {
		job, err := config.Run(ctx, c, reportStatus(report))
		if err != nil {
			return err
		}
		report("Job %s is %s after %d ms in the queue and %d ms of execution.", job.ID, job.Status, job.DelayTime, job.ExecutionTime)
		return config.compare(ctx, c, job)
	},
}

// addJobAttributes adds the attributes of a job. An action can have neither sensitive nor (in this release of
// the framework) write-only attributes.
func addJobAttributes(attributes map[string]schema.Attribute) map[string]schema.Attribute {
	for name, a := range jobrun.Attributes(" A saved plan contains it in clear text.") {
		attributes[name] = a
	}
	return attributes
}

type jobRunModel struct {
	jobrun.Model
	ExpectedOutput, ExpectedMembers types.String
}

const maxShown = 500 // characters of an output in an error

func (m *jobRunModel) compare(ctx context.Context, c *api.Client, job api.Job) error {
	output, err := decodeJSON(cmp.Or(string(job.Output), "null")) // a handler may return nothing
	if err != nil {
		return fmt.Errorf("the output of job %s is not JSON: %w", job.ID, err)
	}
	for _, expected := range []struct {
		attribute string
		value     types.String
		allowMore bool
	}{
		{"expected_output", m.ExpectedOutput, false},
		{"expected_members", m.ExpectedMembers, true},
	} {
		want, err := decode(expected.value)
		if err != nil || expected.value.IsNull() {
			continue // not configured; err is nil, because validate has decoded the value
		}
		if text := difference("output", output, want, expected.allowMore); text != "" {
			_ = c.RedactEndpoint(ctx, m.EndpointID.ValueString()) // fails if the key may run jobs but not read endpoints
			secrets := redact.FromContext(ctx)
			return &diagnostics.AttributeError{Attribute: expected.attribute, Err: fmt.Errorf("job %s completed, and %s. Its output is %s",
				job.ID, secrets.Text(text, 2*maxShown), secrets.Text(redact.JSON(output), maxShown))}
		}
	}
	return nil
}
