package mgmt_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
)

// withCatalog starts a deployment with two L40S and a catalog file.
func withCatalog(t *testing.T, text string) (d *deployment, c *clock.Clock, file string, logged chan string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "catalog.yaml")
	writeFile(t, file, text)
	c = new(clock.Clock)
	logged = make(chan string, 10)
	source := must.Do(catalog.Open(file, c, slog.New(slog.NewTextHandler(writer(func(line []byte) (int, error) {
		logged <- string(line)
		return len(line), nil
	}), nil))))(t)
	t.Cleanup(source.Close)
	return deploy(t, withL40S, func(config *mgmt.Config) { config.Catalog, config.Clock = source, c }), c, file, logged
}

type writer func([]byte) (int, error)

func (w writer) Write(line []byte) (int, error) { return w(line) }

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestCatalogFile(t *testing.T) {
	d, c, file, logged := withCatalog(t, `
remove: {data_centers: ["*"], gpus: [NVIDIA A40]}
data_centers:
  - {id: LAB-1, region: EUROPE, country: FR, volume_types: [HIGH_PERFORMANCE], compliance: [GDPR], global_network: true}
  - {id: LAB-2, region: ASIA, country: JP}
gpus:
  - {id: NVIDIA L40S, price: {secure: 0.86, community: 0.79, serverless: 1.9}, max_count: {secure: 4, community: 0}}
  - {id: Lab X, memory: 64, price: {serverless: 2}, cuda_versions: ["12.8"]}
pools: [{id: LAB, types: [Lab X]}]
cpus: [{id: cpu5c, price: {secure: 0.04, serverless: 0.03}}]
stock:
  - {gpus: [Lab X], level: LOW}
  - {gpus: [Lab X], data_centers: [LAB-2], products: [POD], level: MEDIUM}
  - {gpus: [NVIDIA L40S], data_centers: [LAB-1], level: NONE}
  - {cpus: [cpu5c], data_centers: [LAB-2], level: NONE}
  - {gpus: [Lab X], level: NONE, after: 1h}
`)
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/gpus/NVIDIA%20L40S", ""), map[string]string{
		"price": `{"secure":0.86,"community":0.79,"serverless":1.9}`, "maxCount": `{"secure":4,"community":0}`, "secure": `true`, "community": `false`,
	})
	d.expectRefusal(404, "the catalog has no", "GET", "/v2/catalog/gpus/NVIDIA%20A40", "")
	d.expectRefusal(404, "the catalog has no", "GET", "/v2/catalog/datacenters/EU-RO-1", "")
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/cpus/cpu5c", ""), map[string]string{"price": `{"securePerVcpu":0.04,"serverlessPerVcpu":0.03}`})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/datacenters/LAB-1", ""), map[string]string{
		"name": `"LAB-1"`, "region": `"EUROPE"`, "globalNetwork": `true`, "networkVolumeTypes": `["HIGH_PERFORMANCE"]`, "compliance": `["GDPR"]`,
	})
	for query, want := range map[string][]string{"?regions=ASIA": {"LAB-2"}, "?compliance=GDPR": {"LAB-1"}, "?networkVolumeTypes=STANDARD": {"LAB-2"}, "?globalNetwork=true": {"LAB-1"}} {
		must.Equal(t, ids(d.mustSend(200, "GET", "/v2/catalog/datacenters"+query, "").get("dataCenters")), want, query)
	}
	const lab = "/v2/catalog/gpus/Lab%20X?include=AVAILABILITY&product="
	for query, want := range map[string]map[string]string{
		"SERVERLESS":               {"availability": `"LOW"`, "dataCenters": `[{"id":"LAB-1","name":"LAB-1","availability":"LOW"},{"id":"LAB-2","name":"LAB-2","availability":"LOW"}]`},
		"POD":                      {"availability": `"MEDIUM"`, "dataCenters.1.availability": `"MEDIUM"`, "cudaVersions": `[{"version":"12.8","available":true}]`},
		"POD,SERVERLESS":           {"availability": `"LOW"`},
		"POD&count=9":              {"availability": `"NONE"`, "dataCenters": ""},
		"POD&countryCodes=FR":      {"availability": `"LOW"`, "dataCenters.0.id": `"LAB-1"`},
		"POD&minCudaVersion=12.9":  {"availability": `"NONE"`},
		"POD&cudaVersions=12.8":    {"availability": `"MEDIUM"`},
		"CLUSTER&cloud=COMMUNITY":  {"availability": `"LOW"`},
		"SERVERLESS&cloud=SECURE":  {"availability": `"LOW"`},
		"POD&countryCodes=JP,FR,X": nil,
	} {
		if want == nil {
			d.expectRefusal(422, "countryCodes", "GET", lab+query, "")
			continue
		}
		d.expectMembers(d.mustSend(200, "GET", lab+query, ""), want)
	}
	// If the file sets the stock of one data center, the others keep the machine's stock.
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/gpus/NVIDIA%20L40S?include=AVAILABILITY&product=POD", ""), map[string]string{
		"availability": `"HIGH"`, "dataCenters": `[{"id":"LAB-2","name":"LAB-2","availability":"HIGH"}]`,
	})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/datacenters/LAB-1?include=GPU_AVAILABILITY,CPU_AVAILABILITY", ""), map[string]string{
		"gpuAvailability": `[{"id":"NVIDIA L40S","name":"L40S","availability":"NONE"},{"id":"Lab X","name":"Lab X","availability":"LOW"}]`, "cpuAvailability.2.availability": `"HIGH"`,
	})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/cpus/cpu5c?include=AVAILABILITY&product=POD", ""), map[string]string{"dataCenters": `[{"id":"LAB-1","name":"LAB-1","availability":"HIGH"}]`})

	// Endpoints and volumes follow the file's pools and regions.
	id := d.create("/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["LAB"],"count":1}}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+id, ""), map[string]string{"gpuTypeIds": `["Lab X"]`, "dataCenterIds": `["LAB-1","LAB-2"]`})
	d.expectRefusal(400, "leave no GPU type", "POST", "/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["LAB"],"excludedTypes":["Lab X"],"count":1}}`)
	d.expectMembers(d.mustSend(201, "POST", "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"LAB-1"}`), map[string]string{"type": `"HIGH_PERFORMANCE"`})
	d.expectRefusal(400, "no network volumes of the type STANDARD", "POST", "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"LAB-1","type":"STANDARD"}`)
	d.expectRefusal(400, "is not offered", "POST", "/v1/networkvolumes", `{"name":"v","size":10,"dataCenterId":"EU-RO-1"}`)

	// The stock changes with the deployment's clock.
	c.Advance(time.Hour)
	d.expectMembers(d.mustSend(200, "GET", lab+"POD", ""), map[string]string{"availability": `"NONE"`, "dataCenters": "", "cudaVersions": `[{"version":"12.8","available":false}]`})

	// An invalid file changes nothing; a valid one applies soon.
	writeFile(t, file, "gpu: []")
	must.Contain(t, <-logged, "the catalog stays as it was", "catalog.yaml:1: unknown field")
	d.mustSend(200, "GET", "/v2/catalog/datacenters/LAB-1", "")
	writeFile(t, file, "gpus: [{id: NVIDIA A40, price: {secure: 1.5}}]")
	must.Contain(t, <-logged, "the catalog changed")
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/gpus/NVIDIA%20A40", ""), map[string]string{"price.secure": `1.5`})
	d.mustSend(200, "GET", "/v2/catalog/datacenters/EU-RO-1", "")
}
