package mgmt_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// TestOneTemplateInTwoVersions: what one version writes, the other reads.
func TestOneTemplateInTwoVersions(t *testing.T) {
	d := deploy(t)
	id := d.create("/v1/templates", `{"name":"t","imageName":"i","dockerStartCmd":["sh","-c","echo 'a b' $X"],"dockerEntrypoint":["/e"],"readme":"r","volumeInGb":5,"isServerless":true}`)
	v1, v2 := "/v1/templates/"+id, "/v2/templates/"+id
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{
		"name": `"t"`, "image": `"i"`, "serverless": `true`, "ports": `["8888/http","22/tcp"]`, "mounts": `{"persistent":{"size":5,"path":"/workspace"}}`,
		"startSsh": `true`, "startJupyter": `true`,
	})
	d.wants(d.ok(200, "PATCH", v2, `{"name":"u","public":true}`), map[string]string{"name": `"u"`})
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{
		"name": `"u"`, "isPublic": `true`, "readme": `"r"`, "dockerEntrypoint": `["/e"]`, "dockerStartCmd": `["sh","-c","echo 'a b' $X"]`,
	})
	// Args keep the words that they were written in, as long as they mean the same.
	const written = `"python  -u \"h i.py\""`
	d.ok(200, "PATCH", v2, `{"args":`+written+`}`)
	d.wants(d.ok(200, "PATCH", v1, `{"dockerStartCmd":["python","-u","h i.py"]}`), map[string]string{"dockerStartCmd": `["python","-u","h i.py"]`})
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"args": written})
	d.ok(200, "PATCH", v1, `{"dockerStartCmd":["python","h i.py"]}`)
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"args": `"python 'h i.py'"`})
	d.ok(200, "PATCH", v2, `{"args":"it's"}`) // no shell reads that
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"dockerStartCmd": `["it's"]`})
	d.ok(200, "PATCH", v1, `{"dockerStartCmd":[]}`)
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"args": `""`})

	d.ok(200, "PATCH", v1, `{"volumeInGb":0}`)
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"mounts": `{}`})
	d.ok(200, "PATCH", v2, `{"mounts":{"persistent":{"size":30,"path":"/d"}}}`)
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"volumeInGb": `30`, "volumeMountPath": `"/d"`})

	plain := d.create("/v2/templates", `{"name":"plain","image":"i"}`)
	d.wants(d.ok(200, "GET", "/v1/templates/"+plain, ""), map[string]string{
		"ports": `[]`, "volumeInGb": `0`, "volumeMountPath": `"/workspace"`, "readme": `""`, "dockerStartCmd": `[]`, "containerDiskInGb": `50`, "category": `"NVIDIA"`,
	})
	d.refused(400, "is taken", "POST", "/v1/templates", `{"name":"plain","imageName":"i"}`)
	d.refused(400, "is taken", "POST", "/v2/templates", `{"name":"u","image":"i"}`)
	d.ok(204, "DELETE", "/v1/templates/"+plain, "")
	d.refused(404, "not found", "GET", "/v2/templates/"+plain, "")
}

