package resources_test

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// labCatalog is the catalog of the tests.
const labCatalog = `
remove: {data_centers: ["*"], gpus: ["*"], pools: ["*"], cpus: ["*"]}
data_centers:
  - {id: LAB-1, name: Lab one, region: EUROPE, country: FR, volume_types: [STANDARD]}
  - {id: LAB-2, name: Lab two, region: ASIA, country: JP, volume_types: [HIGH_PERFORMANCE, STANDARD]}
  - {id: LAB-3, name: Lab three, region: ASIA, country: JP, volume_types: []}
gpus:
  - {id: LAB Big, memory: 96, price: {secure: 2.10, community: 1.05, serverless: 3.333333333}, max_count: {secure: 4, community: 0}}
  - {id: LAB Small, memory: 16, price: {secure: 0.2, community: 0.1, serverless: 0.5}}
  - {id: LAB Scarce, memory: 48, price: {secure: 0.8, community: 0.3, serverless: 1.5}}
  - {id: LAB Loose, memory: 8, price: {secure: 0.05}}
  - {id: LAB Nowhere, memory: 8, price: {secure: 0.05}}
pools: [{id: LAB_8, types: [LAB Nowhere]}, {id: LAB_96, types: [LAB Big]}, {id: LAB_48, types: [LAB Small, LAB Scarce]}]
cpus:
  - {id: cpuX, name: Fast, vcpu: {min: 2, max: 16}, ram_gb_per_vcpu: 2, price: {secure: 0.04, serverless: 0.031}}
  - {id: cpuY, name: Slow, vcpu: {min: 2, max: 64}, ram_gb_per_vcpu: 2, price: {secure: 0.02, serverless: 0.01}}
stock:
  - {gpus: [LAB Big], data_centers: [LAB-1, LAB-2], level: HIGH}
  - {gpus: [LAB Big], data_centers: [LAB-2], products: [CLUSTER], level: NONE}
  - {gpus: [LAB Small, LAB Loose], data_centers: [LAB-1], level: LOW}
  - {gpus: [LAB Scarce], data_centers: [LAB-2], level: NONE}
  - {cpus: [cpuY], data_centers: [LAB-1], level: NONE}
`

const (
	endpointType = "gpucloud_endpoint"
	volumeType   = "gpucloud_network_volume"
)

func labEndpoint(changes map[string]any) map[string]any {
	return withChanges(map[string]any{"name": "e", "image": "builtin/echo"}, changes)
}

func labPod(changes map[string]any) map[string]any {
	return withChanges(map[string]any{"name": "p", "image": "builtin/echo", "gpu": map[string]any{"id": "LAB Big"}}, changes)
}

func labCluster(gpu string, perPod, pods int, changes map[string]any) map[string]any {
	return withChanges(map[string]any{"name": "c", "type": "TRAINING", "image": "builtin/echo",
		"compute": map[string]any{"gpu_type_id": gpu, "gpu_count_per_pod": perPod, "pod_count": pods}}, changes)
}

func labVolume(dataCenter string, tier any) map[string]any {
	return withChanges(map[string]any{"name": "v", "size": 10, "data_center": dataCenter}, map[string]any{"type": tier})
}

func gpuSettings(changes map[string]any) map[string]any { return map[string]any{"gpu": changes} }

func podCPU(id string, count int) map[string]any {
	return map[string]any{"gpu": nil, "cpu": map[string]any{"id": id, "vcpu_count": count}}
}

func cpuSettings(id string, count int) map[string]any {
	return map[string]any{"cpu": []any{map[string]any{"id": "cpuX", "vcpu_count": 2}, map[string]any{"id": id, "vcpu_count": count}}}
}

// finding is the expected diagnostic of a plan of a new object: one error, one warning, or none.
type finding struct {
	typeName  string
	config    map[string]any
	attribute string
	says      string // part of the text; "" expects no diagnostic
	isWarning bool   // the diagnostic is a warning, not an error
}

