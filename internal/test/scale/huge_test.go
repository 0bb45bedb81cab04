//go:build unix

package scale_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// A plan of a thousand objects of each kind makes as many calls as one of ten.
func TestCallsOfAHugePlan(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 50
	}
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		p := tfdrive.Start(t, provider.New("test")(), map[string]any{"base_url": d.url, "api_key": d.key, "api_version": string(v)})
		must.Succeed(t, p.Configured.Err())
		create := func(kind string, config map[string]any) string {
			state, diags := p.Apply(p.Plan(kind, tfdrive.State{}, config))
			must.Succeed(t, diags.Err())
			return state.Get("id").(string)
		}
		follows := create("gpucloud_template", map[string]any{"name": "base", "image": "i", "serverless": true})
		configs := map[string]map[string]any{
			"gpucloud_template":       {"name": "t-0", "image": "i", "env": map[string]any{"A": "1"}, "ports": []any{"80/http", "22/tcp"}},
			"gpucloud_network_volume": {"name": "v-0", "size": 10, "data_center": "EU-RO-1"},
			"gpucloud_registry_auth":  {"name": "r-0", "username": "u", "password": "p"},
			"gpucloud_endpoint":       {"name": "e-0", "template_id": follows, "gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}},
		}
		gpu := map[string]any{"id": "NVIDIA L4"}
		configs["gpucloud_pod"] = map[string]any{"name": "p-0", "image": "i", "gpu": gpu} // doesn't start: the machine has no GPU
		if v == api.V2 {
			configs["gpucloud_cluster"] = map[string]any{"name": "c-0", "type": "TRAINING", "image": "i", "disk": 10, "compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2}}
			configs["gpucloud_secret"] = map[string]any{"name": "s-0", "value_wo": "v", "value_wo_version": 1}
			configs["gpucloud_global_volume"] = map[string]any{"name": "g-0"}
			configs["gpucloud_registry_delegation"] = map[string]any{"name": "d-0", "resource": "arn:aws:ecr:us-east-2:123456789012:repository/app"}
		}
		created := map[string][]string{}
		for kind, config := range configs {
			first := config["name"].(string)
			created[kind] = []string{create(kind, config)}
			for i := 1; i < n; i++ {
				created[kind] = append(created[kind], d.repeat(t, first, strings.TrimSuffix(first, "0")+fmt.Sprint(i)))
			}
		}

		// An import reads like a refresh, except that of a cluster, which also lists its pods:
		// clusters are imported before. Only every fiftieth object is planned, because plan rules
		// use cached lists.
		clusters := map[string]tfdrive.State{}
		for _, id := range created["gpucloud_cluster"] {
			state, diags := p.Import("gpucloud_cluster", id)
			must.Succeed(t, diags.Err())
			clusters[id] = state
		}
		read := func(kind, id string) (tfdrive.State, tfdrive.Diagnostics) {
			if imported, ok := clusters[id]; ok {
				return p.Read(imported)
			}
			return p.Import(kind, id)
		}
		calls := d.countRequests(func() {
			p.Walk()
			for kind, ids := range created {
				for i, id := range ids {
					state, diags := read(kind, id)
					if err := diags.Err(); err != nil || !state.Exists() {
						t.Fatalf("%s %s: %v", kind, id, err)
					}
					if i%50 != 0 {
						continue
					}
					config := maps.Clone(configs[kind])
					config["name"] = state.Get("name")
					if planned := p.Plan(kind, state, config); planned.Action != "no-op" && planned.Action != "update" {
						t.Fatalf("%s %s: planned to %s: %s", kind, id, planned.Action, planned.Diagnostics)
					}
				}
			}
		})
		// In addition to planCalls: a list of pods, and on v2 lists of clusters, delegations,
		// secrets and global volumes, and the catalog's stock, because an imported endpoint has GPU
		// pools and its configuration has types.
		want := planCalls[v] + map[api.Version]int{api.V1: 1, api.V2: 6}[v]
		must.Equal(t, sum(calls), want, "calls", calls)
	})
}
