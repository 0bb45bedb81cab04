package datasources_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const labCatalog = `
remove: {data_centers: ["*"], gpus: ["*"], pools: ["*"], cpus: ["*"]}
data_centers:
  - {id: LAB-2, name: Lab two, region: ASIA, country: JP}
  - {id: LAB-1, name: Lab one, region: EUROPE, country: FR, volume_types: [HIGH_PERFORMANCE], compliance: [GDPR], global_network: true}
gpus:
  - {id: NVIDIA Big, name: Big, memory: 96, price: {secure: 1.10, community: 0.123456789, serverless: 2.000000001}, max_count: {secure: 4, community: 0}, cuda_versions: ["12.8", "12.4"]}
  - {id: AMD Small, name: Small, manufacturer: AMD, memory: 16, price: {secure: 0.1}}
  - {id: NVIDIA Twin, name: Twin, memory: 16}
  - {id: NVIDIA Twin Max, name: Twin, memory: 32}
pools: [{id: LAB, types: [NVIDIA Big, NVIDIA Twin]}]
cpus:
  - {id: cpuX, name: Fast, group: Gen 9, vcpu: {min: 2, max: 64}, ram_gb_per_vcpu: 2.5, price: {secure: 0.04, serverless: 0.031}}
  - {id: cpuA, name: Slow, group: Gen 1, vcpu: {min: 2, max: 4}, ram_gb_per_vcpu: 1, price: {secure: 0.01, serverless: 0.01}}
stock:
  - {gpus: ["*"], level: NONE}
  - {gpus: [NVIDIA Big], level: LOW}
  - {gpus: [NVIDIA Big], data_centers: [LAB-2], products: [POD], level: MEDIUM}
  - {gpus: [NVIDIA Twin], data_centers: [LAB-1], level: HIGH}
  - {cpus: [cpuA], level: NONE}
`

func TestGPUTypes(t *testing.T) {
	p := drive(t, acctest.DeployCatalog(t, labCatalog), api.V2)
	all := read(t, p, "gpucloud_gpu_types", nil).Get("gpu_types")
	must.Equal(t, read(t, p, "gpucloud_gpu_types", map[string]any{"product": []any{}}).Get("gpu_types"), all, "without products")
	ids := column(all, "id")
	must.Require(t, slices.Equal(ids, []any{"AMD Small", "NVIDIA Big", "NVIDIA Twin", "NVIDIA Twin Max"}), "listed", ids)
	want := map[string]any{
		"id": "NVIDIA Big", "name": "Big", "pool": "LAB", "manufacturer": "NVIDIA", "memory": 96.0, "secure": true, "community": false,
		"price": map[string]any{"secure": 1.1, "community": 0.123456789, "serverless": 2.000000001}, "max_count": map[string]any{"secure": 4.0, "community": 0.0},
		"availability": nil, "data_centers": nil, "cuda_versions": nil,
	}
	must.Equal[any](t, all.([]any)[1], want)
	got := all.([]any)[0].(map[string]any)
	must.Hold(t, got["pool"] == nil && got["price"].(map[string]any)["serverless"] == nil && got["manufacturer"] == "AMD", "a type in no pool", got)
	pods := map[string]any{"product": []any{"POD"}}
	for _, c := range []struct {
		config map[string]any
		ids    []any
	}{
		{map[string]any{"pool": "LAB"}, []any{"NVIDIA Big", "NVIDIA Twin"}},
		{map[string]any{"pool": "LA"}, nil},
		{map[string]any{"manufacturer": "AMD"}, []any{"AMD Small"}},
		{map[string]any{"min_memory": 32}, []any{"NVIDIA Big", "NVIDIA Twin Max"}},
		{map[string]any{"min_memory": 33, "manufacturer": "NVIDIA"}, []any{"NVIDIA Big"}},
		{withChanges(pods, map[string]any{"min_availability": "LOW"}), []any{"NVIDIA Big", "NVIDIA Twin"}},
		{withChanges(pods, map[string]any{"min_availability": "MEDIUM", "country_codes": []any{"JP"}}), []any{"NVIDIA Big"}},
		{withChanges(pods, map[string]any{"min_availability": "HIGH"}), []any{"NVIDIA Twin"}},
		{withChanges(pods, map[string]any{"min_availability": "LOW", "gpu_count": 5}), []any{"NVIDIA Twin"}},
		{withChanges(pods, map[string]any{"min_availability": "LOW", "with_cuda_versions": []any{"12.4"}}), []any{"NVIDIA Big"}},
	} {
		must.Equal(t, column(read(t, p, "gpucloud_gpu_types", c.config).Get("gpu_types"), "id"), c.ids, c.config)
	}
	serverless := read(t, p, "gpucloud_gpu_type", map[string]any{"name": "Big", "product": []any{"SERVERLESS", "POD"}})
	must.Equal(t, serverless.Get("availability"), "LOW", "the scarcest")
	one := read(t, p, "gpucloud_gpu_type", map[string]any{"id": "NVIDIA Big", "product": []any{"POD"}})
	centers := one.Get("data_centers")
	must.Hold(t, reflect.DeepEqual(column(centers, "availability"), []any{"MEDIUM", "LOW"}) && reflect.DeepEqual(column(one.Get("cuda_versions"), "version"), []any{"12.8", "12.4"}),
		"data centers", centers, "CUDA", one.Get("cuda_versions"))
	// An entry that a filter of the list excludes can be read by name.
	withoutStock := read(t, p, "gpucloud_gpu_type", map[string]any{"name": "Small", "product": []any{"POD"}, "country_codes": []any{"FR"}})
	must.Hold(t, withoutStock.Get("id") == "AMD Small" && withoutStock.Get("availability") == "NONE" && len(withoutStock.Get("data_centers").([]any)) == 0, "without stock", withoutStock.Value)
}

