// Package ephemerals holds the provider's ephemeral resources: values that Terraform uses
// during a run and stores in no state or plan.
package ephemerals

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/jobrun"
)

// All lists the constructors of every ephemeral resource.
var All = []func() ephemeral.EphemeralResource{
	func() ephemeral.EphemeralResource { return &job{} },
}

// job is gpucloud_job: it runs a job and returns its output. Its run is a run of the CLI, not of the job.
type job struct{ run *kit.Run }

func (*job) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_job"
}

func (*job) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	attributes := jobrun.Attributes("")
	maps.Copy(attributes, map[string]schema.Attribute{
		"id":             schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the job."},
		"output":         schema.StringAttribute{Computed: true, MarkdownDescription: "What the handler returned, as JSON, for `jsondecode()`; null if it returned nothing."},
		"worker_id":      schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the worker that ran it."},
		"delay_time":     schema.Int64Attribute{Computed: true, MarkdownDescription: "Milliseconds in the queue."},
		"execution_time": schema.Int64Attribute{Computed: true, MarkdownDescription: "Milliseconds of execution."},
	})
	resp.Schema = schema.Schema{
		Attributes: attributes,
		MarkdownDescription: "Runs a job on an endpoint and returns its output, which no state or plan contains. Needs Terraform 1.10 or OpenTofu 1.11. A job that doesn't complete is an error. If Terraform is interrupted or the job exceeds `timeout`, the job is cancelled.\n\n" +
			"**The job runs, and costs money, in every plan and apply.** " + jobrun.CostsWarning + " " +
			"To run a job once after a change, use the action `gpucloud_job_run`.",
	}
}

func (j *job) Configure(_ context.Context, req ephemeral.ConfigureRequest, _ *ephemeral.ConfigureResponse) {
	j.run, _ = req.ProviderData.(*kit.Run)
}

func (*job) ValidateConfig(ctx context.Context, req ephemeral.ValidateConfigRequest, resp *ephemeral.ValidateConfigResponse) {
	var config jobrun.Model
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), &config)...)
	if !resp.Diagnostics.HasError() {
		config.Validate(diagnostics.Check{Diagnostics: &resp.Diagnostics})
	}
}

func (j *job) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	c := j.run.Client(&resp.Diagnostics)
	var model jobrun.Model
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	// Validate the values that were unknown during validation.
	if model.Validate(diagnostics.Check{Diagnostics: &resp.Diagnostics}); resp.Diagnostics.HasError() {
		return
	}
	result, err := model.Run(ctx, c, func(job api.Job) {
		tflog.Info(ctx, "waiting for the end of a job", map[string]any{"job": job.ID, "status": job.Status})
	})
	if err == nil {
		resp.Result.Raw = req.Config.Raw
		err = value.Merge(ctx, (*tfsdk.State)(&resp.Result), result)
	}
	if err != nil {
		resp.Diagnostics.AddError("The job did not complete", err.Error())
	}
}