func (f finding) expect(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider) {
	t.Helper()
	writes := d.Writes()
	diags := p.Reconfigure().Plan(f.typeName, tfdrive.State{}, f.config).Diagnostics
	found := strings.Join(slices.DeleteFunc(strings.Split(diags.Warnings(), "\n"), func(w string) bool { return strings.Contains(w, "keeps no order") }), "\n")
	switch err := diags.Err(); {
	case err != nil && f.isWarning:
		found = "an error: " + err.Error()
	case err != nil:
		found = err.Error()
	case found != "" && !f.isWarning:
		found = "a warning: " + found
	}
	must.Hold(t, (f.says != "" || found == "") && (strings.HasPrefix(found, f.attribute+":") || f.says == "") && strings.Contains(found, f.says),
		f.typeName, f.config, "the plan says", found, "expected at", f.attribute, "…", f.says)
	must.Equal(t, d.Writes(), writes, f.typeName, f.config, "the plan sent a write")
}

// An id that the catalog lacks is an error at its attribute, or a warning if it is a data center, because the catalog may lack some.
func TestPlanNames(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	findings := []finding{
		{endpointType, labEndpoint(gpuSettings(map[string]any{"type_ids": []any{"LAB Big", "LAB Pig"}})), "gpu.type_ids.1", `Unknown GPU type: gpu.type_ids[1]: The catalog of the deployment has no GPU type "LAB Pig"; did you mean "LAB Big"?`, false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96", "LAB_95"}})), "gpu.pools.*", `has no GPU pool "LAB_95"; did you mean "LAB_96"?`, false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_48"}, "excluded_types": []any{"LAB Smal"}})), "gpu.excluded_types", `got "LAB Smal"; did you mean "LAB Small"?`, false},
		{endpointType, labEndpoint(cpuSettings("cpuZ", 2)), "cpu.1.id", `has no CPU flavor "cpuZ"; did you mean "cpuX" or "cpuY"?`, false},
		{endpointType, labEndpoint(cpuSettings("cpuX", 32)), "cpu.1.vcpu_count", `The CPU flavor "cpuX" has 2 to 16 vCPUs, not 32.`, false},
		{endpointType, labEndpoint(map[string]any{"data_center_ids": []any{"LAB-1", "LAB-9"}}), "data_center_ids.*", `has no data center "LAB-9"; did you mean "LAB-1", "LAB-2" or "LAB-3"?`, true},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "count": 5})), "gpu.count", "The largest machine of LAB_96 has 4 GPUs, and the configuration asks for 5 for each worker.", false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"type_ids": []any{"LAB Big"}, "count": 5})), "gpu.count", "The largest machine of LAB Big has 4 GPUs", false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96", "LAB_48"}, "count": 99})), "gpu.count", "The largest machine of LAB_48, LAB_96 has 8 GPUs", false},
		{podType, labPod(gpuSettings(map[string]any{"id": "Voodoo 2"})), "gpu.id", `has no GPU type "Voodoo 2".`, false},
		{podType, labPod(gpuSettings(map[string]any{"id": "LAB Big", "count": 5})), "gpu.count", `The largest machine with the GPU type "LAB Big" in the SECURE cloud has 4 GPUs, and the configuration asks for 5.`, false},
		{podType, labPod(map[string]any{"cloud": "COMMUNITY"}), "gpu.id", `The COMMUNITY cloud does not offer the GPU type "LAB Big".`, false},
		{podType, labPod(podCPU("cpuZ", 2)), "cpu.id", `has no CPU flavor "cpuZ"`, false},
		{podType, labPod(podCPU("cpuX", 32)), "cpu.vcpu_count", `not 32`, false},
		{clusterType, labCluster("LAB Bog", 1, 2, nil), "compute.gpu_type_id", `did you mean "LAB Big"?`, false},
		{clusterType, labCluster("LAB Big", 8, 2, nil), "compute.gpu_count_per_pod", `has 4 GPUs`, false},
		{volumeType, labVolume("LAB-8", nil), "data_center", `has no data center "LAB-8"`, true},

		{endpointType, labEndpoint(gpuSettings(map[string]any{"type_ids": []any{"LAB Big"}})), "", "", false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_48", "LAB_96"}, "excluded_types": []any{"LAB Scarce"}})), "", "", false},
		{endpointType, labEndpoint(cpuSettings("cpuY", 64)), "", "", false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "count": 4})), "", "", false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96", "LAB_48"}, "count": 5})), "", "", false}, // LAB_48 has a type with enough GPUs
		{podType, labPod(gpuSettings(map[string]any{"id": "LAB Big", "count": 4})), "", "", false},
		{podType, labPod(gpuSettings(map[string]any{"id": "LAB Loose"})), "", "", false},
		{podType, labPod(podCPU("cpuX", 16)), "", "", false},
		{volumeType, labVolume("LAB-1", nil), "", "", false},
		{podType, labPod(gpuSettings(map[string]any{"id": tfdrive.Unknown})), "", "", false},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": tfdrive.Unknown})), "", "", false},
	}
	p := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"stock": "off"}})
	for _, f := range findings {
		f.expect(t, d, p)
	}
	warningProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"names": "warning", "stock": "off"}})
	offProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"names": "off", "stock": "off"}})
	for _, f := range findings {
		switch {
		case f.says == "" || strings.HasSuffix(f.attribute, "excluded_types") || f.attribute == "gpu.type_ids.1": // the latter two stay errors: API v2 can't express the selection
			continue
		case warningProvider.Plan(f.typeName, tfdrive.State{}, f.config).Diagnostics.Err() != nil:
			t.Errorf("%v is rejected", f.config)
		}
		f.isWarning = true
		f.expect(t, d, warningProvider)
		finding{f.typeName, f.config, "", "", false}.expect(t, d, offProvider)
	}
	finding{endpointType, labEndpoint(gpuSettings(map[string]any{"type_ids": []any{"LAB Pig"}})), "gpu.type_ids", "no selection of GPU pools reaches", false}.expect(t, d, offProvider)
}