func TestGPUTypeRules(t *testing.T) {
	p := drive(t, acctest.DeployCatalog(t, labCatalog), api.V2)
	for _, c := range []struct {
		config map[string]any
		says   []string
	}{
		{map[string]any{}, []string{"id: Missing id or name"}},
		{map[string]any{"id": "a", "name": "b"}, []string{"name: Both id and name"}},
		{map[string]any{"id": "NVIDIA Bog"}, []string{"id:", `no GPU type with the id NVIDIA Bog; similar: NVIDIA Big`, "GET", "/v2/catalog/gpus/NVIDIA%20Bog: 404", "request id"}},
		{map[string]any{"id": "Big"}, []string{"but NVIDIA Big has this name: set name instead of id"}},
		{map[string]any{"name": "NVIDIA Big"}, []string{"name:", `it is the id of one, named "Big": set id instead of name`}},
		{map[string]any{"name": "Tvin"}, []string{`no GPU type is named "Tvin"; these are similar: "Twin" (NVIDIA Twin), "Twin" (NVIDIA Twin Max)`}},
		{map[string]any{"name": "Twin"}, []string{`2 GPU types are named "Twin"`, "NVIDIA Twin, NVIDIA Twin Max"}},
		{map[string]any{"id": "x", "product": []any{"TPU"}}, []string{`product: `, `expected "POD", "CLUSTER" or "SERVERLESS", got "TPU"`}},
		{map[string]any{"id": "x", "gpu_count": 2}, []string{"gpu_count: Missing product"}},
		{map[string]any{"id": "x", "cloud": "SECURE", "product": []any{}}, []string{"cloud: Missing product"}},
		{map[string]any{"id": "x", "product": []any{"POD"}, "gpu_count": 0}, []string{"expected at least 1, got 0"}},
		{map[string]any{"id": "x", "product": []any{"POD"}, "gpu_count": 1.5}, []string{"expected a whole number, got 1.5"}},
		{map[string]any{"id": "x", "product": []any{"POD"}, "cloud": "DARK"}, []string{`expected "SECURE" or "COMMUNITY", got "DARK"`}},
		{map[string]any{"id": "x", "product": []any{"POD"}, "country_codes": []any{"fr"}}, []string{`expected two capital letters, such as FR, got "fr"`}},
		{map[string]any{"id": "x", "product": []any{"POD"}, "with_cuda_versions": []any{"12"}}, []string{`such as 12.8, got "12"`}},
		{map[string]any{"id": "x", "product": []any{"POD"}, "min_cuda_version": "x"}, []string{`such as 12 or 12.8, got "x"`}},
		{map[string]any{"id": "x", "product": []any{"POD"}, "min_cuda_version": "12", "with_cuda_versions": []any{"12.8"}}, []string{"min_cuda_version conflicts with with_cuda_versions"}},
	} {
		expectErrors(t, p, "gpucloud_gpu_type", c.config, c.says...)
	}
	expectErrors(t, p, "gpucloud_gpu_types", map[string]any{"min_availability": "LOW"}, "min_availability: Missing product")
	expectErrors(t, p, "gpucloud_gpu_types", map[string]any{"min_availability": "NONE", "product": []any{"POD"}}, `expected "LOW", "MEDIUM" or "HIGH", got "NONE"`)
	for _, config := range []map[string]any{ // an unknown value may become null
		{"id": tfdrive.Unknown, "product": tfdrive.Unknown, "gpu_count": 2}, {"id": tfdrive.Unknown, "name": "Big"}, {"id": "x", "gpu_count": tfdrive.Unknown},
		{"id": "x", "product": []any{"POD"}, "min_cuda_version": tfdrive.Unknown, "with_cuda_versions": []any{"12.8"}},
	} {
		tfdrive.Do(p.Data("gpucloud_gpu_type", config))(t)
	}
}

