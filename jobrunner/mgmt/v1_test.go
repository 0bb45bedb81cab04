package mgmt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Both update operations clear the registry auth with null or "", and keep the other members.
func TestTemplateV1(t *testing.T) {
	d := deploy(t)
	auth := d.create("/v1/containerregistryauth", `{"name":"r","username":"u","password":"p"}`)
	path := "/v1/templates/" + d.create("/v1/templates", `{"name":"t","imageName":"i","containerRegistryAuthId":"`+auth+`"}`)
	for _, update := range []struct{ method, suffix string }{{"PATCH", ""}, {"POST", "/update"}} {
		for _, cleared := range []string{`null`, `""`} {
			d.expectMembers(d.mustSend(200, update.method, path+update.suffix, `{"containerRegistryAuthId":"`+auth+`"}`), map[string]string{"containerRegistryAuthId": `"` + auth + `"`})
			d.expectMembers(d.mustSend(200, update.method, path+update.suffix, `{"containerRegistryAuthId":`+cleared+`}`), map[string]string{"containerRegistryAuthId": `""`, "name": `"t"`, "imageName": `"i"`})
		}
		d.expectRefusal(400, "not allowed", update.method, path+update.suffix, `{"category":"AMD"}`)
	}
	d.expectRefusal(400, "does not exist", "POST", "/v1/templates", `{"name":"n","imageName":"i","containerRegistryAuthId":"unknown"}`)
	must.Equal(t, d.mustSend(204, "DELETE", path, "").text, "", "the body of a 204")
}

func (d *deployment) createServerlessTemplateV1(name string) string {
	d.Helper()
	return d.create("/v1/templates", `{"name":"`+name+`","imageName":"i","isServerless":true,"env":{"A":"1"}}`)
}

func TestEndpointV1(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	dataCenterIDs := must.Do(json.Marshal(contract.DataCenterIDs))(t)
	d.expectMembers(d.mustSend(200, "POST", "/v1/endpoints", `{"templateId":"`+template+`"}`), map[string]string{
		"name": `"t"`, "env": `{"A":"1"}`, "dataCenterIds": string(dataCenterIDs), "networkVolumeIds": `[]`, "gpuTypeIds": `[]`, "version": `0`,
	})
	firstVolume, secondVolume := d.create("/v1/networkvolumes", `{"name":"1","size":1,"dataCenterId":"X"}`), d.create("/v1/networkvolumes", `{"name":"2","size":1,"dataCenterId":"X"}`)
	full := d.mustSend(200, "POST", "/v1/endpoints", `{"name":"e","templateId":"`+template+`","gpuTypeIds":["NVIDIA L40","not known","NVIDIA A40"],
		"networkVolumeId":"`+secondVolume+`","networkVolumeIds":["`+firstVolume+`","`+secondVolume+`"]}`)
	d.expectMembers(full, map[string]string{
		"gpuTypeIds": `["NVIDIA L40","not known","NVIDIA A40"]`, "networkVolumeId": `"` + secondVolume + `"`, "networkVolumeIds": `["` + secondVolume + `","` + firstVolume + `"]`,
	})
	path := "/v1/endpoints/" + full.get("id").(string)
	for _, update := range []struct{ method, suffix string }{{"PATCH", ""}, {"POST", "/update"}} {
		for _, step := range []struct {
			body string
			want map[string]string
		}{
			{`{"minCudaVersion":"12.1"}`, map[string]string{"minCudaVersion": `"12.1"`}},
			{`{"minCudaVersion":""}`, map[string]string{"minCudaVersion": ""}},
			{`{"allowedCudaVersions":["12.8"]}`, map[string]string{"allowedCudaVersions": `["12.8"]`}},
			{`{"allowedCudaVersions":[],"minCudaVersion":"12.1"}`, map[string]string{"allowedCudaVersions": `[]`, "minCudaVersion": `"12.1"`}},
			{`{"minCudaVersion":null}`, map[string]string{"minCudaVersion": ""}},
			{`{"networkVolumeId":null}`, map[string]string{"networkVolumeId": "", "networkVolumeIds": `[]`}},
			{`{"networkVolumeId":"` + firstVolume + `"}`, map[string]string{"networkVolumeId": `"` + firstVolume + `"`, "networkVolumeIds": `["` + firstVolume + `"]`}},
			{`{"networkVolumeId":""}`, map[string]string{"networkVolumeId": "", "networkVolumeIds": `[]`}},
			{`{"networkVolumeIds":["` + firstVolume + `","` + secondVolume + `"]}`, map[string]string{"networkVolumeId": `"` + firstVolume + `"`}},
			{`{"dataCenterIds":["EU-RO-1","mine"]}`, map[string]string{"dataCenterIds": `["EU-RO-1","mine"]`}},
			{`{"dataCenterIds":[]}`, map[string]string{"dataCenterIds": string(dataCenterIDs)}},
			{`{"cpuFlavorIds":["cpu3c"],"vcpuCount":1}`, map[string]string{"computeType": `"GPU"`, "instanceIds": ""}}, // ignored
			{`{}`, map[string]string{"name": `"e"`}},
		} {
			d.expectMembers(d.mustSend(200, update.method, path+update.suffix, step.body), step.want)
		}
	}
	for _, got := range []reply{d.mustSend(200, "GET", path+"?includeTemplate=true&includeWorkers=true", ""), {body: d.mustSend(200, "GET", "/v1/endpoints?includeTemplate=true", "").body.([]any)[1]}} {
		must.Hold(t, got.get("template.id") == template && got.get("template.imageName") == "i", "with its template", got.body)
	}
	d.mustSend(204, "DELETE", path, "")
	d.mustSend(200, "GET", "/v1/templates/"+template+"?includeEndpointBoundTemplates=true", "")
}

