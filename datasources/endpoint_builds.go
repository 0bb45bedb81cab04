package datasources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

type endpointBuilds struct {
	Builds []api.Build `tfsdk:"builds"`
}

// buildAttributes are the attributes of a build. more is added to them.
func buildAttributes(more map[string]schema.Attribute) map[string]schema.Attribute {
	return with(more, map[string]schema.Attribute{
		"status":         text("`PENDING`, `BUILDING`, `UPLOADING` or `TESTING`; at the end `COMPLETED`, `FAILED`, `CANCELLED` or `TEST_FAILED`."),
		"commit_hash":    text("Commit that it builds."),
		"commit_message": text("Message of the commit."),
		"branch":         text("Branch of the commit."),
		"commit_date":    text("When the commit was made, as RFC 3339."),
		"image_name":     text("Image that it made."),
		"started_at":     text("When it started, as RFC 3339."),
		"completed_at":   text("When it ended, as RFC 3339."),
		"error":          text("Why it failed."),
	})
}

// EndpointBuilds is gpucloud_endpoint_builds.
var EndpointBuilds = &kit.DataSource[endpointConfig, endpointBuilds]{
	Name:    "endpoint_builds",
	Title:   "builds of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The builds of an endpoint's image from its repository. A jobrunner builds nothing and has only those of its catalog file. API v2 only.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id": endpointIDAttribute,
			"builds":      objects("The builds, the newest first.", buildAttributes(map[string]schema.Attribute{"id": text("Id of the build.")})),
		},
	},
	Validate: func(c diagnostics.Check, m *endpointConfig) { m.validate(c) },
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (endpointBuilds, error) {
		got, err := c.EndpointBuilds(ctx, m.EndpointID.ValueString())
		return endpointBuilds{listIf(true, got)}, err
	},
}

// EndpointBuild is gpucloud_endpoint_build.
var EndpointBuild = &kit.DataSource[inEndpoint, api.Build]{
	Name:    "endpoint_build",
	Title:   "build of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "A build of an endpoint's image from its repository. API v2 only.",
		Attributes: buildAttributes(map[string]schema.Attribute{
			"endpoint_id": endpointIDAttribute,
			"id":          schema.StringAttribute{Required: true, MarkdownDescription: "Id of the build, such as `build_id` of a release."},
		}),
	},
	Validate: func(c diagnostics.Check, m *inEndpoint) { m.validate(c) },
	Read: func(ctx context.Context, c *api.Client, m *inEndpoint) (api.Build, error) {
		return c.EndpointBuild(ctx, m.EndpointID.ValueString(), m.ID.ValueString())
	},
}