// API v1 has no catalog, so ids are compared with the documented ones.
func TestPlanNamesV1(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	p := drive(t, d, api.V1)
	serverless, _ := serverlessTemplate(t, d, p, nil)
	template := map[string]any{"image": nil, "template_id": serverless.Get("id")}
	endpoint := func(changes map[string]any) map[string]any { return labEndpoint(withChanges(template, changes)) }
	calls := d.Calls(func() {
		for _, f := range []finding{
			{endpointType, endpoint(gpuSettings(map[string]any{"type_ids": []any{"NVIDIA L4", "NVIDIA L5"}})), "gpu.type_ids.1", `The GPU type "NVIDIA L5" is not documented for management API v1, which has no catalog; did you mean "NVIDIA L4"?`, true},
			{endpointType, endpoint(map[string]any{"cpu": []any{map[string]any{"id": "cpu3x", "vcpu_count": 2}}}), "cpu.0.id", `did you mean "cpu3c", "cpu3g" or "cpu3m"?`, true},
			{endpointType, endpoint(map[string]any{"data_center_ids": []any{"EU-RO-2"}}), "data_center_ids.*", `did you mean "EU-RO-1"?`, true},
			{podType, labPod(nil), "gpu.id", `"LAB Big"`, true},
			{volumeType, labVolume("LAB-1", nil), "data_center", `"LAB-1"`, true},

			{endpointType, endpoint(gpuSettings(map[string]any{"type_ids": []any{"NVIDIA L4", "NVIDIA B200"}})), "", "", false},
			{endpointType, endpoint(map[string]any{"data_center_ids": []any{"EU-RO-1"}}), "", "", false},
			{podType, labPod(podCPU("cpu5m", 2)), "", "", false},
		} {
			f.expect(t, d, p)
		}
	})
	for call := range calls {
		must.Hold(t, !strings.Contains(call, "/v2/"), "on API v1 the plan asks", call)
	}
	offProvider := driveWith(t, d, api.V1, map[string]any{"plan_checks": map[string]any{"names": "off"}})
	finding{podType, labPod(nil), "", "", false}.expect(t, d, offProvider)
}

