package mgmt_test

import (
	"net/url"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
)

// withL40S configures a machine with two L40S.
func withL40S(c *mgmt.Config) {
	c.Stock = func() map[string]catalog.Stock {
		return map[string]catalog.Stock{"NVIDIA L40S": {Count: 2, CUDAVersions: []string{"12.8", "12.11"}}}
	}
}

func ids(list any) (out []string) {
	items, _ := list.([]any)
	for _, item := range items {
		out = append(out, item.(map[string]any)["id"].(string))
	}
	return out
}

func TestCatalogLists(t *testing.T) {
	d := deploy(t, withL40S)
	for _, c := range []struct {
		path, member string
		want         []string
	}{
		{"gpus", "gpus", contract.GPUTypeIDs}, {"cpus", "cpus", contract.CPUFlavorIDs}, {"datacenters", "dataCenters", contract.DataCenterIDs},
	} {
		must.Equal(t, ids(d.mustSend(200, "GET", "/v2/catalog/"+c.path, "").get(c.member)), c.want, c.path)
		for _, id := range c.want {
			got := d.mustSend(200, "GET", "/v2/catalog/"+c.path+"/"+url.PathEscape(id), "")
			must.Hold(t, got.get("id") == id, "reading", id, "returned", got.text)
		}
		d.expectRefusal(404, "the catalog has no", "GET", "/v2/catalog/"+c.path+"/unknown", "")
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/gpus/NVIDIA%20L40S", ""), map[string]string{
		"name": `"L40S"`, "pool": `"ADA_48_PRO"`, "manufacturer": `"NVIDIA"`, "memory": `48`, "secure": `true`, "community": `true`,
		"price": `{"secure":0,"community":0,"serverless":0}`, "maxCount": `{"secure":8,"community":8}`, "availability": "", "dataCenters": "", "cudaVersions": "",
	})
	withoutPool := d.mustSend(200, "GET", "/v2/catalog/gpus/AMD%20Instinct%20MI300X%20OAM", "")
	d.expectMembers(withoutPool, map[string]string{"manufacturer": `"AMD"`, "pool": `null`, "price": `{"secure":0,"community":0}`})
	must.Hold(t, withoutPool.has("pool"), "without a pool the member must be null, not absent")
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/cpus/cpu3g", ""), map[string]string{
		"name": `"General Purpose"`, "group": `"Gen 3"`, "vcpu": `{"min":2,"max":32}`, "ramGbPerVcpu": `4`, "price": `{"securePerVcpu":0,"serverlessPerVcpu":0}`, "availability": "",
	})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/datacenters/US-KS-2", ""), map[string]string{
		"name": `"US Kansas 2"`, "region": `"NORTH_AMERICA"`, "globalNetwork": `true`, "networkVolumeTypes": `["STANDARD","HIGH_PERFORMANCE"]`, "compliance": `[]`,
		"gpuAvailability": "", "cpuAvailability": "",
	})
}

