package datasources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

type endpointReleases struct {
	api.Releases
	All []release `tfsdk:"releases"`
}

type release struct {
	api.Release
	Diff []releaseChange `tfsdk:"diff"`
}

type releaseChange struct {
	Field string  `tfsdk:"field"`
	Old   *string `tfsdk:"old"`
	New   *string `tfsdk:"new"`
}

// EndpointReleases is gpucloud_endpoint_releases.
var EndpointReleases = &kit.DataSource[endpointConfig, endpointReleases]{
	Name:    "endpoint_releases",
	Title:   "releases of the endpoint",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The releases of an endpoint: each is a version of its settings, which its workers get one after the other. API v2 only.",
		Attributes: map[string]schema.Attribute{
			"endpoint_id":      endpointIDAttribute,
			"endpoint_version": integer("Number of the newest release."),
			"rollout": object("How far the newest release has come.", map[string]schema.Attribute{
				"in_progress": boolean("Whether workers have an older one."), "workers_on_latest": integer("Workers that have it."),
				"workers_total": integer("All workers."), "percent_on_latest": integer("Percentage of the workers that have it; 0 without workers."),
			}),
			"releases": objects("The releases, the newest first.", map[string]schema.Attribute{
				"id":                 text("Id of the release."),
				"version":            integer("Its number."),
				"source":             text("`MANUAL` or `GIT_BUILD`."),
				"build_id":           text("Id of the build that it comes from."),
				"created_by_user_id": text("Id of the user that made it."),
				"worker_count":       integer("Workers that have it."),
				"created_at":         text("When it was created, as RFC 3339."),
				"diff": objects("Settings that it changed.", map[string]schema.Attribute{
					"field": text("Setting, such as `workers.max`."),
					"old":   text("Value before the change, as JSON. Environment variables are shown as digests."),
					"new":   text("Value after the change, as JSON. Environment variables are shown as digests."),
				}),
			}),
		},
	},
	Validate: func(c diagnostics.Check, m *endpointConfig) { m.validate(c) },
	Read: func(ctx context.Context, c *api.Client, m *endpointConfig) (endpointReleases, error) {
		got, err := c.EndpointReleases(ctx, m.EndpointID.ValueString())
		return endpointReleases{got, convert(got.Releases, func(r api.Release) release {
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
	at := slices.Index(segments, "env")
	name := segments[len(segments)-1]
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(maskEnv(c, v, at >= 0, name)) != nil { // can't fail: v was decoded from JSON
		return nil
	}
	return new(strings.TrimSuffix(out.String(), "\n"))
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
