package mgmt_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const minimalTemplateV1 = `{"name":"t","imageName":"i"}`

func TestTemplateV1(t *testing.T) {
	d := deploy(t)
	answer := d.mustSend(200, "POST", "/v1/templates", minimalTemplateV1)
	id := answer.get("id").(string)
	d.expectMembers(answer, map[string]string{
		"name": `"t"`, "imageName": `"i"`, "category": `"NVIDIA"`, "containerDiskInGb": `50`, "containerRegistryAuthId": `""`,
		"dockerEntrypoint": `[]`, "dockerStartCmd": `[]`, "env": `{}`, "isPublic": `false`, "isServerless": `false`,
		"ports": `["8888/http","22/tcp"]`, "readme": `""`, "volumeInGb": `20`, "volumeMountPath": `"/workspace"`,
		"earned": `0`, "isRunpod": `false`, "isPlatform": `false`, "runtimeInMin": `0`,
	})
	auth := d.create("/v1/containerregistryauth", `{"name":"r","username":"u","password":"p"}`)
	fullBody := `{"name":"all","imageName":"i:1","category":"CPU","containerDiskInGb":7,"containerRegistryAuthId":"` + auth + `",
		"dockerEntrypoint":["/bin/sh","-c"],"dockerStartCmd":["echo","a b","","it's"],"env":{"A":"","Ä":"ö \"x\""},"isPublic":true,
		"isServerless":true,"ports":[],"readme":"# hi","volumeInGb":0,"volumeMountPath":"/data"}`
	full := d.mustSend(200, "POST", "/v1/templates", fullBody)
	for _, got := range []reply{full, d.mustSend(200, "GET", "/v1/templates/"+full.get("id").(string), "")} {
		var request map[string]any
		must.Succeed(t, json.Unmarshal([]byte(fullBody), &request))
		for name, want := range request {
			must.Equal(t, got.get(name), want, "the member", name)
		}
	}
	list := d.mustSend(200, "GET", "/v1/templates", "")
	all, ok := list.body.([]any)
	must.Hold(t, ok && len(all) == 2 && list.get("0.id") == id, "listed", list.text)

	// Both update operations do the same; absent members don't change.
	for i, update := range []struct{ method, suffix string }{{"PATCH", ""}, {"POST", "/update"}} {
		name := fmt.Sprintf("renamed %d", i)
		got := d.mustSend(200, update.method, "/v1/templates/"+full.get("id").(string)+update.suffix, `{"name":"`+name+`","containerRegistryAuthId":null}`)
		d.expectMembers(got, map[string]string{"name": `"` + name + `"`, "containerRegistryAuthId": `""`, "ports": `[]`, "containerDiskInGb": `7`, "readme": `"# hi"`})
		got = d.mustSend(200, update.method, "/v1/templates/"+full.get("id").(string)+update.suffix, `{"containerRegistryAuthId":"`+auth+`"}`)
		d.expectMembers(got, map[string]string{"containerRegistryAuthId": `"` + auth + `"`})
		got = d.mustSend(200, update.method, "/v1/templates/"+full.get("id").(string)+update.suffix, `{"containerRegistryAuthId":""}`)
		d.expectMembers(got, map[string]string{"containerRegistryAuthId": `""`})
		for _, body := range []string{`{"category":"AMD"}`, `{"isServerless":false}`, `{"bogus":1}`} {
			d.expectRefusal(400, "not allowed", update.method, "/v1/templates/"+id+update.suffix, body)
		}
		d.expectRefusal(400, `the name \"t\" is taken`, update.method, "/v1/templates/"+full.get("id").(string)+update.suffix, `{"name":"t"}`)
	}
	got := d.mustSend(200, "PATCH", "/v1/templates/"+id, `{"env":{"B":"1"},"ports":["80/http"],"dockerStartCmd":["x"],"volumeInGb":5}`)
	d.expectMembers(got, map[string]string{"env": `{"B":"1"}`, "ports": `["80/http"]`, "dockerStartCmd": `["x"]`, "volumeInGb": `5`})

	d.expectRefusal(400, `the name \"t\" is taken`, "POST", "/v1/templates", minimalTemplateV1)
	d.expectRefusal(400, "does not exist", "POST", "/v1/templates", `{"name":"n","imageName":"i","containerRegistryAuthId":"unknown"}`)
	list = d.mustSend(200, "GET", "/v1/templates", "")
	must.Hold(t, len(list.body.([]any)) == 2, "a rejected create created", list.text)
	must.Equal(t, d.mustSend(204, "DELETE", "/v1/templates/"+id, "").text, "", "the body of a 204")
	d.expectRefusal(400, "not found", "DELETE", "/v1/templates/"+id, "")
	d.expectRefusal(404, "not found", "GET", "/v1/templates/"+id, "")
	d.expectRefusal(404, "not found", "PATCH", "/v1/templates/"+id, "{}")
}

