package datasources

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

var EndpointWorkers = &kit.DataSource[endpointConfig, api.EndpointWorkers]{
	Name:    "endpoint_workers",
	Title:   "workers of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The active workers of an endpoint, at the moment of the plan or apply. API v2 only; `gpucloud_endpoint_health` counts them on both versions.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id":      endpointIDAttribute,
			"endpoint_version": integer("Version of the endpoint: the number of its newest release."),
			"summary": object("Workers by status.", map[string]schema.Attribute{
				"running": integer("Workers with a job."), "idle": integer("Ready workers without a job."), "initializing": integer("Workers that are starting."),
				"throttled": integer("Workers that wait for a GPU or CPU."), "unhealthy": integer("Workers that can't work: they failed to start, report that they are unhealthy, or died."), "total": integer("All workers."),
			}),
			"workers": objects("The workers, ordered by id.", map[string]schema.Attribute{
				"id":             text("Id of the worker, for `gpucloud_worker_logs`."),
				"status":         text("`RUNNING`, `IDLE`, `INITIALIZING`, `THROTTLED` or `UNHEALTHY`."),
				"is_stale":       boolean("Whether the worker has an older release than the endpoint."),
				"version":        integer("Number of the release that the worker has."),
				"gpu_count":      integer("Number of the worker's GPUs."),
				"image":          text("Container image."),
				"uptime_seconds": integer("Seconds since the worker started."),
				"gpu_type_id":    text("Id of the worker's GPU type."),
				"data_center_id": text("Id of the data center that the worker runs in."),
				"started_at":     text("When the worker started, as RFC 3339."),
				"reason":         text("Why the worker is `THROTTLED` or `UNHEALTHY`, if the deployment says so."),
			}),
		},
	},
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (api.EndpointWorkers, error) {
		got, err := c.EndpointWorkers(ctx, m.EndpointID.ValueString())
		got.Workers = emptyIfNil(got.Workers)
		slices.SortFunc(got.Workers, func(a, b api.Worker) int { return cmp.Compare(a.ID, b.ID) })
		return got, err
	},
}

type endpointConfig struct{ EndpointID types.String }

// endpointPartConfig is a configuration that names a job or build of an endpoint.
type endpointPartConfig struct{ EndpointID, ID types.String }

var EndpointHealth = &kit.DataSource[endpointConfig, api.Health]{
	Name:  "endpoint_health",
	Title: "health of the endpoint",
	Schema: schema.Schema{
		MarkdownDescription: "Counts of the jobs and workers of an endpoint, from the job API, at the moment of the plan or apply: for `check` blocks.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id": endpointIDAttribute,
			"jobs": object("Jobs by state.", map[string]schema.Attribute{
				"completed": integer("Completed jobs."), "failed": integer("Failed jobs."), "in_progress": integer("Running jobs."), "in_queue": integer("Waiting jobs."), "retried": integer("Jobs that ran again after their worker was lost."),
			}),
			"workers": object("Workers by state.", map[string]schema.Attribute{
				"idle": integer("Ready workers without a job."), "initializing": integer("Workers that are starting."), "ready": integer("Ready workers, including idle ones."),
				"running": integer("Workers with a job."), "throttled": integer("Workers that wait for a GPU or CPU."), "unhealthy": integer("Workers that can't work: they failed to start, report that they are unhealthy, or died."),
			}),
		},
	},
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (api.Health, error) {
		return c.Jobs.Health(ctx, m.EndpointID.ValueString())
	},
}

var endpointIDAttribute = requiredID("Id of the endpoint.")

type endpointBuilds struct{ Builds []api.Build }

// buildAttributes are the attributes of a build. more is added to them.
func buildAttributes(more map[string]schema.Attribute) map[string]schema.Attribute {
	return merge(more, map[string]schema.Attribute{
		"status":         text("`PENDING`, `BUILDING`, `UPLOADING` or `TESTING`; at the end `COMPLETED`, `FAILED`, `CANCELLED` or `TEST_FAILED`."),
		"commit_hash":    text("Hash of the commit that is built."),
		"commit_message": text("Message of the commit."),
		"branch":         text("Branch of the commit."),
		"commit_date":    text("When the commit was made, as RFC 3339."),
		"image_name":     text("Name of the image that the build made."),
		"started_at":     text("When the build started, as RFC 3339."),
		"completed_at":   text("When the build ended, as RFC 3339."),
		"error":          text("Why the build failed."),
	})
}

var EndpointBuilds = &kit.DataSource[endpointConfig, endpointBuilds]{
	Name:    "endpoint_builds",
	Title:   "builds of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The builds of an endpoint's image from its repository. A jobrunner builds nothing and returns only the builds in its catalog file. API v2 only.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id": endpointIDAttribute,
			"builds":      objects("The builds, the newest first.", buildAttributes(map[string]schema.Attribute{"id": text("Id of the build.")})),
		},
	},
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (endpointBuilds, error) {
		got, err := c.EndpointBuilds(ctx, m.EndpointID.ValueString())
		return endpointBuilds{emptyIfNil(got)}, err
	},
}

