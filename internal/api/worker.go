package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Worker is an active worker of an endpoint.
type Worker struct {
	ID            string  `json:"id"`
	Status        string  `json:"status"`  // RUNNING, IDLE, INITIALIZING, THROTTLED or UNHEALTHY
	IsStale       bool    `json:"isStale"` // of an older release than the endpoint's
	Version       *int64  `json:"version"`
	GPUCount      int64   `json:"gpuCount"`
	Image         *string `json:"image"`
	UptimeSeconds *int64  `json:"uptimeSeconds"`
	GPUTypeID     *string `json:"gpuTypeId"`
	DataCenterID  *string `json:"dataCenterId"`
	StartedAt     *string `json:"startedAt"` // RFC 3339
	Reason        *string `json:"reason"`    // why it is THROTTLED or UNHEALTHY; the v2 document does not have it
}

// WorkerSummary counts workers by status.
type WorkerSummary struct {
	Running      int64 `json:"running"`
	Idle         int64 `json:"idle"`
	Initializing int64 `json:"initializing"`
	Throttled    int64 `json:"throttled"`
	Unhealthy    int64 `json:"unhealthy"`
	Total        int64 `json:"total"`
}

// EndpointWorkers are those of an endpoint.
type EndpointWorkers struct {
	Workers         []Worker      `json:"-"`
	Summary         WorkerSummary `json:"summary"`
	EndpointVersion *int64        `json:"endpointVersion"`
}

// Release is a version of an endpoint's settings.
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

// ReleaseChange is a setting that a release changed.
type ReleaseChange struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

// Rollout tells how many workers have the newest release.
type Rollout struct {
	InProgress      bool  `json:"inProgress"`
	WorkersOnLatest int64 `json:"workersOnLatest"`
	WorkersTotal    int64 `json:"workersTotal"`
	PercentOnLatest int64 `json:"percentOnLatest"`
}

// Releases are those of an endpoint, the newest first.
type Releases struct {
	EndpointVersion *int64    `json:"endpointVersion"`
	Rollout         Rollout   `json:"rollout"`
	Releases        []Release `json:"-"`
}

// EndpointWorkers lists the workers of an endpoint (v2 only).
func (c *Client) EndpointWorkers(ctx context.Context, endpointID string) (out EndpointWorkers, err error) {
	out.Workers, err = listOfEndpoint[Worker](ctx, c, endpointID, "workers", &out)
	if err == nil && slices.ContainsFunc(out.Workers, func(w Worker) bool { return deref(w.Reason) != "" }) {
		err = c.LearnEndpoint(ctx, endpointID)
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

// listOfEndpoint asks for a list whose member has the name of its path.
func listOfEndpoint[W any](ctx context.Context, c *Client, endpointID, name string, rest any) ([]W, error) {
	if !ValidID(endpointID) {
		return nil, fmt.Errorf("%q can't be the id of an endpoint: an id has letters, digits, - and _ only", endpointID)
	}
	return allPages[W](ctx, c.deployment, httpclient.Call{URL: c.deployment.settings.BaseURL + "/v2/serverless/" + endpointID + "/" + name}, name, rest)
}