func TestNetworkVolumeV1(t *testing.T) {
	d := deploy(t)
	id := d.create("/v1/networkvolumes", `{"name":"v","size":20,"dataCenterId":"EU-RO-1"}`)
	d.create("/v1/networkvolumes", `{"name":"v","size":0,"dataCenterId":"not known"}`) // the name needn't be unique
	d.create("/v1/networkvolumes", `{"name":"large","size":4000,"dataCenterId":"EU-RO-1"}`)
	for _, update := range []struct{ method, suffix string }{{"PATCH", ""}, {"POST", "/update"}} {
		path := "/v1/networkvolumes/" + id + update.suffix
		before := d.mustSend(200, "GET", "/v1/networkvolumes/"+id, "")
		size := int(before.get("size").(float64))
		for _, invalidSize := range []int{size, size - 1, 0, -1, 4001} {
			d.expectRefusal(400, `"message":`, update.method, path, fmt.Sprintf(`{"size":%d,"name":"changed"}`, invalidSize))
		}
		must.Equal(t, d.mustSend(200, update.method, path, `{}`).text, before.text, "the volume after rejected updates and an empty one")
		d.expectMembers(d.mustSend(200, update.method, path, fmt.Sprintf(`{"size":%d}`, size+1)),
			map[string]string{"size": fmt.Sprint(size + 1), "name": `"v"`, "dataCenterId": `"EU-RO-1"`, "id": `"` + id + `"`})
		d.expectMembers(d.mustSend(200, update.method, path, `{"name":"w"}`), map[string]string{"size": fmt.Sprint(size + 1), "name": `"w"`})
		d.expectMembers(d.mustSend(200, update.method, path, fmt.Sprintf(`{"name":"v","size":%d}`, size+2)), map[string]string{"size": fmt.Sprint(size + 2), "name": `"v"`})
	}
}

func (d *deployment) createServerlessTemplateV1(name string) string {
	d.Helper()
	return d.create("/v1/templates", `{"name":"`+name+`","imageName":"i","isServerless":true,"env":{"A":"1"}}`)
}

