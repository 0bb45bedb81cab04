package mgmt_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Each version reads what the other wrote.
func TestOneTemplateInTwoVersions(t *testing.T) {
	d := deploy(t)
	id := d.create("/v1/templates", `{"name":"t","imageName":"i","dockerStartCmd":["sh","-c","echo 'a b' $X"],"dockerEntrypoint":["/e"],"readme":"r","volumeInGb":5,"isServerless":true}`)
	v1, v2 := "/v1/templates/"+id, "/v2/templates/"+id
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{
		"name": `"t"`, "image": `"i"`, "serverless": `true`, "ports": `["8888/http","22/tcp"]`, "mounts": `{"persistent":{"size":5,"path":"/workspace"}}`,
		"startSsh": `true`, "startJupyter": `true`,
	})
	d.expectMembers(d.mustSend(200, "PATCH", v2, `{"name":"u","public":true}`), map[string]string{"name": `"u"`})
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{
		"name": `"u"`, "isPublic": `true`, "readme": `"r"`, "dockerEntrypoint": `["/e"]`, "dockerStartCmd": `["sh","-c","echo 'a b' $X"]`,
	})
	d.mustSend(200, "PATCH", v1, `{"volumeInGb":0}`)
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"mounts": `{}`})
	d.mustSend(200, "PATCH", v2, `{"mounts":{"persistent":{"size":30,"path":"/d"}}}`)
	d.mustSend(200, "PATCH", v2, `{"mounts":{}}`) // changes nothing
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{"volumeInGb": `30`, "volumeMountPath": `"/d"`})

	minimal := d.create("/v2/templates", `{"name":"plain","image":"i"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/templates/"+minimal, ""), map[string]string{
		"ports": `[]`, "volumeInGb": `0`, "volumeMountPath": `"/workspace"`, "readme": `""`, "dockerStartCmd": `[]`, "containerDiskInGb": `50`, "category": `"NVIDIA"`,
	})
	d.expectRefusal(400, "is taken", "POST", "/v1/templates", `{"name":"plain","imageName":"i"}`)
	d.expectRefusal(400, "is taken", "POST", "/v2/templates", `{"name":"u","image":"i"}`)
	d.mustSend(204, "DELETE", "/v1/templates/"+minimal, "")
	d.expectRefusal(404, "not found", "GET", "/v2/templates/"+minimal, "")
}

func TestOneVolumeAndOneAuthInTwoVersions(t *testing.T) {
	d := deploy(t)
	volume := d.create("/v1/networkvolumes", `{"name":"v","size":5,"dataCenterId":"EU-RO-1"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v2/network-volumes/"+volume, ""), map[string]string{"size": `5`, "dataCenter": `"EU-RO-1"`, "type": `"STANDARD"`})
	d.mustSend(200, "PATCH", "/v2/network-volumes/"+volume, `{"size":4096}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/networkvolumes/"+volume, ""), map[string]string{"size": `4096`})
	d.expectRefusal(400, "can only grow", "POST", "/v1/networkvolumes/"+volume+"/update", `{"size":4000}`)
	auth := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/containerregistryauth/"+auth, ""), map[string]string{"name": `"r"`})
	d.expectRefusal(400, "is taken", "POST", "/v1/containerregistryauth", `{"name":"r","username":"u","password":"p"}`)
}

// TestGPUsInTwoVersions tests the conversion between types and pools, and that selections stay as sent.
func TestGPUsInTwoVersions(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	fromV2 := d.create("/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["ADA_48_PRO","HOPPER_141"],"excludedTypes":["NVIDIA L40"]}}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+fromV2, ""), map[string]string{"gpuTypeIds": `["NVIDIA L40S","NVIDIA RTX 6000 Ada Generation","NVIDIA H200"]`, "computeType": `"GPU"`})

	d.expectMembers(d.mustSend(200, "PATCH", "/v1/endpoints/"+fromV2, `{"gpuTypeIds":["NVIDIA L40S","NVIDIA RTX 6000 Ada Generation","NVIDIA H200"],"gpuCount":1}`), map[string]string{"version": `0`}) // no change

	fromV1 := d.create("/v1/endpoints", `{"templateId":"`+template+`","gpuTypeIds":["NVIDIA H200","NVIDIA L40"],"gpuCount":2,"allowedCudaVersions":["12.8"]}`)
	const wantGPU = `{"pools":["HOPPER_141","ADA_48_PRO"],"excludedTypes":["NVIDIA L40S","NVIDIA RTX 6000 Ada Generation"],"count":2,"allowedCudaVersions":["12.8"],"minCudaVersion":null}`
	d.expectMembers(d.mustSend(200, "GET", "/v2/serverless/"+fromV1, ""), map[string]string{"gpu": wantGPU})
	d.mustSend(200, "PATCH", "/v2/serverless/"+fromV1, `{"gpu":{"pools":["ADA_48_PRO","HOPPER_141"],"excludedTypes":["NVIDIA RTX 6000 Ada Generation","NVIDIA L40S"]}}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+fromV1, ""), map[string]string{"gpuTypeIds": `["NVIDIA H200","NVIDIA L40"]`}) // in the order of version 1
	d.mustSend(200, "PATCH", "/v2/serverless/"+fromV1, `{"gpu":{"pools":["ADA_48_PRO"]}}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+fromV1, ""), map[string]string{"gpuTypeIds": `["NVIDIA L40S","NVIDIA L40","NVIDIA RTX 6000 Ada Generation"]`})
	d.mustSend(200, "PATCH", "/v1/endpoints/"+fromV2, `{"gpuTypeIds":["NVIDIA L4"]}`)
	d.expectMembers(d.mustSend(200, "GET", "/v2/serverless/"+fromV2, ""), map[string]string{"gpu.pools": `["ADA_24"]`, "gpu.excludedTypes": `["NVIDIA GeForce RTX 4090"]`})

	anyGPU := d.create("/v1/endpoints", `{"templateId":"`+template+`","computeType":"GPU"}`) // any GPU: all pools
	pools := d.mustSend(200, "GET", "/v2/serverless/"+anyGPU, "").get("gpu.pools").([]any)
	must.Hold(t, len(pools) == 10, "any GPU is", pools)
	for _, gpus := range []string{``, `,"gpuTypeIds":[],"allowedCudaVersions":[],"minCudaVersion":""`} { // any compute
		anyCompute := d.create("/v1/endpoints", `{"templateId":"`+template+`"`+gpus+`}`)
		d.mustSend(200, "PATCH", "/v1/endpoints/"+anyCompute, `{"gpuTypeIds":[],"gpuCount":1}`) // no change: version 1 shows this
		d.expectMembers(d.mustSend(200, "GET", "/v2/serverless/"+anyCompute, ""), map[string]string{"gpu": "", "cpu": ""})
		d.mustSend(200, "PATCH", "/v1/endpoints/"+anyCompute, `{"gpuTypeIds":["NVIDIA H200"]}`)
		d.expectMembers(d.mustSend(200, "GET", "/v2/serverless/"+anyCompute, ""), map[string]string{"gpu.pools": `["HOPPER_141"]`, "gpu.count": `1`})
	}
	// Version 2 can't express types outside all pools, and doesn't change them.
	unpooled := d.create("/v1/endpoints", `{"templateId":"`+template+`","gpuTypeIds":["NVIDIA A30","NVIDIA B200"],"gpuCount":2}`)
	d.expectMembers(d.mustSend(200, "GET", "/v2/serverless/"+unpooled, ""), map[string]string{"gpu": "", "cpu": ""})
	d.mustSend(200, "PATCH", "/v2/serverless/"+unpooled, `{"name":"renamed"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+unpooled, ""), map[string]string{"gpuTypeIds": `["NVIDIA A30","NVIDIA B200"]`, "gpuCount": `2`})
	d.mustSend(200, "PATCH", "/v2/serverless/"+unpooled, `{"gpu":{"pools":["HOPPER_141"]}}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+unpooled, ""), map[string]string{"gpuTypeIds": `["NVIDIA H200"]`, "gpuCount": `2`})

	cpu := d.create("/v1/endpoints", `{"templateId":"`+template+`","computeType":"CPU","cpuFlavorIds":["cpu3c","cpu5c"],"vcpuCount":4}`)
	d.expectMembers(d.mustSend(200, "GET", "/v2/serverless/"+cpu, ""), map[string]string{"cpu": `[{"id":"cpu3c","vcpuCount":4,"memory":8},{"id":"cpu5c","vcpuCount":4,"memory":8}]`, "gpu": ""})
}

// TestEndpointSettingsInTwoVersions covers the members whose names or bounds differ.
func TestEndpointSettingsInTwoVersions(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	id := d.create("/v1/endpoints", `{"templateId":"`+template+`","flashboot":true,"executionTimeoutMs":5000,"scalerType":"REQUEST_COUNT","scalerValue":3}`)
	v1, v2 := "/v1/endpoints/"+id, "/v2/serverless/"+id
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{
		"type": `"QUEUE"`, "flashboot": `"FLASHBOOT"`, "timeout": `5000`, "scaling": `{"type":"REQUEST_COUNT","requestCount":3}`, "workers": `{"min":0,"max":3}`, "dataCenterIds": `[]`,
	})
	d.expectRefusal(422, "$.workers.idleTimeout", "PATCH", v2, `{"workers":{"idleTimeout":5}}`)
	d.mustSend(200, "PATCH", v2, `{"scaling":{"type":"QUEUE_DELAY","queueDelay":1.5},"flashboot":"PRIORITY_FLASHBOOT"}`)
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{"scalerType": `"QUEUE_DELAY"`, "scalerValue": `2`, "idleTimeout": `5`})
	d.mustSend(200, "PATCH", v1, `{"flashboot":true,"scalerValue":2,"name":"renamed"}`) // no change: FlashBoot is already on, and 2 is what version 1 shows
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"flashboot": `"PRIORITY_FLASHBOOT"`, "scaling": `{"type":"QUEUE_DELAY","queueDelay":1.5}`, "name": `"renamed"`})
	d.mustSend(200, "PATCH", v1, `{"flashboot":false,"scalerType":"REQUEST_COUNT"}`)
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"flashboot": `"OFF"`})
	d.expectRefusal(400, "LOAD_BALANCER", "PATCH", "/v1/endpoints/"+d.create("/v2/serverless", `{"name":"lb","image":"i","type":"LOAD_BALANCER","scaling":{"type":"REQUEST_COUNT","requestCount":1}}`), `{"scalerType":"QUEUE_DELAY"}`)
	d.mustSend(200, "PATCH", v1, `{"scalerType":"QUEUE_DELAY"}`)
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"scaling": `{"type":"QUEUE_DELAY","queueDelay":2}`}) // no fraction of a request
	huge := d.create("/v2/serverless", `{"name":"huge","image":"i","scaling":{"type":"QUEUE_DELAY","queueDelay":1e300}}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1/endpoints/"+huge, ""), map[string]string{"scalerValue": `9007199254740991`})
}

// An endpoint follows a template that version 1 sets, and copies one that version 2 sets.
func TestTemplateLinks(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	id := d.create("/v1/endpoints", `{"templateId":"`+template+`"}`)
	v1, v2 := "/v1/endpoints/"+id, "/v2/serverless/"+id
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"image": `"i"`, "env": `{"A":"1"}`, "templateId": ""})

	d.mustSend(200, "PATCH", "/v2/templates/"+template, `{"env":{"A":"2"}}`)
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{"env": `{"A":"2"}`, "version": `1`, "templateId": `"` + template + `"`})
	d.mustSend(200, "POST", "/v1/templates/"+template+"/update", `{"imageName":"j"}`)
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"image": `"j"`, "env": `{"A":"2"}`})
	d.mustSend(200, "PATCH", "/v1/templates/"+template, `{"readme":"no setting of a container"}`)
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{"version": `2`})
	d.expectRefusal(400, "is linked to it", "DELETE", "/v2/templates/"+template, "")
	d.expectRefusal(400, "must stay a serverless template", "PATCH", "/v2/templates/"+template, `{"serverless":false}`)

	d.mustSend(200, "PATCH", v2, `{"name":"renamed","timeout":5000}`) // no member of the container: still linked
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{"templateId": `"` + template + `"`, "version": `2`})
	d.mustSend(200, "PATCH", v2, `{"disk":7}`)
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{"templateId": "", "version": `3`, "env": `{"A":"2"}`})
	d.mustSend(200, "PATCH", "/v2/templates/"+template, `{"image":"k"}`)
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"image": `"j"`, "disk": `7`})

	d.expectMembers(d.mustSend(200, "PATCH", v1, `{"templateId":"`+template+`"}`), map[string]string{"templateId": `"` + template + `"`, "version": `4`})
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"image": `"k"`, "disk": `50`})
	d.mustSend(200, "PATCH", v2, `{"templateId":"`+template+`"}`)
	d.expectMembers(d.mustSend(200, "GET", v1, ""), map[string]string{"templateId": "", "version": `4`})
	d.mustSend(204, "DELETE", "/v1/templates/"+template, "")
	d.expectMembers(d.mustSend(200, "GET", v2, ""), map[string]string{"image": `"k"`})
}