func TestPlanStock(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	p := drive(t, d, api.V2)
	findings := []finding{
		{podType, labPod(gpuSettings(map[string]any{"id": "LAB Scarce"})), "gpu.id", "Out of stock: gpu.id: The catalog shows no stock of LAB Scarce for pods of the SECURE cloud. The API may refuse to create it.", true},
		{podType, labPod(map[string]any{"gpu": map[string]any{"id": "LAB Scarce"}, "data_center_ids": []any{"LAB-2"}}), "gpu.id", "in LAB-2.", true},
		{endpointType, labEndpoint(gpuSettings(map[string]any{"type_ids": []any{"LAB Scarce"}})), "gpu.type_ids", "for serverless workers. Its workers wait for stock, and its jobs for workers.", true},
		{endpointType, labEndpoint(map[string]any{"gpu": map[string]any{"pools": []any{"LAB_48"}, "excluded_types": []any{"LAB Small"}}}), "gpu.pools", "no stock of LAB Scarce", true},
		{clusterType, labCluster("LAB Big", 1, 2, map[string]any{"data_center_ids": []any{"LAB-2"}}), "compute.gpu_type_id", "for clusters in LAB-2. The API may refuse to create it. There is stock in LAB-1.", true},
		{podType, labPod(withChanges(podCPU("cpuY", 2), map[string]any{"data_center_ids": []any{"LAB-1"}})), "cpu.id", "There is stock in LAB-2, LAB-3.", true},

		{endpointType, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_48"}})), "", "", false},
		{podType, labPod(map[string]any{"data_center_ids": []any{"LAB-2", "LAB-1"}}), "", "", false},
		{clusterType, labCluster("LAB Big", 1, 2, nil), "", "", false},
		{podType, labPod(withChanges(podCPU("cpuY", 2), map[string]any{"data_center_ids": []any{"LAB-2"}})), "", "", false},
		{endpointType, labEndpoint(nil), "", "", false},
		{podType, labPod(map[string]any{"gpu": map[string]any{"id": "LAB Scarce"}, "data_center_ids": tfdrive.Unknown}), "", "", false},
	}
	for _, f := range findings {
		f.expect(t, d, p)
	}
	errorProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"stock": "error"}})
	offProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"stock": "off"}})
	for _, f := range findings {
		f.isWarning = false
		f.expect(t, d, errorProvider)
		finding{f.typeName, f.config, "", "", false}.expect(t, d, offProvider)
	}
}

