package mgmt_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
)

// deployWithCatalog starts a deployment with two L40S and a catalog file.
func deployWithCatalog(t *testing.T, text string) (d *deployment, c *clock.Clock, file string, logLines chan string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "catalog.yaml")
	writeFile(t, file, text)
	c = new(clock.Clock)
	logLines = make(chan string, 10)
	source := must.Do(catalog.Open(file, c, slog.New(slog.NewTextHandler(writer(func(line []byte) (int, error) {
		logLines <- string(line)
		return len(line), nil
	}), nil))))(t)
	t.Cleanup(source.Close)
	return deploy(t, withL40S, func(config *mgmt.Config) { config.Catalog, config.Clock = source, c }), c, file, logLines
}

type writer func([]byte) (int, error)

func (w writer) Write(line []byte) (int, error) { return w(line) }

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestCatalogFile(t *testing.T) {
	d, c, file, logLines := deployWithCatalog(t, `
remove: {data_centers: ["*"], gpus: [NVIDIA A40]}
data_centers:
  - {id: LAB-1, region: EUROPE, country: FR, volume_types: [HIGH_PERFORMANCE], compliance: [GDPR], global_network: true}
  - {id: LAB-2, region: ASIA, country: JP}
gpus:
  - {id: NVIDIA L40S, price: {secure: 0.86, community: 0.79, serverless: 1.9}, max_count: {secure: 4, community: 0}}
  - {id: Lab X, memory: 64, price: {serverless: 2}, cuda_versions: ["12.8"]}
  - {id: Lab Y, memory: 80, max_count: {secure: 16}}
pools: [{id: LAB, types: [Lab X]}]
cpus: [{id: cpu5c, vcpu: {min: 4, max: 8}, price: {secure: 0.04, serverless: 0.03}}]
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
	const labPod = `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4"},"dataCenterIds":["%s"],"globalNetworking":%v}`
	d.expectMembers(d.mustSend(201, "POST", "/v2/pods", fmt.Sprintf(labPod, `LAB-2","LAB-1`, true)), map[string]string{"dataCenterId": `"LAB-1"`})
	d.expectMembers(d.mustSend(201, "POST", "/v2/pods", fmt.Sprintf(labPod, `LAB-2","LAB-1`, false)), map[string]string{"dataCenterId": `"LAB-2"`})
	d.expectRefusal(400, "LAB-2 doesn't have the global network", "POST", "/v2/pods", fmt.Sprintf(labPod, "LAB-2", true))
	d.expectRefusal(400, "LAB-2 doesn't have the global network", "PATCH", "/v2/pods/"+d.create("/v2/pods", fmt.Sprintf(labPod, "LAB-2", false)), `{"globalNetworking":true}`)
	d.mustSend(201, "POST", "/v1/pods", `{"imageName":"i","computeType":"CPU"}`) // any flavor that has 2 vCPUs
	d.expectMembers(d.mustSend(201, "POST", "/v1/pods", `{"imageName":"i","gpuTypeIds":["NVIDIA L40S"]}`), map[string]string{"gpu.securePrice": `0.86`, "gpu.communityPrice": `0.79`})
	cpuEndpoint := d.create("/v2/serverless", `{"name":"e","image":"i","cpu":[{"id":"cpu5c","vcpuCount":8}]}`)
	for _, count := range []string{"2", "16"} {
		d.expectRefusal(400, "cpu5c has 4 to 8 vCPUs", "PATCH", "/v2/serverless/"+cpuEndpoint, `{"cpu":[{"id":"cpu5g","vcpuCount":2},{"id":"cpu5c","vcpuCount":`+count+`}]}`)
	}
	const labX = "/v2/catalog/gpus/Lab%20X?include=AVAILABILITY&product="
	for query, want := range map[string]map[string]string{
		"SERVERLESS":              {"availability": `"LOW"`, "dataCenters": `[{"id":"LAB-1","name":"LAB-1","availability":"LOW"},{"id":"LAB-2","name":"LAB-2","availability":"LOW"}]`},
		"POD":                     {"availability": `"MEDIUM"`, "dataCenters.1.availability": `"MEDIUM"`, "cudaVersions": `[{"version":"12.8","available":true}]`},
		"POD,SERVERLESS":          {"availability": `"LOW"`},
		"POD&count=9":             {"availability": `"NONE"`, "dataCenters": ""},
		"POD&countryCodes=FR":     {"availability": `"LOW"`, "dataCenters.0.id": `"LAB-1"`},
		"POD&minCudaVersion=12.9": {"availability": `"NONE"`},
		"POD&cudaVersions=12.8":   {"availability": `"MEDIUM"`},
		"CLUSTER&cloud=COMMUNITY": {"availability": `"LOW"`},
		"SERVERLESS&cloud=SECURE": {"availability": `"LOW"`},
	} {
		d.expectMembers(d.mustSend(200, "GET", labX+query, ""), want)
	}
	d.expectRefusal(422, "countryCodes", "GET", labX+"POD&countryCodes=JP,FR,X", "")
	// If the file sets the stock of one data center, the others keep the machine's stock.
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/gpus/NVIDIA%20L40S?include=AVAILABILITY&product=POD", ""), map[string]string{
		"availability": `"HIGH"`, "dataCenters": `[{"id":"LAB-2","name":"LAB-2","availability":"HIGH"}]`,
	})
	const l40s = "/v2/catalog/gpus/NVIDIA%20L40S?include=AVAILABILITY&cloud=COMMUNITY&product="
	d.expectMembers(d.mustSend(200, "GET", l40s+"POD", ""), map[string]string{"availability": `"NONE"`}) // not offered there
	d.expectMembers(d.mustSend(200, "GET", l40s+"SERVERLESS", ""), map[string]string{"availability": `"HIGH"`})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/datacenters/LAB-1?include=GPU_AVAILABILITY,CPU_AVAILABILITY", ""), map[string]string{
		"gpuAvailability": `[{"id":"NVIDIA L40S","name":"L40S","availability":"NONE"},{"id":"Lab X","name":"Lab X","availability":"LOW"}]`, "cpuAvailability.2.availability": `"HIGH"`,
	})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/cpus/cpu5c?include=AVAILABILITY&product=POD", ""), map[string]string{"dataCenters": `[{"id":"LAB-1","name":"LAB-1","availability":"HIGH"}]`})
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/cpus/cpu5c?include=AVAILABILITY&product=POD&vcpuCount=2", ""), map[string]string{"availability": `"NONE"`})

	// Endpoints and volumes follow the file's pools and regions.
	id := d.create("/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["LAB"],"count":1}}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+id, ""), map[string]string{"gpuTypeIds": `["Lab X"]`, "dataCenterIds": `["LAB-1","LAB-2"]`})
	d.expectRefusal(400, "leave no GPU type", "POST", "/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["LAB"],"excludedTypes":["Lab X"],"count":1}}`)
	d.expectMembers(d.mustSend(201, "POST", "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"LAB-1"}`), map[string]string{"type": `"HIGH_PERFORMANCE"`})
	d.expectRefusal(400, "no network volumes of the type STANDARD", "POST", "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"LAB-1","type":"STANDARD"}`)
	d.expectRefusal(400, "is not offered", "POST", "/v1/networkvolumes", `{"name":"v","size":10,"dataCenterId":"EU-RO-1"}`)

	// The file's max_count limits pods and the members of clusters.
	clusterBody := func(gpus int) string {
		return fmt.Sprintf(`{"name":"c","type":"TRAINING","image":"i","compute":{"gpuTypeId":"Lab Y","gpuCountPerPod":%d,"podCount":2}}`, gpus)
	}
	d.create("/v2/clusters", clusterBody(16))
	d.expectRefusal(400, "expected 16 at most, got 17", "POST", "/v2/clusters", clusterBody(17))
	pod := d.create("/v1/pods", `{"imageName":"i","gpuCount":16}`) // of any GPU type
	d.expectRefusal(400, "expected 16 at most, got 17", "POST", "/v1/pods", `{"imageName":"i","gpuCount":17}`)

	// The stock changes with the deployment's clock.
	c.Advance(time.Hour)
	d.expectMembers(d.mustSend(200, "GET", labX+"POD", ""), map[string]string{"availability": `"NONE"`, "dataCenters": "", "cudaVersions": `[{"version":"12.8","available":false}]`})

	// An invalid file changes nothing; a valid one applies soon.
	writeFile(t, file, "gpu: []")
	must.Contain(t, <-logLines, "the catalog stays as it was", "catalog.yaml:1: unknown field")
	d.mustSend(200, "GET", "/v2/catalog/datacenters/LAB-1", "")
	id = d.create("/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["ADA_24"],"excludedTypes":["NVIDIA L4"]}}`)
	writeFile(t, file, "remove: {gpus: [NVIDIA L4], cpus: [\"*\"]}\ngpus: [{id: NVIDIA A40, price: {secure: 1.5}}]")
	must.Contain(t, <-logLines, "the catalog changed")
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/gpus/NVIDIA%20A40", ""), map[string]string{"price.secure": `1.5`})
	d.mustSend(200, "GET", "/v2/catalog/datacenters/EU-RO-1", "")
	d.expectRefusal(400, "no CPU flavor", "POST", "/v1/pods", `{"imageName":"i","computeType":"CPU"}`)
	d.expectRefusal(400, "no CPU flavor", "POST", "/v1/endpoints", `{"templateId":"official-echo","computeType":"CPU"}`)

	// Objects whose hardware is no longer offered can be stopped and changed.
	d.mustSend(200, "POST", "/v1/pods/"+pod+"/stop", "")
	d.mustSend(200, "PATCH", "/v2/serverless/"+id, `{"workers":{"max":0},"gpu":{"pools":["ADA_24"],"excludedTypes":["NVIDIA L4"]}}`)
	d.expectRefusal(400, "none of the pools", "PATCH", "/v2/serverless/"+id, `{"gpu":{"pools":["ADA_32_PRO"],"excludedTypes":["NVIDIA L4"]}}`)
}

func TestBuildsOfCatalogFile(t *testing.T) {
	var file strings.Builder
	file.WriteString("builds:\n  - {endpoint: e, id: failed, status: TEST_FAILED, branch: main, commit_hash: abc, commit_message: \"fix: it\", commit_date: 2026-11-01T10:00:00Z, " +
		"image_name: r/i:1, started_at: 2026-11-01T11:00:00+01:00, completed_at: 2026-11-01T12:00:00Z, error: exit 1}\n")
	for n := range 104 {
		fmt.Fprintf(&file, "  - {endpoint: e, id: b%d, status: COMPLETED}\n", n)
	}
	file.WriteString("  - {endpoint: other, id: theirs, status: PENDING}\n")
	d, _, _, _ := deployWithCatalog(t, file.String())
	withoutBuilds := "/v2/serverless/" + d.create("/v2/serverless", `{"name":"without","image":"i"}`) + "/builds"
	must.Equal(t, d.mustSend(200, "GET", withoutBuilds, "").text, `{"builds":[],"pagination":{"nextCursor":null,"hasNextPage":false}}`+"\n", "an empty list of builds")
	builds := "/v2/serverless/" + d.create("/v2/serverless", `{"name":"e","image":"i"}`) + "/builds"
	for _, limit := range []string{"0", "101", "x"} {
		d.expectRefusal(422, "want an integer from 1 to 100", "GET", builds+"?limit="+limit, "")
	}
	d.expectMembers(d.mustSend(200, "GET", builds+"/failed", ""), map[string]string{
		"status": `"TEST_FAILED"`, "branch": `"main"`, "commitHash": `"abc"`, "commitMessage": `"fix: it"`, "commitDate": `"2026-11-01T10:00:00Z"`,
		"imageName": `"r/i:1"`, "startedAt": `"2026-11-01T11:00:00+01:00"`, "completedAt": `"2026-11-01T12:00:00Z"`, "error": `"exit 1"`,
	})
	d.expectMembers(d.mustSend(200, "GET", builds+"/b7", ""), map[string]string{"status": `"COMPLETED"`, "branch": "", "commitDate": "", "error": ""})
	d.expectRefusal(404, "has no build", "GET", builds+"/theirs", "")
	for query, want := range map[string][]int{"": {100, 5}, "limit=100": {100, 5}, "limit=35": {35, 35, 35}, "limit=52": {52, 52, 1}} {
		ids, sizes := d.walk(builds, "builds", query, nil)
		must.Hold(t, slices.Equal(sizes, want) && len(ids) == 105 && ids[0] == "failed" && ids[104] == "b103" && len(slices.Compact(ids)) == 105, query, "pages of", sizes, ids)
	}
}

// The catalog has official templates, which can't be changed, and users' public templates.
func TestCatalogTemplates(t *testing.T) {
	d := deploy(t)
	official := d.mustSend(200, "GET", "/v2/catalog/templates", "")
	list, _ := official.get("templates").([]any)
	must.Require(t, len(list) >= 2 && official.text == d.mustSend(200, "GET", "/v2/catalog/templates?source=official", "").text,
		"without source and with source=official, the list must have at least two official templates:", official.text)
	for _, item := range list {
		template := item.(map[string]any)
		must.Hold(t, template["public"] == true && template["registry"] == nil, "an official template must be public, without a registry:", template)
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/templates/official-echo", ""), map[string]string{"image": `"builtin/echo"`, "serverless": `true`})
	d.expectMembers(d.mustSend(201, "POST", "/v2/serverless", `{"templateId":"official-echo","name":"e","gpu":{"pools":["ADA_24"]}}`), map[string]string{"image": `"builtin/echo"`})
	d.mustSend(201, "POST", "/v2/pods", `{"name":"p","templateId":"official-pod","cpu":{"id":"cpu3c","vcpuCount":2}}`)
	d.expectRefusal(404, "not found among your templates: this one comes with the deployment", "PATCH", "/v2/templates/official-echo", `{"name":"mine"}`)
	d.expectRefusal(404, "comes with the deployment", "DELETE", "/v2/templates/official-echo", "")
	d.expectRefusal(404, "comes with the deployment", "PATCH", "/v1/templates/official-echo", `{"name":"mine"}`)
	d.expectRefusal(400, "comes with the deployment", "DELETE", "/v1/templates/official-echo", "")
	d.expectMembers(d.mustSend(200, "GET", "/v2/templates", ""), map[string]string{"templates": `[]`})
	d.expectMembers(d.mustSend(200, "GET", "/v1/templates/official-echo", ""), map[string]string{"isRunpod": `true`, "isPlatform": `true`})
	must.Contain(t, d.mustSend(200, "GET", "/v1/templates?includeRunpodTemplates=true", "").text, "official-echo")

	d.mustSend(201, "POST", "/v2/templates", `{"name":"private","image":"i"}`)
	sharedID := d.create("/v2/templates", `{"name":"shared","image":"i","public":true}`)
	text := d.mustSend(200, "GET", "/v2/catalog/templates?source=community", "").text
	must.Hold(t, strings.Contains(text, sharedID) && !strings.Contains(text, "private") && !strings.Contains(text, "official"), "community templates must be users' public ones:", text)
	d.expectMembers(d.mustSend(200, "GET", "/v2/catalog/templates?source=verified", ""), map[string]string{"templates": `[]`})
	d.expectRefusal(422, "source", "GET", "/v2/catalog/templates?source=all", "")
}