// No answer has a credential or the API key, not even an error.
func TestAnswersHaveNoSecrets(t *testing.T) {
	d := deploy(t)
	secrets := []string{"hunter2", "the-user-of-it", testKey}
	credentials := `"username":"the-user-of-it","password":"hunter2"`
	for _, path := range []string{"/v1/containerregistryauth", "/v2/registries"} {
		name := strings.Split(path, "/")[1]
		id := d.create(path, `{"name":"`+name+`",`+credentials+`}`)
		for _, body := range []string{
			`{"name":"` + name + `",` + credentials + `}`, `{` + credentials + `}`, `{"name":1,` + credentials + `}`, `{"name":"x","x":"hunter2",` + credentials + `}`,
			`{"name":"x","username":["the-user-of-it"],"password":{"hunter2":"hunter2"}}`, `{"name":"x",` + credentials, `["hunter2"]`,
		} {
			got := d.send("POST", path, body)
			must.Hold(t, got.status >= 400, body, got.status)
		}
		for _, read := range []string{path, path + "/" + id, "/v2/templates", "/v1/templates"} {
			d.mustSend(200, "GET", read, "")
		}
		d.send("PATCH", path+"/"+id, `{`+credentials+`}`)
		d.mustSend(204, "DELETE", path+"/"+id, "")
	}
	d.sendWith("GET", "/v2/templates", "", http.Header{"Authorization": {"Basic " + testKey}})
	d.expectRefusal(422, "", "POST", "/v2/templates", `{"name":"x","image":"i","env":{"TOKEN":["hunter2"]}}`)
	for _, secret := range secrets {
		index := strings.Index(d.transcript.String(), secret)
		must.Hold(t, index < 0, "an answer has", secret, d.transcript.String()[max(0, index-200):])
	}
}