// A volume needs a data center with its tier. An object that mounts it needs a machine there.
func TestPlanDataCenters(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	p := drive(t, d, api.V2)
	id := map[string]any{}
	for _, place := range []string{"LAB-1", "LAB-2"} {
		id[place] = apply(t, p, volumeType, tfdrive.State{}, withChanges(labVolume(place, nil), map[string]any{"name": place}), "create").Get("id")
	}
	podOn := func(dataCenters []any, place string) map[string]any {
		out := map[string]any{"mounts": map[string]any{"network": []any{map[string]any{"volume_id": id[place], "path": "/data"}}}}
		if dataCenters != nil {
			out["data_center_ids"] = dataCenters
		}
		return out
	}
	endpointOn := func(dataCenters []any, pool string, places ...string) map[string]any {
		out := map[string]any{"gpu": map[string]any{"pools": []any{pool}}}
		var ids []any
		for _, place := range places {
			ids = append(ids, id[place])
		}
		if ids != nil {
			out["network_volumes"] = ids
		}
		if dataCenters != nil {
			out["data_center_ids"] = dataCenters
		}
		return labEndpoint(out)
	}
	findings := []finding{
		{volumeType, labVolume("LAB-1", "HIGH_PERFORMANCE"), "type", "The data center LAB-1 has network volumes of type STANDARD, not HIGH_PERFORMANCE. Data centers with HIGH_PERFORMANCE: LAB-2.", false},
		{volumeType, labVolume("LAB-3", nil), "data_center", "The data center LAB-3 has no network volumes. Data centers with them: LAB-1, LAB-2.", false},
		{podType, labPod(podOn([]any{"LAB-2", "LAB-3"}, "LAB-1")), "data_center_ids", "The network volumes are in none of the data centers. Data centers: LAB-2, LAB-3. Network volumes: " + id["LAB-1"].(string) + " in LAB-1.", false},
		{podType, labPod(withChanges(podOn(nil, "LAB-2"), gpuSettings(map[string]any{"id": "LAB Small"}))), "mounts.network", "offers LAB Small. Network volumes: " + id["LAB-2"].(string) + " in LAB-2. The catalog offers it in: LAB-1.", false},
		{clusterType, labCluster("LAB Loose", 1, 2, map[string]any{"data_center_ids": []any{"LAB-3"}}), "data_center_ids", "No data center that the configuration allows offers LAB Loose. Data centers: LAB-3.", false},
		{endpointType, endpointOn([]any{"LAB-3"}, "LAB_96", "LAB-1", "LAB-2"), "data_center_ids", "The network volumes are in none of the data centers.", false},
		{endpointType, endpointOn([]any{"LAB-3"}, "LAB_48"), "data_center_ids", "offers LAB Small, LAB Scarce.", false},

		{volumeType, labVolume("LAB-2", "HIGH_PERFORMANCE"), "", "", false},
		{volumeType, labVolume("LAB-1", "STANDARD"), "", "", false},
		{podType, labPod(podOn([]any{"LAB-1"}, "LAB-1")), "", "", false},
		{podType, labPod(podOn(nil, "LAB-2")), "", "", false},
		{clusterType, labCluster("LAB Big", 1, 2, map[string]any{"data_center_ids": []any{"LAB-1", "LAB-3"}}), "", "", false},
		{endpointType, endpointOn([]any{"LAB-1"}, "LAB_96", "LAB-1", "LAB-2"), "", "", false}, // one reachable volume is enough
		{endpointType, endpointOn(nil, "LAB_48", "LAB-1", "LAB-2"), "", "", false},
		{endpointType, withChanges(endpointOn([]any{"LAB-3"}, "LAB_48"), map[string]any{"network_volumes": tfdrive.Unknown}), "", "", false},
		{endpointType, withChanges(endpointOn([]any{"LAB-3"}, "LAB_48"), gpuSettings(map[string]any{"pools": []any{"LAB_48", "LAB_8"}})), "", "", false}, // the catalog doesn't locate LAB Nowhere
	}
	stockOff := map[string]any{"stock": "off"}
	p = driveWith(t, d, api.V2, map[string]any{"plan_checks": stockOff})
	warningProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": withChanges(stockOff, map[string]any{"data_centers": "warning"})})
	offProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": withChanges(stockOff, map[string]any{"data_centers": "off"})})
	for _, f := range findings {
		f.expect(t, d, p)
		f.isWarning = true
		f.expect(t, d, warningProvider)
		finding{f.typeName, f.config, "", "", false}.expect(t, d, offProvider)
	}

	v1 := driveWith(t, d, api.V1, map[string]any{"plan_checks": map[string]any{"names": "off"}})
	finding{podType, labPod(podOn([]any{"LAB-2"}, "LAB-1")), "data_center_ids", "The network volumes are in none of the data centers.", false}.expect(t, d, v1)
	finding{podType, labPod(withChanges(podOn(nil, "LAB-2"), gpuSettings(map[string]any{"id": "LAB Small"}))), "", "", false}.expect(t, d, v1)
}