var EndpointBuild = &kit.DataSource[endpointPartConfig, api.Build]{
	Name:    "endpoint_build",
	Title:   "build of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "A build of an endpoint's image from its repository. API v2 only.",
		Attributes: buildAttributes(map[string]schema.Attribute{
			"endpoint_id": endpointIDAttribute,
			"id":          requiredID("Id of the build, such as `build_id` of a release."),
		}),
	},
	Read: func(ctx context.Context, c *api.Client, m *endpointPartConfig) (api.Build, error) {
		return c.EndpointBuild(ctx, m.EndpointID.ValueString(), m.ID.ValueString())
	},
}

type endpointReleases struct {
	EndpointVersion *int64
	Rollout         api.Rollout
	Releases        []release
}

type release struct {
	api.Release
	Diff []releaseChange
}

type releaseChange struct {
	Field    string
	Old, New *string
}

var EndpointReleases = &kit.DataSource[endpointConfig, endpointReleases]{
	Name:    "endpoint_releases",
	Title:   "releases of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The releases of an endpoint. Each release is a version of the endpoint's settings. Workers get a new release one after the other. API v2 only.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id":      endpointIDAttribute,
			"endpoint_version": integer("Number of the newest release."),
			"rollout": object("Rollout of the newest release.", map[string]schema.Attribute{
				"in_progress": boolean("Whether a worker still has an older release."), "workers_on_latest": integer("Workers that have the newest release."),
				"workers_total": integer("All workers."), "percent_on_latest": integer("Percentage of the workers that have the newest release; 0 without workers."),
			}),
			"releases": objects("The releases, the newest first.", map[string]schema.Attribute{
				"id":                 text("Id of the release."),
				"version":            integer("Number of the release."),
				"source":             text("`MANUAL` or `GIT_BUILD`."),
				"build_id":           text("Id of the build that the release comes from."),
				"created_by_user_id": text("Id of the user that made the release."),
				"worker_count":       integer("Workers that have the release."),
				"created_at":         text("When the release was created, as RFC 3339."),
				"diff": objects("Settings that the release changed.", map[string]schema.Attribute{
					"field": text("Setting, such as `workers.max`."),
					"old":   text("Value before the change, as JSON. Environment variables are shown as digests."),
					"new":   text("Value after the change, as JSON. Environment variables are shown as digests."),
				}),
			}),
		},
	},
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (endpointReleases, error) {
		got, err := c.EndpointReleases(ctx, m.EndpointID.ValueString())
		return endpointReleases{got.EndpointVersion, got.Rollout, convert(got.Releases, func(r api.Release) release {
			return release{r, convert(r.Diff, func(d api.ReleaseChange) releaseChange {
				return releaseChange{d.Field, changedValue(c, d.Field, d.Old), changedValue(c, d.Field, d.New)}
			})}
		})}, err
	},
}

// changedValue returns a setting as JSON, or nil. Values of environment variables are digests.
func changedValue(c *api.Client, field string, raw json.RawMessage) *string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // keeps all digits
	var v any
	if decoder.Decode(&v) != nil || v == nil {
		return nil
	}
	segments := strings.Split(field, ".")
	env := slices.Index(segments, "env")
	name := segments[len(segments)-1]
	return new(redact.JSON(maskEnv(c, v, env >= 0, name)))
}

// maskEnv replaces the values of an environment, and of environments inside v.
func maskEnv(c *api.Client, v any, inEnv bool, name string) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = maskEnv(c, member, inEnv || key == "env", key)
		}
		return v
	case []any:
		for i, element := range v {
			v[i] = maskEnv(c, element, inEnv, name)
		}
		return v
	case nil:
		return nil
	}
	if !inEnv {
		return v
	}
	return c.DigestVariable(name, fmt.Sprint(v))
}

// Job is gpucloud_job, the data source: a job that something else has submitted.
var Job = &kit.DataSource[endpointPartConfig, api.Job]{
	Name:  "job",
	Title: "job",
	Schema: schema.Schema{
		MarkdownDescription: "A job of a queue endpoint, by its id: its status and output at the moment of the plan or apply, for `check` blocks. It submits nothing and waits for nothing. " +
			"A result is kept for 30 minutes after the job's end (if it was submitted to `/runsync`: 1 minute, or its `wait` if that is longer); after that, the data source fails.\n\n" +
			"The state contains the output. To run a job, or if its output is secret, use the ephemeral resource `gpucloud_job`.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id":    endpointIDAttribute,
			"id":             requiredID("Id of the job."),
			"status":         text("`IN_QUEUE`, `IN_PROGRESS`, `COMPLETED`, `FAILED`, `CANCELLED` or `TIMED_OUT`."),
			"output":         text("What the handler returned, as JSON, for `jsondecode()`. A running job has its latest progress update here. Null without output."),
			"error":          text("Why the job failed."),
			"worker_id":      text("Id of the worker that has the job, or had it last."),
			"delay_time":     integer("Milliseconds in the queue; 0 while the job waits."),
			"execution_time": integer("Milliseconds of execution; 0 before the job's end."),
			"retries":        integer("How often the job was dispatched again after its worker was lost."),
		},
	},
	Read: func(ctx context.Context, c *api.Client, m *endpointPartConfig) (api.Job, error) {
		return c.Jobs.Status(ctx, m.EndpointID.ValueString(), m.ID.ValueString())
	},
}
