//go:build unix

package scale_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// grow creates n of each resource with count without n applies: it repeats the first one's POST with other names.
func (tf *terraform) grow(d *deployment, n int) {
	tf.t.Helper()
	text := must.ReadFile(tf.t, filepath.Join(tf.dir, "terraform.tfstate"))
	var state map[string]any
	must.Succeed(tf.t, json.Unmarshal(text, &state))
	for _, r := range state["resources"].([]any) {
		r := r.(map[string]any)
		instances := r["instances"].([]any)
		first := must.Do(json.Marshal(instances[0]))(tf.t)
		var recorded struct {
			Index      *int `json:"index_key"`
			Attributes struct{ ID, Name string }
		}
		must.Succeed(tf.t, json.Unmarshal(first, &recorded))
		if recorded.Index == nil {
			continue
		}
		for i := len(instances); i < n; i++ {
			name := strings.TrimSuffix(recorded.Attributes.Name, "0") + fmt.Sprint(i)
			id := d.copyObject(tf.t, recorded.Attributes.Name, name)
			var instance map[string]any
			changed := strings.NewReplacer(recorded.Attributes.ID, id, `"`+recorded.Attributes.Name+`"`, `"`+name+`"`).Replace(string(first))
			must.Succeed(tf.t, json.Unmarshal([]byte(changed), &instance))
			instance["index_key"] = i
			instances = append(instances, instance)
		}
		r["instances"] = instances
	}
	tf.write("terraform.tfstate", string(must.Do(json.Marshal(state))(tf.t)))
}

// copyObject creates a copy of a named object under another name, and returns the copy's id.
func (d *deployment) copyObject(t testing.TB, original, name string) string {
	t.Helper()
	d.mu.Lock()
	recorded, ok := d.posted[original]
	d.mu.Unlock()
	must.Require(t, ok, "no object was created with the name", original)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, recorded.path, strings.NewReader(strings.Replace(recorded.body, `"`+original+`"`, `"`+name+`"`, 1)))
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	var created struct{ ID string }
	must.Require(t, json.Unmarshal(w.Body.Bytes(), &created) == nil && created.ID != "", "expected an id from POST", recorded.path, "and got", w.Code, w.Body)
	return created.ID
}

// A plan of a thousand objects of each kind makes as many calls as a plan of ten, apart from further pages of lists.
func TestCallsOfAHugePlan(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 50
	}
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		p := tfdrive.Start(t, provider.New("test")(), map[string]any{"base_url": d.url, "api_key": d.key, "api_version": string(v)})
		must.Succeed(t, p.ConfigureDiagnostics.Err())
		create := func(kind string, config map[string]any) string {
			return tfdrive.Do(p.Apply(p.Plan(kind, tfdrive.State{}, config)))(t).Get("id").(string)
		}
		templateID := create("gpucloud_template", map[string]any{"name": "base", "image": "i", "serverless": true})
		configs := map[string]map[string]any{
			"gpucloud_template":       {"name": "t-0", "image": "i", "env": map[string]any{"A": "1"}, "ports": []any{"80/http", "22/tcp"}},
			"gpucloud_network_volume": {"name": "v-0", "size": 10, "data_center": "EU-RO-1"},
			"gpucloud_registry_auth":  {"name": "r-0", "username": "u", "password": "p"},
			"gpucloud_endpoint":       {"name": "e-0", "template_id": templateID, "gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}},
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
				created[kind] = append(created[kind], d.copyObject(t, first, strings.TrimSuffix(first, "0")+fmt.Sprint(i)))
			}
		}

		// Imports read what refreshes read, except clusters, which are imported before. Every fiftieth object is planned,
		// because plan rules use cached lists.
		clusters := map[string]tfdrive.State{}
		for _, id := range created["gpucloud_cluster"] {
			clusters[id] = tfdrive.Do(p.Import("gpucloud_cluster", id))(t)
		}
		refresh := func(kind, id string) (tfdrive.State, tfdrive.Diagnostics) {
			if imported, ok := clusters[id]; ok {
				return p.Read(imported)
			}
			return p.Import(kind, id)
		}
		calls := d.countRequests(func() {
			p.Reconfigure()
			for kind, ids := range created {
				for i, id := range ids {
					state, diags := refresh(kind, id)
					must.Require(t, diags.Err() == nil && state.Exists(), "refreshing", kind, id, "gave", state, diags)
					if i%50 != 0 {
						continue
					}
					config := maps.Clone(configs[kind])
					config["name"] = state.Get("name")
					planned := p.Plan(kind, state, config)
					must.Require(t, planned.Action == "no-op" || planned.Action == "update",
						"the plan for", kind, id, "is to", planned.Action, planned.Diagnostics, "expected no-op or update")
				}
			}
		})
		// In addition to planCalls: a list of pods, and on v2 lists of four kinds and the catalog's stock, because an
		// imported endpoint has GPU pools and its configuration types.
		want := planCalls[v] + map[api.Version]int{api.V1: 1, api.V2: 6}[v]
		if v == api.V2 && n == 1000 { // a page has at most 1,000 objects; there are 1,001 templates and 3,000 pods, two in each cluster
			want += 3
		}
		must.Equal(t, sum(calls), want, "number of the calls", calls)
	})
}