// A plan checks only the changed attributes, except that it always checks the cost of a change.
func TestPlanChecksOnlyChanges(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	lenient := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"names": "off", "stock": "off", "data_centers": "off"}})
	config := labEndpoint(map[string]any{"gpu": map[string]any{"pools": []any{"GONE_1"}}, "data_center_ids": []any{"GONE-1", "LAB-3"}, "workers": map[string]any{"max": 1}})
	state := apply(t, lenient, endpointType, tfdrive.State{}, config, "create")
	p := drive(t, d, api.V2)
	expect := func(p *tfdrive.Provider, changes map[string]any, action, says string) {
		t.Helper()
		planned := p.Reconfigure().Plan(endpointType, state, withChanges(config, changes))
		got := planned.Diagnostics.String()
		must.Hold(t, planned.Action == action && (got == says || says != "" && strings.Contains(got, says)),
			changes, "is planned to", planned.Action, "with", got, "expected", action, "with", says)
	}
	expect(p, nil, "no-op", "")
	expect(p, map[string]any{"name": "another", "workers": map[string]any{"max": 2}}, "update", "")
	expect(p, gpuSettings(map[string]any{"pools": []any{"GONE_1", "LAB_96"}}), "update", "")
	expect(p, gpuSettings(map[string]any{"pools": []any{"GONE_1", "GONE_2"}}), "", `no GPU pool "GONE_2"`)
	expect(p, gpuSettings(map[string]any{"pools": []any{"LAB_96"}}), "", "No common data center")
	expect(p, map[string]any{"gpu": nil}, "replace", "The endpoint will be replaced")

	ofCPUs := withChanges(config, map[string]any{"cpu": []any{map[string]any{"id": "cpuGone", "vcpu_count": 2}}, "gpu": nil, "name": "of CPUs"})
	state, config = apply(t, lenient, endpointType, tfdrive.State{}, ofCPUs, "create"), ofCPUs
	expect(p, map[string]any{"name": "another"}, "update", "")
	expect(p, map[string]any{"cpu": []any{map[string]any{"id": "cpuGone", "vcpu_count": 2}, map[string]any{"id": "cpuX", "vcpu_count": 2}}}, "update", "")
	expect(p, map[string]any{"cpu": []any{map[string]any{"id": "cpuGone", "vcpu_count": 4}}}, "", `no CPU flavor "cpuGone"`)

	podState := apply(t, lenient, podType, tfdrive.State{}, labPod(gpuSettings(map[string]any{"id": "GONE GPU"})), "create")
	for _, c := range []struct {
		changes  map[string]any
		action   string
		rejected bool
	}{
		{nil, "no-op", false},
		{map[string]any{"name": "another"}, "update", false},
		{gpuSettings(map[string]any{"id": "LAB Big"}), "replace", false},
		{gpuSettings(map[string]any{"id": "GONE GPU", "count": 2}), "replace", true}, // the replacement is created with the missing type
	} {
		planned := p.Reconfigure().Plan(podType, podState, labPod(withChanges(gpuSettings(map[string]any{"id": "GONE GPU"}), c.changes)))
		err := planned.Diagnostics.Err()
		must.Hold(t, planned.Action == c.action && c.rejected == (err != nil && strings.Contains(err.Error(), `no GPU type "GONE GPU"`)) && (c.rejected || err == nil),
			c.changes, "is planned to", planned.Action, "with", planned.Diagnostics, "expected", c.action, "with an error:", c.rejected)
	}

	small := labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "count": 1}))
	state, config = apply(t, p, endpointType, tfdrive.State{}, small, "create"), small
	expect(p, gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "count": 5}), "", "More GPUs than a machine has")
	many := labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "count": 5}))
	state, config = apply(t, lenient, endpointType, state, many, "update"), many
	expect(p, map[string]any{"name": "another"}, "update", "")

	capped := driveWith(t, d, api.V2, map[string]any{"max_hourly_cost": 1})
	big := labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96"}}))
	state, config = apply(t, p, endpointType, tfdrive.State{}, big, "create"), big
	expect(capped, nil, "no-op", "")
	expect(capped, map[string]any{"name": "another"}, "", "Above the cost ceiling")
	expect(capped, map[string]any{"name": "another", "max_hourly_cost": 10}, "update", "")
}

func TestUnknownDataCenterIsReportedOnce(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	p := drive(t, d, api.V2)
	for _, ids := range [][]any{{"LAB-9"}, {"LAB-3", "LAB-9"}} {
		diags := p.Reconfigure().Plan(endpointType, tfdrive.State{}, labEndpoint(map[string]any{"gpu": map[string]any{"pools": []any{"LAB_48"}}, "data_center_ids": ids})).Diagnostics
		must.Hold(t, len(diags) == 1 && strings.Contains(diags.Warnings(), `has no data center "LAB-9"`), ids, "the plan says", diags)
	}
	offProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"names": "off"}})
	finding{endpointType, labEndpoint(map[string]any{"gpu": map[string]any{"pools": []any{"LAB_48"}}, "data_center_ids": []any{"LAB-9"}}), "data_center_ids", "No common data center", false}.expect(t, d, offProvider)
}