func TestCPUTypes(t *testing.T) {
	p := drive(t, acctest.DeployCatalog(t, labCatalog), api.V2)
	all := read(t, p, "gpucloud_cpu_types", nil).Get("cpu_types")
	must.Equal(t, read(t, p, "gpucloud_cpu_types", map[string]any{"product": []any{}}).Get("cpu_types"), all, "without products")
	want := map[string]any{
		"id": "cpuX", "name": "Fast", "group": "Gen 9", "vcpu": map[string]any{"min": 2.0, "max": 64.0}, "ram_gb_per_vcpu": 2.5,
		"price": map[string]any{"secure_per_vcpu": 0.04, "serverless_per_vcpu": 0.031}, "availability": nil, "data_centers": nil,
	}
	must.Hold(t, slices.Equal(column(all, "id"), []any{"cpuA", "cpuX"}) && reflect.DeepEqual(all.([]any)[1], want), "the CPU types are", all, "expected cpuA and", want)
	for _, c := range []struct {
		config map[string]any
		ids    []any
	}{
		{map[string]any{"group": "Gen 1"}, []any{"cpuA"}},
		{map[string]any{"product": []any{"POD"}, "min_availability": "LOW"}, []any{"cpuX"}},
		{map[string]any{"product": []any{"SERVERLESS"}, "vcpu_count": 128, "min_availability": "LOW"}, nil},
	} {
		must.Equal(t, column(read(t, p, "gpucloud_cpu_types", c.config).Get("cpu_types"), "id"), c.ids, c.config)
	}
	one := read(t, p, "gpucloud_cpu_type", map[string]any{"name": "Fast", "product": []any{"POD"}})
	must.Hold(t, one.Get("id") == "cpuX" && one.Get("availability") == "HIGH" && slices.Equal(column(one.Get("data_centers"), "id"), []any{"LAB-2", "LAB-1"}), "expected cpuX with stock in LAB-2 and LAB-1, got", one.Value)
	expectErrors(t, p, "gpucloud_cpu_type", map[string]any{"id": "cpuY"}, "no CPU type with the id cpuY; similar: cpuA, cpuX", "404")
	expectErrors(t, p, "gpucloud_cpu_types", map[string]any{"product": []any{"CLUSTER"}}, `expected "POD" or "SERVERLESS", got "CLUSTER"`)
	expectErrors(t, p, "gpucloud_cpu_types", map[string]any{"product": []any{"POD"}, "vcpu_count": 3}, "expected a power of two from 2 up, got 3")
	expectErrors(t, p, "gpucloud_cpu_types", map[string]any{"vcpu_count": 4}, "vcpu_count: Missing product")
}

func TestDataCenters(t *testing.T) {
	p := drive(t, acctest.DeployCatalog(t, labCatalog), api.V2)
	for _, c := range []struct {
		config map[string]any
		ids    []any
	}{
		{nil, []any{"LAB-1", "LAB-2"}},
		{map[string]any{"regions": []any{"ASIA", "AFRICA"}}, []any{"LAB-2"}},
		{map[string]any{"network_volume_types": []any{"HIGH_PERFORMANCE"}}, []any{"LAB-1", "LAB-2"}},
		{map[string]any{"network_volume_types": []any{"STANDARD", "HIGH_PERFORMANCE"}}, []any{"LAB-2"}},
		{map[string]any{"compliance": []any{"GDPR"}}, []any{"LAB-1"}},
		{map[string]any{"global_network": false}, []any{"LAB-2"}},
		{map[string]any{"global_network": true, "regions": []any{"ASIA"}}, nil},
	} {
		must.Equal(t, column(read(t, p, "gpucloud_data_centers", c.config).Get("data_centers"), "id"), c.ids, c.config)
	}
	one := read(t, p, "gpucloud_data_center", map[string]any{"name": "Lab one", "include": []any{"GPU_AVAILABILITY"}})
	for attribute, want := range map[string]any{
		"id": "LAB-1", "region": "EUROPE", "global_network": true, "network_volume_types": []any{"HIGH_PERFORMANCE"}, "compliance": []any{"GDPR"}, "cpu_availability": nil,
	} {
		must.Equal(t, one.Get(attribute), want, attribute)
	}
	must.Equal(t, member(one.Get("gpu_availability"), 2, "availability"), "HIGH", "GPUs", one.Get("gpu_availability"))
	expectErrors(t, p, "gpucloud_data_center", map[string]any{"id": "LAB-3"}, "no data center with the id LAB-3; similar: LAB-1, LAB-2", "/v2/catalog/datacenters/LAB-3: 404")
	expectErrors(t, p, "gpucloud_data_centers", map[string]any{"regions": []any{"MARS"}}, "regions:", `got "MARS"`)
	expectErrors(t, p, "gpucloud_data_centers", map[string]any{"include": []any{"AVAILABILITY"}}, `expected "GPU_AVAILABILITY" or "CPU_AVAILABILITY"`)
	expectErrors(t, p, "gpucloud_data_centers", map[string]any{"compliance": []any{nil}}, "compliance:", "an element is null")
}

