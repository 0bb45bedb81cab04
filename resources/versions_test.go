package resources_test

import (
	"fmt"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// If both versions can express a configuration, switching api_version in either direction plans
// no change.
func TestSwitchingVersions(t *testing.T) {
	t.Parallel()
	both := []struct {
		typeName string
		config   map[string]any
	}{
		{"gpucloud_network_volume", map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}},
		{"gpucloud_network_volume", map[string]any{"name": "v", "size": 4000, "data_center": "US-TX-3"}},
		{"gpucloud_registry_auth", map[string]any{"username": "u", "password": "p"}},
		{"gpucloud_registry_auth", map[string]any{"username": "u", "password_wo": "p", "password_wo_version": 1}},
		{"gpucloud_template", map[string]any{"image": "i"}},
		{"gpucloud_template", map[string]any{"image": "i", "args": `python -u "my handler.py" --quote 'it'"'"'s'`, "disk": 1, "env": map[string]any{"A": "", "B": "ü"},
			"ports": []any{"8888/http", "22/tcp"}, "public": true, "category": "AMD", "mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/data"}}}},
		{"gpucloud_template", map[string]any{"image": "i", "args": "", "env": map[string]any{}, "ports": []any{}, "docker_entrypoint": []any{}, "start_ssh": true, "serverless": true}},
		{"gpucloud_template", map[string]any{"image": "i", "args": " \n ", "ports": []any{"22/tcp", "22/http"}}},
		{"gpucloud_endpoint", nil},
		{"gpucloud_endpoint", map[string]any{"type": "QUEUE", "flashboot": "OFF"}},
		{"gpucloud_endpoint", map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}}},
		{"gpucloud_endpoint", map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA RTX A6000", "NVIDIA A40", "NVIDIA L4"}, "count": 4, "allowed_cuda_versions": []any{"12.8", "12.4"}}}},
		{"gpucloud_endpoint", map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA H200"}, "min_cuda_version": "12.1"}, "flashboot": "FLASHBOOT"}},
		{"gpucloud_endpoint", map[string]any{"cpu": []any{map[string]any{"id": "cpu5g", "vcpu_count": 8}, map[string]any{"id": "cpu3c", "vcpu_count": 8}}}},
		{"gpucloud_endpoint", map[string]any{"workers": map[string]any{"min": 1, "max": 9, "idle_timeout": 3600}, "scaling": map[string]any{"queue_delay": 30}, "timeout": 5000}},
		{"gpucloud_endpoint", map[string]any{"scaling": map[string]any{"type": "REQUEST_COUNT", "request_count": 7}}},
		{"gpucloud_endpoint", map[string]any{"data_center_ids": []any{"EU-RO-1", "EU-CZ-1"}}},
		{"gpucloud_endpoint", map[string]any{"data_center_ids": []any{}, "network_volumes": []any{}, "env": map[string]any{}}},
		{"gpucloud_endpoint", map[string]any{"data_center_ids": everywhere}},
	}
	for i, c := range both {
		t.Run(fmt.Sprint(c.typeName, " ", i), func(t *testing.T) {
			d := acctest.Deploy(t)
			by := map[api.Version]*tfdrive.Provider{api.V1: drive(t, d, api.V1), api.V2: drive(t, d, api.V2)}
			other := map[api.Version]api.Version{api.V1: api.V2, api.V2: api.V1}
			for _, v := range acctest.Versions {
				config := with(c.config, map[string]any{"name": d.Name("by " + string(v))})
				if c.typeName == "gpucloud_endpoint" {
					template := apply(t, by[v], "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("t" + string(v)), "image": "i", "serverless": true, "args": "-x"}, "create")
					config["template_id"] = template.Get("id")
				}
				state := apply(t, by[v], c.typeName, tfdrive.State{}, config, "create")
				state = expectEmptyPlan(t, by[other[v]], state, config)
				state = expectEmptyPlan(t, by[v], state, config)
				// This version reads what the other one then changes.
				if c.typeName != "gpucloud_registry_auth" {
					config["name"] = d.Name("renamed by " + string(other[v]))
					state = apply(t, by[other[v]], c.typeName, state, config, "update")
					expectEmptyPlan(t, by[v], state, config)
				}
			}
		})
	}
}

// An endpoint that scales on requests has the documented idle timeout, although API v2 neither
// accepts nor returns it.
func TestIdleTimeoutOfRequestCount(t *testing.T) {
	d := acctest.Deploy(t)
	v1, v2 := drive(t, d, api.V1), drive(t, d, api.V2)
	template, _ := serverlessTemplate(t, d, v2, nil)
	requests := map[string]any{"name": "e", "template_id": template.Get("id"), "scaling": map[string]any{"type": "REQUEST_COUNT"}}
	delay := map[string]any{"name": "e", "template_id": template.Get("id"), "workers": map[string]any{"idle_timeout": 5}}
	stored := func(s tfdrive.State) int64 {
		t.Helper()
		got := must.Do(d.Client(t, api.V1).Endpoints.Get(t.Context(), s.Get("id").(string)))(t)
		return *got.Workers.IdleTimeout
	}
	for _, c := range []struct {
		name     string
		p        *tfdrive.Provider
		before   map[string]any
		recorded any
	}{
		{"created on v1", v1, nil, 10.0},
		{"created on v2", v2, nil, nil},
		{"changed on v1", v1, delay, 10.0},
		{"changed on v2", v2, delay, nil},
	} {
		var state tfdrive.State
		action := "create"
		if c.before != nil {
			state, action = apply(t, c.p, "gpucloud_endpoint", state, c.before, "create"), "update"
		}
		state = apply(t, c.p, "gpucloud_endpoint", state, requests, action)
		if got := stored(state); got != 10 || state.Get("workers.idle_timeout") != c.recorded {
			t.Errorf("%s: the deployment has %d s, the state %v", c.name, got, state.Get("workers.idle_timeout"))
		}
		expectEmptyPlan(t, v2, expectEmptyPlan(t, v1, state, requests), requests)
	}
	// A version detects drift if it returns the attribute.
	state := apply(t, v1, "gpucloud_endpoint", tfdrive.State{}, requests, "create")
	edit(t, d.Client(t, api.V1).Endpoints, state.Get("id"), func(e *api.Endpoint) { e.Workers.IdleTimeout = new(int64(60)) })
	state = applyRestore(t, v1, state, requests)
	must.Equal(t, stored(state), 10, "after the repair the deployment", "s")
}

// everywhere has all data centers. API v1 returns the same for an endpoint that selects none.
var everywhere = []any{
	"AP-JP-1", "CA-MTL-1", "CA-MTL-2", "CA-MTL-3", "EU-CZ-1", "EU-FR-1", "EU-NL-1", "EU-RO-1", "EU-SE-1", "EUR-IS-1", "EUR-IS-2", "EUR-IS-3", "EUR-NO-1",
	"OC-AU-1", "US-CA-2", "US-DE-1", "US-GA-1", "US-GA-2", "US-IL-1", "US-KS-2", "US-KS-3", "US-NC-1", "US-TX-1", "US-TX-3", "US-TX-4", "US-WA-1",
}

// A template of another configuration may have settings that only one version returns. Its
// endpoint has the same plan on both versions.
func TestSwitchingVersionsBesideAForeignTemplate(t *testing.T) {
	for created, special := range map[api.Version]map[string]any{
		api.V1: {"docker_entrypoint": []any{"/init"}},
		api.V2: {"allowed_cuda_versions": []any{"12.8"}},
	} {
		d := acctest.Deploy(t)
		template, _ := serverlessTemplate(t, d, drive(t, d, created), special)
		config := map[string]any{"name": "e", "template_id": template.Get("id"), "gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}}
		for _, v := range acctest.Versions {
			state := apply(t, drive(t, d, v), "gpucloud_endpoint", tfdrive.State{}, config, "create")
			for _, w := range []api.Version{api.V1, api.V2, api.V1} {
				state = expectEmptyPlan(t, drive(t, d, w), state, config)
			}
		}
	}
}