// BenchmarkPlan measures plans of many templates, in turn with a provider whose resources do nothing. It reports
// the median duration and the mean processor time.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			d := deploy(b)
			tf, baseline := newGrownWorkspaces(b, d, n)
			measurePlans(b, d, tf, baseline)
		})
	}
}

// BenchmarkPlanLimited measures the same on a deployment that allows 60 requests per minute.
func BenchmarkPlanLimited(b *testing.B) {
	d := deploy(b)
	data := b.TempDir()
	d.serve(b, jobrunner.Config{DataDir: data})
	tf, baseline := newGrownWorkspaces(b, d, 1000)
	d.serve(b, jobrunner.Config{DataDir: data, ManagementLimits: true})
	measurePlans(b, d, tf, baseline)
}

func templates(n int) string {
	return fmt.Sprintf(`
resource "gpucloud_template" "t" {
  count = %d
  name  = "t-${count.index}"
  image = "registry.example/worker:1"
  disk  = 20
  env   = { MODEL = "m-7b", LEVEL = "info" }
  ports = ["80/http", "22/tcp"]
}
`, n)
}

// newGrownWorkspaces creates directories with n templates for our provider and for nullprovider.
func newGrownWorkspaces(b *testing.B, d *deployment, n int) (tf, baseline *terraform) {
	b.Helper()
	tf, baseline = newWorkspace(b, d, ourProvider, api.V2), newWorkspace(b, d, nullProvider, api.V2)
	tf.configure(templates(1))
	tf.apply()
	tf.configure(templates(n))
	tf.grow(d, n)
	state := string(must.ReadFile(b, filepath.Join(tf.dir, "terraform.tfstate")))
	baseline.configure(templates(n))
	baseline.write("terraform.tfstate", state)
	return tf, baseline
}

// measurePlans measures plans, which must have no changes.
func measurePlans(b *testing.B, d *deployment, tf, baseline *terraform) {
	b.Helper()
	tf.expectEmptyPlan() // warms the file cache
	baseline.expectEmptyPlan()
	var ourTimes, baselineTimes []time.Duration
	var calls int
	tf.cpu, baseline.cpu = 0, 0
	for b.Loop() {
		start := time.Now()
		baseline.expectEmptyPlan()
		baselineTimes = append(baselineTimes, time.Since(start))
		start = time.Now()
		calls = max(calls, sum(d.countRequests(tf.expectEmptyPlan)))
		ourTimes = append(ourTimes, time.Since(start))
	}
	b.ReportMetric(median(ourTimes).Seconds(), "s/plan")
	b.ReportMetric(median(baselineTimes).Seconds(), "s/baseline")
	b.ReportMetric(median(ourTimes).Seconds()/median(baselineTimes).Seconds(), "ratio")
	b.ReportMetric(float64(calls), "calls/plan")
	b.ReportMetric(tf.cpu.Seconds()/float64(len(ourTimes)), "cpu-s/plan")
	b.ReportMetric(baseline.cpu.Seconds()/float64(len(baselineTimes)), "cpu-s/baseline")
	b.ReportMetric(0, "ns/op") // meaningless, as it includes both
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