func TestEndpointV1(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	answer := d.mustSend(200, "POST", "/v1/endpoints", `{"templateId":"`+template+`"}`)
	dataCenterIDs := must.Do(json.Marshal(contract.DataCenterIDs))(t)
	d.expectMembers(answer, map[string]string{
		"name": `"t"`, "templateId": `"` + template + `"`, "computeType": `"GPU"`, "gpuTypeIds": `[]`, "gpuCount": `1`, "allowedCudaVersions": `[]`,
		"minCudaVersion": "", "dataCenterIds": string(dataCenterIDs), "networkVolumeId": "", "networkVolumeIds": `[]`, "workersMin": `0`, "workersMax": `3`,
		"idleTimeout": `5`, "scalerType": `"QUEUE_DELAY"`, "scalerValue": `4`, "executionTimeoutMs": `0`, "env": `{"A":"1"}`, "version": `0`,
	})
	for _, absent := range []string{"flashboot", "cpuFlavorIds", "vcpuCount", "userId", "workers", "template", "type"} {
		must.Hold(t, !answer.has(absent), "the answer has", absent, answer.text)
	}
	firstVolume, secondVolume := d.create("/v1/networkvolumes", `{"name":"1","size":1,"dataCenterId":"X"}`), d.create("/v1/networkvolumes", `{"name":"2","size":1,"dataCenterId":"X"}`)
	full := d.mustSend(200, "POST", "/v1/endpoints", `{"name":"e","templateId":"`+template+`","gpuTypeIds":["NVIDIA L40","not known","NVIDIA A40"],"gpuCount":2,
		"minCudaVersion":"12.1","dataCenterIds":["EU-RO-1","mine"],"networkVolumeId":"`+secondVolume+`","networkVolumeIds":["`+firstVolume+`","`+secondVolume+`"],
		"workersMin":1,"workersMax":1,"idleTimeout":3600,"scalerType":"REQUEST_COUNT","scalerValue":1,"executionTimeoutMs":5000,"flashboot":true}`)
	d.expectMembers(full, map[string]string{
		"name": `"e"`, "gpuTypeIds": `["NVIDIA L40","not known","NVIDIA A40"]`, "gpuCount": `2`, "minCudaVersion": `"12.1"`, "dataCenterIds": `["EU-RO-1","mine"]`,
		"networkVolumeId": `"` + secondVolume + `"`, "networkVolumeIds": `["` + secondVolume + `","` + firstVolume + `"]`, "workersMin": `1`, "workersMax": `1`, "idleTimeout": `3600`,
		"scalerType": `"REQUEST_COUNT"`, "scalerValue": `1`, "executionTimeoutMs": `5000`,
	})
	path := "/v1/endpoints/" + full.get("id").(string)
	for _, update := range []struct{ method, suffix string }{{"PATCH", ""}, {"POST", "/update"}} {
		for _, step := range []struct {
			body string
			want map[string]string // nil if the body isn't JSON
		}{
			{`{"gpuTypeIds":["NVIDIA A40","NVIDIA L40"]}`, map[string]string{"gpuTypeIds": `["NVIDIA A40","NVIDIA L40"]`, "gpuCount": `2`}},
			{`{"minCudaVersion":""}`, map[string]string{"minCudaVersion": ""}},
			{`{"allowedCudaVersions":["12.8"]}`, map[string]string{"allowedCudaVersions": `["12.8"]`}},
			{`{"allowedCudaVersions":[],"minCudaVersion":"12.1"}`, map[string]string{"allowedCudaVersions": `[]`, "minCudaVersion": `"12.1"`}},
			{`{"minCudaVersion":null}`, map[string]string{"minCudaVersion": ""}},
			{`{"networkVolumeId":null}`, map[string]string{"networkVolumeId": "", "networkVolumeIds": `[]`}},
			{`{"networkVolumeId":"` + firstVolume + `"}`, map[string]string{"networkVolumeId": `"` + firstVolume + `"`, "networkVolumeIds": `["` + firstVolume + `"]`}},
			{`{"networkVolumeId":""}`, map[string]string{"networkVolumeId": "", "networkVolumeIds": `[]`}},
			{`{"networkVolumeIds":["` + firstVolume + `","` + secondVolume + `"]`, nil},
			{`{"networkVolumeIds":["` + firstVolume + `","` + secondVolume + `"]}`, map[string]string{"networkVolumeId": `"` + firstVolume + `"`}},
			{`{"dataCenterIds":[]}`, map[string]string{"dataCenterIds": string(dataCenterIDs)}},
			{`{"dataCenterIds":["EU-RO-1","mine"]}`, map[string]string{"dataCenterIds": `["EU-RO-1","mine"]`}},
			{`{"executionTimeoutMs":0}`, map[string]string{"executionTimeoutMs": `0`}},
			{`{"scalerValue":1}`, map[string]string{"scalerType": `"REQUEST_COUNT"`, "scalerValue": `1`}},
			{`{"scalerType":"QUEUE_DELAY"}`, map[string]string{"scalerType": `"QUEUE_DELAY"`, "scalerValue": `1`}},
			{`{"scalerType":"REQUEST_COUNT","scalerValue":9}`, map[string]string{"scalerType": `"REQUEST_COUNT"`, "scalerValue": `9`}},
			{`{"cpuFlavorIds":["cpu3c"],"vcpuCount":1}`, map[string]string{"computeType": `"GPU"`, "instanceIds": ""}}, // ignored
			{`{}`, map[string]string{"name": `"e"`}},
		} {
			if step.want == nil {
				d.expectRefusal(400, "not valid JSON", update.method, path+update.suffix, step.body)
				continue
			}
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