// A data center that the catalog lacks is an error if it would replace the object, unless unknown names are warnings.
func TestUnknownDataCenterPreventsReplacement(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	p := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"stock": "off"}})
	warningProvider := driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"stock": "off", "names": "warning"}})
	for kind, config := range map[string]func(place string) map[string]any{
		volumeType: func(place string) map[string]any { return labVolume(place, nil) },
		podType:    func(place string) map[string]any { return labPod(map[string]any{"data_center_ids": []any{place}}) },
		clusterType: func(place string) map[string]any {
			return labCluster("LAB Big", 1, 2, map[string]any{"data_center_ids": []any{place}})
		},
	} {
		state := apply(t, p, kind, tfdrive.State{}, config("LAB-1"), "create")
		attribute := map[string]string{volumeType: "data_center"}[kind]
		expectRejection(t, d, p, state, kind, config("LAB-9"), cmp.Or(attribute, "data_center_ids.*"), `has no data center "LAB-9"; did you mean "LAB-1", "LAB-2" or "LAB-3"? The object would be deleted before the API rejects its replacement`)
		planned := warningProvider.Plan(kind, state, config("LAB-9"))
		must.Hold(t, planned.Action == "replace" && strings.Count(planned.Diagnostics.Warnings(), "Unknown data center") == 1,
			kind, "as a warning it is planned to", planned.Action, planned.Diagnostics)
		expectPlan(t, p, kind, state, config("LAB-2"), "replace")
	}
}

// A plan of a thousand objects sends each query of a list once, and writes nothing.
func TestPlanReadsTheCatalogOnce(t *testing.T) {
	count := 1000
	if testing.Short() {
		count = 40
	}
	d := acctest.DeployCatalog(t, labCatalog)
	p := driveWith(t, d, api.V2, map[string]any{"max_hourly_cost": 100})
	configs := map[string]map[string]any{
		endpointType: labEndpoint(map[string]any{"gpu": map[string]any{"pools": []any{"LAB_96"}, "excluded_types": []any{}}, "data_center_ids": []any{"LAB-1"}}),
		podType:      labPod(podCPU("cpuX", 2)),
		clusterType:  labCluster("LAB Big", 1, 2, nil),
		volumeType:   labVolume("LAB-2", "STANDARD"),
	}
	calls := d.Calls(func() {
		for kind, config := range configs {
			for range count / len(configs) {
				must.Succeed(t, p.Plan(kind, tfdrive.State{}, config).Diagnostics.Err())
			}
		}
	})
	want := map[string]int{"GET /v2/catalog/gpus": 3, "GET /v2/catalog/cpus": 2, "GET /v2/catalog/datacenters": 1} // one plain request, and one with the stock for each product
	for call, n := range calls {
		must.Hold(t, (!strings.Contains(call, "/catalog/") || n == want[call]) && n <= 3 && strings.HasPrefix(call, "GET"), n, "×", call)
	}
	must.Equal(t, calls["GET /v2/catalog/gpus"], 3, "calls", calls)
}

// If the catalog can't be read, the plan succeeds and one warning lists the omitted checks.
func TestPlanWithoutCatalog(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		var requests atomic.Int64
		transport := interceptor(func(r *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/v2/catalog/") {
				return nil, nil
			}
			requests.Add(1)
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			return w.Result(), nil
		})
		p := tfdrive.Start(t, provider.NewWithTransport("test", transport)(), withChanges(d.Settings(api.V2), map[string]any{"max_hourly_cost": 1}))
		must.Succeed(t, p.ConfigureDiagnostics.Err())
		var warnings []string
		for _, f := range []finding{
			{typeName: podType, config: labPod(nil)}, {typeName: podType, config: labPod(podCPU("cpuX", 2))}, {typeName: clusterType, config: labCluster("LAB Big", 1, 2, nil)}, {typeName: volumeType, config: labVolume("LAB-1", nil)},
			{typeName: endpointType, config: labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "excluded_types": []any{"LAB Big"}}))},
		} {
			for range 5 {
				diags := p.Plan(f.typeName, tfdrive.State{}, f.config).Diagnostics
				must.Hold(t, diags.Err() == nil, status, diags)
				if w := diags.Warnings(); w != "" {
					warnings = append(warnings, w)
				}
			}
		}
		must.Hold(t, len(warnings) == 1 && strings.Contains(warnings[0], "The plan is not checked against the catalog") && strings.Contains(warnings[0], "max_hourly_cost included"),
			status, "the plans say", warnings)
		must.Equal(t, requests.Load(), 1, status, "the catalog was asked", "times")
	}
}