func TestCPUEndpointV1(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	answer := d.mustSend(200, "POST", "/v1/endpoints", `{"templateId":"`+template+`","computeType":"CPU","cpuFlavorIds":["cpu5g","cpu3c","cpu5g"],"vcpuCount":8,"gpuTypeIds":["NVIDIA A40"]}`)
	d.expectMembers(answer, map[string]string{"computeType": `"CPU"`, "instanceIds": `["cpu5g-8-32","cpu3c-8-16"]`, "gpuTypeIds": "", "gpuCount": ""})
	path := "/v1/endpoints/" + answer.get("id").(string)
	for _, count := range []string{"3", "1", "0", "-2"} {
		d.expectRefusal(400, "a power of two", "POST", "/v1/endpoints", `{"templateId":"`+template+`","computeType":"CPU","cpuFlavorIds":["new"],"vcpuCount":`+count+`}`)
		d.expectRefusal(400, "a power of two", "PATCH", path, `{"vcpuCount":`+count+`}`)
		d.expectRefusal(400, "a power of two", "POST", "/v1/pods", `{"imageName":"i","computeType":"CPU","cpuFlavorIds":["new"],"vcpuCount":`+count+`}`)
	}
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"vcpuCount":2}`), map[string]string{"instanceIds": `["cpu5g-2-8","cpu3c-2-4"]`})
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"cpuFlavorIds":["new"]}`), map[string]string{"instanceIds": `["new-2-4"]`})
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"gpuCount":3}`), map[string]string{"computeType": `"CPU"`, "gpuCount": ""})
	anyCPU := d.mustSend(200, "POST", "/v1/endpoints", `{"templateId":"`+template+`","computeType":"CPU"}`)
	d.expectMembers(anyCPU, map[string]string{"instanceIds": `["cpu3c-2-4","cpu3g-2-8","cpu5c-2-4","cpu5g-2-8"]`})
}

func TestInvalidEndpointsV1(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	podTemplate := d.create("/v1/templates", `{"name":"pods","imageName":"i"}`)
	id := d.create("/v1/endpoints", `{"templateId":"`+template+`"}`)
	for _, member := range []string{
		`"templateId":"unknown"`, `"templateId":"` + podTemplate + `"`, `"networkVolumeId":"unknown"`, `"networkVolumeIds":["unknown"]`,
		`"workersMin":4`, `"workersMax":1001`, `"workersMax":9223372036854775807`, `"executionTimeoutMs":1`,
	} {
		d.expectRefusal(400, `"message":`, "POST", "/v1/endpoints", `{"templateId":"`+template+`",`+member+`}`)
		d.expectRefusal(400, `"message":`, "PATCH", "/v1/endpoints/"+id, `{`+member+`}`)
	}
	d.expectRefusal(400, "exclude each other", "PATCH", "/v1/endpoints/"+id, `{"minCudaVersion":"12.1","allowedCudaVersions":["12.8"]}`)
	list := d.mustSend(200, "GET", "/v1/endpoints", "")
	must.Hold(t, len(list.body.([]any)) == 1, "a rejected create created", list.text)
	d.mustSend(200, "POST", "/v1/endpoints", `{"templateId":"`+template+`","name":"`+strings.Repeat("é", 191)+`"}`)
	d.mustSend(200, "POST", "/v1/endpoints", `{"templateId":"`+template+`","workersMin":0,"workersMax":0}`)
}

// Version 1 hides templates that endpoints are linked to, unless the call requests them.
func TestBoundTemplatesV1(t *testing.T) {
	d := deploy(t)
	boundID, freeID := d.createServerlessTemplateV1("bound"), d.createServerlessTemplateV1("free")
	endpoint := d.create("/v1/endpoints", `{"templateId":"`+boundID+`"}`)
	list := d.mustSend(200, "GET", "/v1/templates", "")
	must.Hold(t, len(list.body.([]any)) == 1 && list.get("0.id") == freeID, "listed", list.text)
	d.expectRefusal(404, "includeEndpointBoundTemplates=true", "GET", "/v1/templates/"+boundID, "")
	const includeBound = "?includeEndpointBoundTemplates=true"
	list = d.mustSend(200, "GET", "/v1/templates"+includeBound, "")
	must.Hold(t, len(list.body.([]any)) == 2, "listed", list.text)
	d.mustSend(200, "GET", "/v1/templates/"+boundID+includeBound, "")
	d.expectRefusal(400, "is linked to it", "DELETE", "/v1/templates/"+boundID, "")
	d.mustSend(200, "PATCH", "/v1/endpoints/"+endpoint, `{"templateId":"`+freeID+`"}`)
	d.mustSend(204, "DELETE", "/v1/templates/"+boundID, "")
	d.mustSend(204, "DELETE", "/v1/endpoints/"+endpoint, "")
	d.mustSend(200, "GET", "/v1/templates/"+freeID, "")
}