// Only API v2 has the catalog. On v1, the plan says so and sends no request.
func TestCatalogNeedsV2(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V1)
	calls := d.Calls(func() {
		for _, name := range []string{"gpu_type", "cpu_type", "data_center"} {
			expectErrors(t, p, "gpucloud_"+name, map[string]any{"id": "x"}, "API v1 can't express this", "gpucloud_"+name+" exists in management API v2 only", `api_version = "v2"`)
			expectErrors(t, p, "gpucloud_"+name+"s", nil, "gpucloud_"+name+"s exists in management API v2 only")
		}
	})
	must.Equal(t, calls, nil, "calls")
}

// All lookups of catalog entries, by id, by name or as a list, make one call per kind and query.
func TestCatalogIsAskedOnce(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V2)
	list := read(t, p, "gpucloud_gpu_types", nil).Get("gpu_types")
	p = p.Reconfigure()
	calls := d.Calls(func() {
		var group sync.WaitGroup
		for range 2 {
			for _, id := range column(list, "id") {
				group.Go(func() { read(t, p, "gpucloud_gpu_type", map[string]any{"id": id}) })
			}
			for _, name := range column(list, "name") {
				group.Go(func() { p.Data("gpucloud_gpu_type", map[string]any{"name": name}) })
			}
			group.Go(func() { read(t, p, "gpucloud_gpu_types", map[string]any{"min_memory": 24}) })
			group.Go(func() { read(t, p, "gpucloud_cpu_types", nil) })
			group.Go(func() { read(t, p, "gpucloud_data_center", map[string]any{"id": "EU-RO-1"}) })
		}
		group.Wait()
	})
	want := map[string]int{"GET /v2/catalog/gpus": 1, "GET /v2/catalog/cpus": 1, "GET /v2/catalog/datacenters": 1}
	must.Hold(t, maps.Equal(calls, want) && d.Writes() <= 0, "the calls are", calls, "expected", want)
}

// With each CLI, the plan reads a data source whose configuration is known and reports its errors; the apply reads the others.
func TestDataSourcesWithEachCLI(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		d := acctest.Deploy(t)
		endpoint := makeEndpoint(t, d)
		w := d.Workspace(t, cli, api.V2)
		lookups := `
data "gpucloud_endpoints" "queues" {
  type = "QUEUE"
}
data "gpucloud_endpoint_health" "e" {
  endpoint_id = data.gpucloud_endpoints.queues.endpoints[0].id
}
data "gpucloud_gpu_type" "l4" {
  name = "L4"
}
data "gpucloud_billing" "hour" {
  bucket_size = "hour"
  last_n      = 1
}
output "endpoint" {
  value = data.gpucloud_endpoint_health.e.endpoint_id
}
`
		w.Write("main.tf", lookups)
		writes := d.Writes()
		must.Contain(t, w.MustRun("plan"), endpoint)
		must.Equal(t, d.Writes(), writes, "a plan sent a write")
		w.Write("main.tf", lookups+`
resource "gpucloud_network_volume" "v" {
  name        = "v"
  size        = 10
  data_center = "EU-RO-1"
}
data "gpucloud_network_volume" "v" {
  id = gpucloud_network_volume.v.id
}
`)
		must.Contain(t, w.MustRun("plan"), "known after apply", `data.gpucloud_network_volume.v will be read during apply`)
		w.MustRun("apply", "-auto-approve")
		must.Contain(t, w.MustRun("plan"), "No changes.")
		w.Write("main.tf", lookups+"data \"gpucloud_network_volume\" \"w\" {\n  name = \"w\"\n}\n")
		out, err := w.Run("plan")
		text := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", "")), " ")
		must.Hold(t, err != nil && strings.Contains(text, `no network volume is named "w"; these are similar: "v" (`), "expected an error of the plan", err, out)
	})
}
