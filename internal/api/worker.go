package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

type Worker struct {
	ID            string  `json:"id" tfsdk:"id"`
	Status        string  `json:"status" tfsdk:"status"`    // RUNNING, IDLE, INITIALIZING, THROTTLED or UNHEALTHY
	IsStale       bool    `json:"isStale" tfsdk:"is_stale"` // older than the endpoint's release
	Version       *int64  `json:"version" tfsdk:"version"`
	GPUCount      int64   `json:"gpuCount" tfsdk:"gpu_count"`
	Image         *string `json:"image" tfsdk:"image"`
	UptimeSeconds *int64  `json:"uptimeSeconds" tfsdk:"uptime_seconds"`
	GPUTypeID     *string `json:"gpuTypeId" tfsdk:"gpu_type_id"`
	DataCenterID  *string `json:"dataCenterId" tfsdk:"data_center_id"`
	StartedAt     *string `json:"startedAt" tfsdk:"started_at"` // RFC 3339
	Reason        *string `json:"reason" tfsdk:"reason"`        // why it is THROTTLED or UNHEALTHY; not in the v2 document
}

type WorkerSummary struct {
	Running      int64 `json:"running" tfsdk:"running"`
	Idle         int64 `json:"idle" tfsdk:"idle"`
	Initializing int64 `json:"initializing" tfsdk:"initializing"`
	Throttled    int64 `json:"throttled" tfsdk:"throttled"`
	Unhealthy    int64 `json:"unhealthy" tfsdk:"unhealthy"`
	Total        int64 `json:"total" tfsdk:"total"`
}

// EndpointWorkers has the workers of an endpoint with their summary.
type EndpointWorkers struct {
	Workers         []Worker      `json:"-" tfsdk:"workers"`
	Summary         WorkerSummary `json:"summary" tfsdk:"summary"`
	EndpointVersion *int64        `json:"endpointVersion" tfsdk:"endpoint_version"`
}

type Release struct {
	ID              string          `json:"id" tfsdk:"id"`
	Version         *int64          `json:"version" tfsdk:"version"`
	Source          string          `json:"source" tfsdk:"source"` // GIT_BUILD or MANUAL
	BuildID         *string         `json:"buildId" tfsdk:"build_id"`
	CreatedByUserID *string         `json:"createdByUserId" tfsdk:"created_by_user_id"`
	WorkerCount     int64           `json:"workerCount" tfsdk:"worker_count"`
	CreatedAt       string          `json:"createdAt" tfsdk:"created_at"` // RFC 3339
	Diff            []ReleaseChange `json:"diff" tfsdk:"-"`
}

type ReleaseChange struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

// Rollout counts the workers with the newest release.
type Rollout struct {
	InProgress      bool  `json:"inProgress" tfsdk:"in_progress"`
	WorkersOnLatest int64 `json:"workersOnLatest" tfsdk:"workers_on_latest"`
	WorkersTotal    int64 `json:"workersTotal" tfsdk:"workers_total"`
	PercentOnLatest int64 `json:"percentOnLatest" tfsdk:"percent_on_latest"`
}

// Releases has the releases of an endpoint, newest first.
type Releases struct {
	EndpointVersion *int64    `json:"endpointVersion" tfsdk:"endpoint_version"`
	Rollout         Rollout   `json:"rollout" tfsdk:"rollout"`
	Releases        []Release `json:"-" tfsdk:"-"`
}

// EndpointWorkers lists the workers of an endpoint (v2 only).
func (c *Client) EndpointWorkers(ctx context.Context, endpointID string) (out EndpointWorkers, err error) {
	out.Workers, err = listOfEndpoint[Worker](ctx, c, endpointID, "workers", &out)
	if err == nil && slices.ContainsFunc(out.Workers, func(w Worker) bool { return deref(w.Reason) != "" }) {
		err = c.RedactEndpoint(ctx, endpointID)
	}
	for _, w := range out.Workers {
		redactTexts(redact.FromContext(ctx), w.Reason)
	}
	return out, err
}

// EndpointReleases lists the releases of an endpoint (v2 only).
func (c *Client) EndpointReleases(ctx context.Context, endpointID string) (out Releases, err error) {
	out.Releases, err = listOfEndpoint[Release](ctx, c, endpointID, "releases", &out)
	return out, err
}

// listOfEndpoint reads a list whose member has the name of its path.
func listOfEndpoint[W any](ctx context.Context, c *Client, endpointID, name string, rest any) ([]W, error) {
	if err := checkID("endpoint", endpointID); err != nil {
		return nil, err
	}
	return allPages[W](ctx, c.deployment, httpclient.Call{URL: c.deployment.settings.BaseURL + "/v2/serverless/" + endpointID + "/" + name}, name, rest)
}

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
func (c *Client) EndpointBuild(ctx context.Context, endpointID, id string) (Build, error) {
	if err := cmp.Or(checkID("endpoint", endpointID), checkID("build", id)); err != nil {
		return Build{}, err
	}
	answer := identified[Build]{kind: "build", want: id, decode: decodePlain[Build]}
	err := c.deployment.Do(ctx, httpclient.Call{Method: http.MethodGet, URL: c.deployment.settings.BaseURL + "/v2/serverless/" + endpointID + "/builds/" + id}, &answer)
	redactTexts(redact.FromContext(ctx), answer.object.CommitMessage, answer.object.Error)
	return answer.object, err
}
