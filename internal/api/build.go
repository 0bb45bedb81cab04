package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Build is a build of an endpoint's image from its repository.
type Build struct {
	ID            string  `json:"id" tfsdk:"id"`
	Status        string  `json:"status" tfsdk:"status"`
	CommitHash    *string `json:"commitHash" tfsdk:"commit_hash"`
	CommitMessage *string `json:"commitMessage" tfsdk:"commit_message"`
	Branch        *string `json:"branch" tfsdk:"branch"`
	CommitDate    *string `json:"commitDate" tfsdk:"commit_date"` // RFC 3339
	ImageName     *string `json:"imageName" tfsdk:"image_name"`
	StartedAt     *string `json:"startedAt" tfsdk:"started_at"`     // RFC 3339
	CompletedAt   *string `json:"completedAt" tfsdk:"completed_at"` // RFC 3339
	Error         *string `json:"error" tfsdk:"error"`
}

// EndpointBuilds lists the builds of an endpoint, the newest first (v2 only).
func (c *Client) EndpointBuilds(ctx context.Context, endpointID string) ([]Build, error) {
	all, err := listOfEndpoint[Build](ctx, c, endpointID, "builds", nil)
	for _, b := range all {
		redactTexts(redact.FromContext(ctx), b.CommitMessage, b.Error)
	}
	return all, err
}

// EndpointBuild reads one build of an endpoint (v2 only).
func (c *Client) EndpointBuild(ctx context.Context, endpointID, id string) (out Build, err error) {
	if err := cmp.Or(checkID("endpoint", endpointID), checkID("build", id)); err != nil {
		return out, err
	}
	err = c.deployment.Do(ctx, httpclient.Call{Method: http.MethodGet, URL: c.deployment.settings.BaseURL + "/v2/serverless/" + endpointID + "/builds/" + id}, &out)
	if err == nil && out.ID != id {
		err = otherObject("build", out.ID, id)
	}
	redactTexts(redact.FromContext(ctx), out.CommitMessage, out.Error)
	return out, err
}