func TestOneVolumeAndOneAuthInTwoVersions(t *testing.T) {
	d := deploy(t)
	small := d.create("/v1/networkvolumes", `{"name":"v","size":5,"dataCenterId":"EU-RO-1"}`)
	d.wants(d.ok(200, "GET", "/v2/network-volumes/"+small, ""), map[string]string{"size": `5`, "dataCenter": `"EU-RO-1"`, "type": `"STANDARD"`})
	d.ok(200, "PATCH", "/v2/network-volumes/"+small, `{"size":4096}`)
	d.wants(d.ok(200, "GET", "/v1/networkvolumes/"+small, ""), map[string]string{"size": `4096`})
	d.refused(400, "can only grow", "POST", "/v1/networkvolumes/"+small+"/update", `{"size":4000}`)
	auth := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`)
	d.wants(d.ok(200, "GET", "/v1/containerregistryauth/"+auth, ""), map[string]string{"name": `"r"`})
	d.refused(400, "is taken", "POST", "/v1/containerregistryauth", `{"name":"r","username":"u","password":"p"}`)
}

// TestGPUsInTwoVersions: types and pools say the same, and what was sent stays.
func TestGPUsInTwoVersions(t *testing.T) {
	d := deploy(t)
	template := d.workerTemplateV1("t")
	v2Made := d.create("/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["ADA_48_PRO","HOPPER_141"],"excludedTypes":["NVIDIA L40"]}}`)
	d.wants(d.ok(200, "GET", "/v1/endpoints/"+v2Made, ""), map[string]string{"gpuTypeIds": `["NVIDIA L40S","NVIDIA RTX 6000 Ada Generation","NVIDIA H200"]`, "computeType": `"GPU"`})

	v1Made := d.create("/v1/endpoints", `{"templateId":"`+template+`","gpuTypeIds":["NVIDIA H200","NVIDIA L40"],"gpuCount":2,"allowedCudaVersions":["12.8"]}`)
	const means = `{"pools":["HOPPER_141","ADA_48_PRO"],"excludedTypes":["NVIDIA L40S","NVIDIA RTX 6000 Ada Generation"],"count":2,"allowedCudaVersions":["12.8"],"minCudaVersion":null}`
	d.wants(d.ok(200, "GET", "/v2/serverless/"+v1Made, ""), map[string]string{"gpu": means})
	d.ok(200, "PATCH", "/v2/serverless/"+v1Made, `{"gpu":{"pools":["ADA_48_PRO","HOPPER_141"],"excludedTypes":["NVIDIA RTX 6000 Ada Generation","NVIDIA L40S"]}}`)
	d.wants(d.ok(200, "GET", "/v1/endpoints/"+v1Made, ""), map[string]string{"gpuTypeIds": `["NVIDIA H200","NVIDIA L40"]`}) // in its order
	d.ok(200, "PATCH", "/v2/serverless/"+v1Made, `{"gpu":{"pools":["ADA_48_PRO"]}}`)
	d.wants(d.ok(200, "GET", "/v1/endpoints/"+v1Made, ""), map[string]string{"gpuTypeIds": `["NVIDIA L40S","NVIDIA L40","NVIDIA RTX 6000 Ada Generation"]`})
	d.ok(200, "PATCH", "/v1/endpoints/"+v2Made, `{"gpuTypeIds":["NVIDIA L4"]}`)
	d.wants(d.ok(200, "GET", "/v2/serverless/"+v2Made, ""), map[string]string{"gpu.pools": `["ADA_24"]`, "gpu.excludedTypes": `["NVIDIA GeForce RTX 4090"]`})

	anything := d.create("/v1/endpoints", `{"templateId":"`+template+`","computeType":"GPU"}`) // any GPU: all pools
	if pools := d.ok(200, "GET", "/v2/serverless/"+anything, "").at("gpu.pools").([]any); len(pools) != 10 {
		t.Errorf("any GPU is %v", pools)
	}
	for _, gpus := range []string{``, `,"gpuTypeIds":[],"allowedCudaVersions":[],"minCudaVersion":""`} { // any compute
		nothing := d.create("/v1/endpoints", `{"templateId":"`+template+`"`+gpus+`}`)
		d.wants(d.ok(200, "GET", "/v2/serverless/"+nothing, ""), map[string]string{"gpu": "", "cpu": ""})
		d.ok(200, "PATCH", "/v1/endpoints/"+nothing, `{"gpuTypeIds":["NVIDIA H200"]}`)
		d.wants(d.ok(200, "GET", "/v2/serverless/"+nothing, ""), map[string]string{"gpu.pools": `["HOPPER_141"]`, "gpu.count": `1`})
	}
	// Types of no pool: version 2 has no words for them, and leaves them alone.
	unpooled := d.create("/v1/endpoints", `{"templateId":"`+template+`","gpuTypeIds":["NVIDIA A30","NVIDIA B200"],"gpuCount":2}`)
	d.wants(d.ok(200, "GET", "/v2/serverless/"+unpooled, ""), map[string]string{"gpu": "", "cpu": ""})
	d.ok(200, "PATCH", "/v2/serverless/"+unpooled, `{"name":"renamed"}`)
	d.wants(d.ok(200, "GET", "/v1/endpoints/"+unpooled, ""), map[string]string{"gpuTypeIds": `["NVIDIA A30","NVIDIA B200"]`, "gpuCount": `2`})
	d.ok(200, "PATCH", "/v2/serverless/"+unpooled, `{"gpu":{"pools":["HOPPER_141"]}}`)
	d.wants(d.ok(200, "GET", "/v1/endpoints/"+unpooled, ""), map[string]string{"gpuTypeIds": `["NVIDIA H200"]`, "gpuCount": `2`})

	cpu := d.create("/v1/endpoints", `{"templateId":"`+template+`","computeType":"CPU","cpuFlavorIds":["cpu3c","cpu5c"],"vcpuCount":4}`)
	d.wants(d.ok(200, "GET", "/v2/serverless/"+cpu, ""), map[string]string{"cpu": `[{"id":"cpu3c","vcpuCount":4,"memory":8},{"id":"cpu5c","vcpuCount":4,"memory":8}]`, "gpu": ""})
}