// An object is the same in the answers to create, list and read, and is gone after its deletion.
func TestListsMatchReads(t *testing.T) {
	d := deploy(t)
	template := d.createServerlessTemplateV1("t")
	for _, c := range []struct{ path, member, body string }{
		{"/v1/templates", "", `{"name":"a","imageName":"i"}`},
		{"/v2/templates", "templates", `{"name":"b","image":"i"}`},
		{"/v1/networkvolumes", "", `{"name":"a","size":1,"dataCenterId":"X"}`},
		{"/v2/network-volumes", "networkVolumes", `{"name":"b","size":10,"dataCenter":"X"}`},
		{"/v1/containerregistryauth", "", `{"name":"a","username":"u","password":"p"}`},
		{"/v2/registries", "registries", `{"name":"b","username":"u","password":"p"}`},
		{"/v1/endpoints", "", `{"templateId":"` + template + `"}`},
		{"/v2/serverless", "endpoints", `{"name":"b","image":"i"}`},
	} {
		answer := d.send("POST", c.path, c.body)
		object := fmt.Sprintf("%s/%v", c.path, answer.get("id"))
		read := d.mustSend(200, "GET", object, "")
		list := d.mustSend(200, "GET", c.path, "")
		all := list.body
		if c.member != "" {
			all = list.get(c.member)
		}
		items, _ := all.([]any)
		newest := len(items) - 1
		if c.path == "/v2/templates" || c.path == "/v2/serverless" { // paged lists begin with the newest
			newest = 0
		}
		must.Hold(t, len(items) != 0 && reflect.DeepEqual(items[newest], answer.body) && reflect.DeepEqual(read.body, answer.body),
			c.path, "created", answer.text, "read", read.text, "list", list.text)
		d.mustSend(204, "DELETE", object, "")
		d.expectRefusal(404, "not found", "GET", object, "")
		list = d.mustSend(200, "GET", c.path, "")
		must.Hold(t, !strings.Contains(list.text, fmt.Sprint(answer.get("id"))), c.path, "lists a deleted object:", list.text)
	}
}
