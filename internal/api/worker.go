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
	ID            string  `json:"id"`
	Status        string  `json:"status"`  // RUNNING, IDLE, INITIALIZING, THROTTLED or UNHEALTHY
	IsStale       bool    `json:"isStale"` // older than the endpoint's release
	Version       *int64  `json:"version"`
	GPUCount      int64   `json:"gpuCount"`
	Image         *string `json:"image"`
	UptimeSeconds *int64  `json:"uptimeSeconds"`
	GPUTypeID     *string `json:"gpuTypeId"`
	DataCenterID  *string `json:"dataCenterId"`
	StartedAt     *string `json:"startedAt"` // RFC 3339
	Reason        *string `json:"reason"`    // why it is THROTTLED or UNHEALTHY; not in the v2 document
}

type WorkerSummary struct {
	Running      int64 `json:"running"`
	Idle         int64 `json:"idle"`
	Initializing int64 `json:"initializing"`
	Throttled    int64 `json:"throttled"`
	Unhealthy    int64 `json:"unhealthy"`
	Total        int64 `json:"total"`
}

type EndpointWorkers struct {
	Workers         []Worker      `json:"-"`
	Summary         WorkerSummary `json:"summary"`
	EndpointVersion *int64        `json:"endpointVersion"`
}

type Release struct {
	ID              string          `json:"id"`
	Version         *int64          `json:"version"`
	Source          string          `json:"source"` // GIT_BUILD or MANUAL
	BuildID         *string         `json:"buildId"`
	CreatedByUserID *string         `json:"createdByUserId"`
	WorkerCount     int64           `json:"workerCount"`
	CreatedAt       string          `json:"createdAt"` // RFC 3339
	Diff            []ReleaseChange `json:"diff"`
}

type ReleaseChange struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

// Rollout counts the workers with the newest release.
type Rollout struct {
	InProgress      bool  `json:"inProgress"`
	WorkersOnLatest int64 `json:"workersOnLatest"`
	WorkersTotal    int64 `json:"workersTotal"`
	PercentOnLatest int64 `json:"percentOnLatest"`
}

// Releases has the releases of an endpoint, newest first.
type Releases struct {
	EndpointVersion *int64    `json:"endpointVersion"`
	Rollout         Rollout   `json:"rollout"`
	Releases        []Release `json:"-"`
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

// listOfEndpoint reads a list of an endpoint. name is the end of the list's path and its member in the answer.
func listOfEndpoint[W any](ctx context.Context, c *Client, endpointID, name string, rest any) ([]W, error) {
	if err := checkID("endpoint", endpointID); err != nil {
		return nil, err
	}
	return allPages[W](ctx, c.deployment, httpclient.Call{URL: c.deployment.settings.BaseURL + "/v2/serverless/" + endpointID + "/" + name}, name, rest)
}

// Build is a build of an endpoint's image from its repository.
type Build struct {
	ID            string  `json:"id"`
	Status        string  `json:"status"`
	CommitHash    *string `json:"commitHash"`
	CommitMessage *string `json:"commitMessage"`
	Branch        *string `json:"branch"`
	CommitDate    *string `json:"commitDate"` // RFC 3339
	ImageName     *string `json:"imageName"`
	StartedAt     *string `json:"startedAt"`   // RFC 3339
	CompletedAt   *string `json:"completedAt"` // RFC 3339
	Error         *string `json:"error"`
}

// EndpointBuilds lists the builds of an endpoint, the newest first (v2 only).
func (c *Client) EndpointBuilds(ctx context.Context, endpointID string) ([]Build, error) {
	all, err := listOfEndpoint[Build](ctx, c, endpointID, "builds", nil)
	for _, b := range all {
		redactTexts(redact.FromContext(ctx), b.CommitMessage, b.Error)
	}
	return all, err
}

func (c *Client) EndpointBuild(ctx context.Context, endpointID, id string) (Build, error) {
	if err := cmp.Or(checkID("endpoint", endpointID), checkID("build", id)); err != nil {
		return Build{}, err
	}
	answer := objectAnswer[Build]{kind: "build", want: id, decode: decodePlain[Build]}
	_, err := c.deployment.Do(ctx, httpclient.Call{Method: http.MethodGet, URL: c.deployment.settings.BaseURL + "/v2/serverless/" + endpointID + "/builds/" + id}, &answer)
	redactTexts(redact.FromContext(ctx), answer.object.CommitMessage, answer.object.Error)
	return answer.object, err
}