// TestEndpointSettingsInTwoVersions covers what is named or bounded otherwise.
func TestEndpointSettingsInTwoVersions(t *testing.T) {
	d := deploy(t)
	template := d.workerTemplateV1("t")
	id := d.create("/v1/endpoints", `{"templateId":"`+template+`","flashboot":true,"executionTimeoutMs":5000,"scalerType":"REQUEST_COUNT","scalerValue":3}`)
	v1, v2 := "/v1/endpoints/"+id, "/v2/serverless/"+id
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{
		"type": `"QUEUE"`, "flashboot": `"FLASHBOOT"`, "timeout": `5000`, "scaling": `{"type":"REQUEST_COUNT","requestCount":3}`, "workers": `{"min":0,"max":3}`, "dataCenterIds": `[]`,
	})
	d.refused(422, "$.workers.idleTimeout", "PATCH", v2, `{"workers":{"idleTimeout":5}}`)
	d.ok(200, "PATCH", v2, `{"scaling":{"type":"QUEUE_DELAY","queueDelay":1.5},"flashboot":"PRIORITY_FLASHBOOT"}`)
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"scalerType": `"QUEUE_DELAY"`, "scalerValue": `2`, "idleTimeout": `5`})
	d.ok(200, "PATCH", v1, `{"flashboot":true,"name":"renamed"}`) // it is on already
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"flashboot": `"PRIORITY_FLASHBOOT"`, "scaling": `{"type":"QUEUE_DELAY","queueDelay":1.5}`, "name": `"renamed"`})
	d.ok(200, "PATCH", v1, `{"flashboot":false}`)
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"flashboot": `"OFF"`})
	d.refused(400, "LOAD_BALANCER", "PATCH", "/v1/endpoints/"+d.create("/v2/serverless", `{"name":"lb","image":"i","type":"LOAD_BALANCER","scaling":{"type":"REQUEST_COUNT","requestCount":1}}`), `{"scalerType":"QUEUE_DELAY"}`)
	huge := d.create("/v2/serverless", `{"name":"huge","image":"i","scaling":{"type":"QUEUE_DELAY","queueDelay":1e300}}`)
	d.wants(d.ok(200, "GET", "/v1/endpoints/"+huge, ""), map[string]string{"scalerValue": `9007199254740992`})
}

// TestLinks: set through version 1 a template is followed, through version 2
// it is copied.
func TestLinks(t *testing.T) {
	d := deploy(t)
	template := d.workerTemplateV1("t")
	id := d.create("/v1/endpoints", `{"templateId":"`+template+`"}`)
	v1, v2 := "/v1/endpoints/"+id, "/v2/serverless/"+id
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"image": `"i"`, "env": `{"A":"1"}`, "templateId": ""})

	d.ok(200, "PATCH", "/v2/templates/"+template, `{"env":{"A":"2"}}`)
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"env": `{"A":"2"}`, "version": `1`, "templateId": `"` + template + `"`})
	d.ok(200, "POST", "/v1/templates/"+template+"/update", `{"imageName":"j"}`)
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"image": `"j"`, "env": `{"A":"2"}`})
	d.ok(200, "PATCH", "/v1/templates/"+template, `{"readme":"no setting of a container"}`)
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"version": `2`})
	d.refused(400, "is linked to it", "DELETE", "/v2/templates/"+template, "")
	d.refused(400, "must stay a serverless template", "PATCH", "/v2/templates/"+template, `{"serverless":false}`)

	d.ok(200, "PATCH", v2, `{"name":"renamed","timeout":5000}`) // nothing of the container: still linked
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"templateId": `"` + template + `"`, "version": `2`})
	d.ok(200, "PATCH", v2, `{"disk":7}`)
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"templateId": "", "version": `3`, "env": `{"A":"2"}`})
	d.ok(200, "PATCH", "/v2/templates/"+template, `{"image":"k"}`)
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"image": `"j"`, "disk": `7`})

	d.wants(d.ok(200, "PATCH", v1, `{"templateId":"`+template+`"}`), map[string]string{"templateId": `"` + template + `"`, "version": `4`})
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"image": `"k"`, "disk": `50`})
	d.ok(200, "PATCH", v2, `{"templateId":"`+template+`"}`)
	d.wants(d.ok(200, "GET", v1, ""), map[string]string{"templateId": "", "version": `4`})
	d.ok(204, "DELETE", "/v1/templates/"+template, "")
	d.wants(d.ok(200, "GET", v2, ""), map[string]string{"image": `"k"`})
}