func TestCatalogAvailability(t *testing.T) {
	d := deploy(t, withL40S)
	const gpu = "/v2/catalog/gpus/NVIDIA%20L40S?include=AVAILABILITY&product=SERVERLESS,POD"
	for _, c := range []struct {
		filter, availability, cuda string
		dataCenters                int
	}{
		{"", `"HIGH"`, `[{"version":"12.8","available":true},{"version":"12.11","available":true}]`, 26},
		{"&count=2&cloud=SECURE", `"HIGH"`, `[{"version":"12.8","available":true},{"version":"12.11","available":true}]`, 26},
		{"&count=3", `"NONE"`, `[{"version":"12.8","available":false},{"version":"12.11","available":false}]`, 0},
		{"&cudaVersions=12.8", `"HIGH"`, `[{"version":"12.8","available":true}]`, 26},
		{"&cudaVersions=12.1,12.2", `"NONE"`, "", 0},
		{"&minCudaVersion=12.10", `"HIGH"`, `[{"version":"12.11","available":true}]`, 26},
		{"&minCudaVersion=12", `"HIGH"`, `[{"version":"12.8","available":true},{"version":"12.11","available":true}]`, 26},
		{"&minCudaVersion=13", `"NONE"`, "", 0},
		{"&countryCodes=IS,JP", `"HIGH"`, `[{"version":"12.8","available":true},{"version":"12.11","available":true}]`, 4},
		{"&countryCodes=ZZ", `"NONE"`, `[{"version":"12.8","available":true},{"version":"12.11","available":true}]`, 0},
	} {
		got := d.mustSend(200, "GET", gpu+c.filter, "")
		d.expectMembers(got, map[string]string{"availability": c.availability, "cudaVersions": c.cuda})
		must.Equal(t, len(ids(got.get("dataCenters"))), c.dataCenters, c.filter, "data centers")
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/gpus/NVIDIA%20A40?include=AVAILABILITY&product=POD", ""), map[string]string{"availability": `"NONE"`, "dataCenters": "", "cudaVersions": ""})
	must.Equal(t, ids(d.mustSend(200, "GET", "/v2/catalog/gpus?include=AVAILABILITY&product=POD&countryCodes=FR", "").get("gpus")), []string{"NVIDIA L40S"}, "in one country")
	const cpu = "/v2/catalog/cpus/cpu5c?include=AVAILABILITY&product=SERVERLESS"
	d.expectMembers(d.mustSend(200, "GET", cpu+"&vcpuCount=32", ""), map[string]string{"availability": `"HIGH"`})
	d.expectMembers(d.mustSend(200, "GET", cpu+"&vcpuCount=64", ""), map[string]string{"availability": `"NONE"`, "dataCenters": ""})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/datacenters/EU-RO-1?include=GPU_AVAILABILITY,CPU_AVAILABILITY", ""), map[string]string{
		"gpuAvailability": `[{"id":"NVIDIA L40S","name":"L40S","availability":"HIGH"}]`, "cpuAvailability.0.id": `"cpu3c"`,
	})
	withoutGPUs := deploy(t)
	d.expectMembers(withoutGPUs.mustSend(200, "GET", "/v2/catalog/datacenters/EU-RO-1?include=GPU_AVAILABILITY", ""), map[string]string{"gpuAvailability": ""})
}

func TestCatalogFilters(t *testing.T) {
	d := deploy(t)
	for query, want := range map[string]int{
		"": 26, "?unknown=x": 26, "?regions=OCEANIA,ASIA": 2, "?regions=OCEANIA&regions=ASIA": 2, "?regions=AFRICA": 0, "?networkVolumeTypes=STANDARD,HIGH_PERFORMANCE": 26,
		"?compliance=GDPR": 0, "?globalNetwork=false": 0, "?globalNetwork=true": 26, "?regions=ASIA&networkVolumeTypes=STANDARD&globalNetwork=true": 1,
	} {
		got := ids(d.mustSend(200, "GET", "/v2/catalog/datacenters"+query, "").get("dataCenters"))
		must.Hold(t, len(got) == want, "the query", query, "must find", want, "data centers, found", got)
	}
	for query, status := range map[string]int{
		"gpus?include=AVAILABILITY": 400, "gpus?product=POD": 400, "gpus?count=1": 400, "gpus?cloud=SECURE": 400, "gpus?countryCodes=FR": 400,
		"gpus?cudaVersions=12.8": 400, "gpus?minCudaVersion=12": 400, "gpus?include=AVAILABILITY&product=POD&cudaVersions=12.8&minCudaVersion=12": 400,
		"gpus?include=PRICE": 422, "gpus?include=AVAILABILITY&product=TPU": 422, "gpus?include=AVAILABILITY&product=POD&count=0": 422,
		"gpus?include=AVAILABILITY&product=POD&count=x": 422, "gpus?include=AVAILABILITY&product=POD&cloud=DARK": 422,
		"gpus?include=AVAILABILITY&product=POD&countryCodes=fr": 422, "gpus?include=AVAILABILITY&product=POD&cudaVersions=12": 422,
		"gpus?include=AVAILABILITY&product=POD&minCudaVersion=x": 422,
		"gpus/NVIDIA%20L4?product=POD":                           400,
		"cpus?include=AVAILABILITY":                              400, "cpus?vcpuCount=2": 400, "cpus?include=AVAILABILITY&product=CLUSTER": 422,
		"cpus?include=AVAILABILITY&product=POD&vcpuCount=3": 422, "cpus?include=AVAILABILITY&product=POD&vcpuCount=1": 422, "cpus/cpu3c?product=POD": 400,
		"datacenters?include=AVAILABILITY": 422, "datacenters?regions=MARS": 422, "datacenters?networkVolumeTypes=FAST": 422, "datacenters?compliance=NONE": 422,
		"datacenters?globalNetwork=maybe": 422, "datacenters/EU-RO-1?include=X": 422,
	} {
		d.expectRefusal(status, `"detail":`, "GET", "/v2/catalog/"+query, "")
	}
}
