package datasources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

type endpointBuilds struct {
	EndpointID types.String `tfsdk:"endpoint_id"`
	Builds     []build      `tfsdk:"builds"`
}

type endpointBuild struct {
	EndpointID types.String `tfsdk:"endpoint_id"`
	ID         types.String `tfsdk:"id"`
	buildFacts
}

type build struct {
	ID string `tfsdk:"id"`
	buildFacts
}

// buildFacts are unset in the configuration of a data source, which is read into them too.
type buildFacts struct {
	Status        *string `tfsdk:"status"`
	CommitHash    *string `tfsdk:"commit_hash"`
	CommitMessage *string `tfsdk:"commit_message"`
	Branch        *string `tfsdk:"branch"`
	CommitDate    *string `tfsdk:"commit_date"`
	ImageName     *string `tfsdk:"image_name"`
	StartedAt     *string `tfsdk:"started_at"`
	CompletedAt   *string `tfsdk:"completed_at"`
	Error         *string `tfsdk:"error"`
}

// buildAttributes are those of a build beside its id.
func buildAttributes(more map[string]schema.Attribute) map[string]schema.Attribute {
	all := map[string]schema.Attribute{
		"status":         text("`PENDING`, `BUILDING`, `UPLOADING` or `TESTING`; at the end `COMPLETED`, `FAILED`, `CANCELLED` or `TEST_FAILED`."),
		"commit_hash":    text("Commit that it builds."),
		"commit_message": text("Message of the commit."),
		"branch":         text("Branch of the commit."),
		"commit_date":    text("When the commit was made, as RFC 3339."),
		"image_name":     text("Image that it made."),
		"started_at":     text("When it started, as RFC 3339."),
		"completed_at":   text("When it ended, as RFC 3339."),
		"error":          text("Why it failed."),
	}
	for name, a := range more {
		all[name] = a
	}
	return all
}

func factsOf(b api.Build) buildFacts {
	return buildFacts{&b.Status, b.CommitHash, b.CommitMessage, b.Branch, b.CommitDate, b.ImageName, b.StartedAt, b.CompletedAt, b.Error}
}

// EndpointBuilds is gpucloud_endpoint_builds.
var EndpointBuilds = &kit.DataSource[endpointBuilds]{
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
	Validate: func(c diagnostics.Check, m *endpointBuilds) { validID(c, "endpoint_id", m.EndpointID) },
	Read: func(ctx context.Context, c *api.Client, m *endpointBuilds) error {
		got, err := c.EndpointBuilds(ctx, m.EndpointID.ValueString())
		m.Builds = convert(got, func(b api.Build) build { return build{b.ID, factsOf(b)} })
		return err
	},
}

// EndpointBuild is gpucloud_endpoint_build.
var EndpointBuild = &kit.DataSource[endpointBuild]{
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
	Validate: func(c diagnostics.Check, m *endpointBuild) {
		validID(c, "endpoint_id", m.EndpointID)
		validID(c, "id", m.ID)
	},
	Read: func(ctx context.Context, c *api.Client, m *endpointBuild) error {
		got, err := c.EndpointBuild(ctx, m.EndpointID.ValueString(), m.ID.ValueString())
		m.buildFacts = factsOf(got)
		return err
	},
}
