package datasources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// endpointConfig is a configuration that names an endpoint.
type endpointConfig struct {
	EndpointID types.String `tfsdk:"endpoint_id"`
}

func (m *endpointConfig) validate(c diagnostics.Check) { validID(c, "endpoint_id", m.EndpointID) }

// inEndpoint is a configuration that names a job or build of an endpoint.
type inEndpoint struct {
	EndpointID types.String `tfsdk:"endpoint_id"`
	ID         types.String `tfsdk:"id"`
}

func (m *inEndpoint) validate(c diagnostics.Check) {
	validID(c, "endpoint_id", m.EndpointID)
	validID(c, "id", m.ID)
}

// EndpointHealth is gpucloud_endpoint_health.
var EndpointHealth = &kit.DataSource[endpointConfig, api.Health]{
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
	Validate: func(c diagnostics.Check, m *endpointConfig) { m.validate(c) },
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (api.Health, error) {
		return c.Jobs.Health(ctx, m.EndpointID.ValueString())
	},
}

var endpointIDAttribute = schema.StringAttribute{Required: true, MarkdownDescription: "Id of the endpoint."}

// validID rejects invalid ids.
func validID(c diagnostics.Check, attribute string, id types.String) {
	if !id.IsNull() && !id.IsUnknown() && !api.ValidID(id.ValueString()) {
		c.Error(attribute, "Invalid value of "+attribute, "Invalid %s: expected letters, digits, - and _ only, got %q.", attribute, id.ValueString())
	}
}