// TestOneNameWins: many creates of one name through both versions at once.
func TestOneNameWins(t *testing.T) {
	d := deploy(t)
	var (
		wait     sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
	)
	for n := range 16 {
		wait.Go(func() {
			path, body := "/v1/templates", `{"name":"same","imageName":"i"}`
			if n%2 == 0 {
				path, body = "/v2/templates", `{"name":"same","image":"i"}`
			}
			got := d.send("POST", path, body)
			mu.Lock()
			statuses[got.status]++
			mu.Unlock()
		})
	}
	wait.Wait()
	if statuses[200]+statuses[201] != 1 || statuses[400] != 15 {
		t.Errorf("answers: %v", statuses)
	}
	if all := d.ok(200, "GET", "/v1/templates", ""); len(all.body.([]any)) != 1 {
		t.Errorf("made %s", all.text)
	}
}

// TestSecretsStayInside: neither a credential nor the key is in any answer,
// faults included.
func TestSecretsStayInside(t *testing.T) {
	d := deploy(t)
	secrets := []string{"hunter2", "the-user-of-it", testKey}
	credentials := `"username":"the-user-of-it","password":"hunter2"`
	for _, path := range []string{"/v1/containerregistryauth", "/v2/registries"} {
		name := strings.Split(path, "/")[1]
		id := d.create(path, `{"name":"`+name+`",`+credentials+`}`)
		for _, bad := range []string{
			`{"name":"` + name + `",` + credentials + `}`, `{` + credentials + `}`, `{"name":1,` + credentials + `}`, `{"name":"x","x":"hunter2",` + credentials + `}`,
			`{"name":"x","username":["the-user-of-it"],"password":{"hunter2":"hunter2"}}`, `{"name":"x",` + credentials, `["hunter2"]`,
		} {
			if got := d.send("POST", path, bad); got.status < 400 {
				t.Errorf("%s: %d", bad, got.status)
			}
		}
		for _, read := range []string{path, path + "/" + id, "/v2/templates", "/v1/templates"} {
			d.ok(200, "GET", read, "")
		}
		d.send("PATCH", path+"/"+id, `{`+credentials+`}`)
		d.ok(204, "DELETE", path+"/"+id, "")
	}
	d.sendWith("GET", "/v2/templates", "", http.Header{"Authorization": {"Basic " + testKey}})
	d.refused(422, "", "POST", "/v2/templates", `{"name":"x","image":"i","env":{"TOKEN":["hunter2"]}}`)
	for _, secret := range secrets {
		if at := strings.Index(d.answered.String(), secret); at >= 0 {
			t.Errorf("an answer has %q: %s", secret, d.answered.String()[max(0, at-200):])
		}
	}
}

// TestListsAreWhatReadsAre: an object is the same in its list, in its read and
// in the answer that made it.
func TestListsAreWhatReadsAre(t *testing.T) {
	d := deploy(t)
	template := d.workerTemplateV1("t")
	for _, c := range []struct{ path, key, body string }{
		{"/v1/templates", "", `{"name":"a","imageName":"i"}`},
		{"/v2/templates", "templates", `{"name":"b","image":"i"}`},
		{"/v1/networkvolumes", "", `{"name":"a","size":1,"dataCenterId":"X"}`},
		{"/v2/network-volumes", "networkVolumes", `{"name":"b","size":10,"dataCenter":"X"}`},
		{"/v1/containerregistryauth", "", `{"name":"a","username":"u","password":"p"}`},
		{"/v2/registries", "registries", `{"name":"b","username":"u","password":"p"}`},
		{"/v1/endpoints", "", `{"templateId":"` + template + `"}`},
		{"/v2/serverless", "endpoints", `{"name":"b","image":"i"}`},
	} {
		made := d.send("POST", c.path, c.body)
		read := d.ok(200, "GET", fmt.Sprintf("%s/%v", c.path, made.at("id")), "")
		list := d.ok(200, "GET", c.path, "")
		all := list.body
		if c.key != "" {
			all = list.at(c.key)
		}
		items, _ := all.([]any)
		if len(items) == 0 || !reflect.DeepEqual(items[len(items)-1], made.body) || !reflect.DeepEqual(read.body, made.body) {
			t.Errorf("%s\nmade %s read %s list %s", c.path, made.text, read.text, list.text)
		}
	}
}
