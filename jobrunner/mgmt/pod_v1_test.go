package mgmt_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const (
	cpuPodV1 = `{"imageName":"i","computeType":"CPU","cpuFlavorIds":["cpu3c"],"vcpuCount":4}`
	gpuPodV1 = `{"imageName":"i","gpuTypeIds":["NVIDIA L4","NVIDIA H200"]}`
)

func (d *deployment) podV1(body string) reply {
	d.Helper()
	return d.mustSend(201, "POST", "/v1/pods", body)
}

// Version 1 sets the defaults of omitted members, and version 2 shows the result.
func TestPodDefaultsV1(t *testing.T) {
	d := deploy(t)
	got := d.podV1(`{"imageName":"i"}`)
	d.expectMembers(got, map[string]string{
		"name": `"my pod"`, "image": `"i"`, "containerDiskInGb": `50`, "volumeInGb": `20`, "volumeMountPath": `"/workspace"`, "ports": `["8888/http","22/tcp"]`,
		"env": `{}`, "dockerEntrypoint": `[]`, "dockerStartCmd": `[]`, "gpu.count": `1`, "locked": `false`, "interruptible": `false`, "desiredStatus": `"RUNNING"`,
		"portMappings": `{}`, "publicIp": `null`, "savingsPlans": `[]`, "costPerHr": `0`, "adjustedCostPerHr": `0`, "volumeEncrypted": `false`,
	})
	text, _ := got.get("lastStatusChange").(string)
	must.Hold(t, strings.HasPrefix(text, "Rented by User: "), got.text)
	d.expectMembers(d.mustSend(200, "GET", "/v2/pods/"+got.get("id").(string), ""), map[string]string{
		"mounts": `{"persistent":{"size":20,"path":"/workspace"}}`, "gpu.id": `""`, "gpu.count": `1`, "ports": `["8888/http","22/tcp"]`, "cloud": `"SECURE"`,
	})
	cpu := d.podV1(`{"imageName":"i","computeType":"CPU","gpuCount":4,"gpuTypeIds":["x"]}`)
	d.expectMembers(cpu, map[string]string{"cpuFlavorId": `"cpu3c"`, "vcpuCount": `2`, "memoryInGb": `4`, "gpu": "", "volumeInGb": `0`})
	d.expectMembers(d.podV1(`{"imageName":"i","cpuFlavorIds":["cpu5g"],"vcpuCount":8,"containerDiskInGb":null,"volumeInGb":null}`), map[string]string{"gpu.count": `1`, "cpuFlavorId": "", "containerDiskInGb": `50`, "volumeInGb": `20`})
}

func TestPodRulesV1(t *testing.T) {
	d := deploy(t)
	serverless := d.create("/v2/templates", `{"name":"s","image":"i","serverless":true}`)
	volume := d.createVolume("EU-RO-1")
	for _, c := range []struct{ text, more string }{
		{"want at most 191", `"name":"` + strings.Repeat("x", 192) + `"`},
		{"want a power of two", `"vcpuCount":3`},
		{"want one of 'GPU', 'CPU'", `"computeType":"TPU"`},
		{"want one of 'SECURE', 'COMMUNITY'", `"cloudType":"MINE"`},
		{"want one of 'availability', 'custom'", `"gpuTypePriority":"first"`},
		{"want at least 1", `"gpuCount":0`},
		{"8 at most", `"gpuCount":9`},
		{"want a CUDA version as major.minor", `"allowedCudaVersions":["12"]`},
		{"does not exist", `"templateId":"nothing"`},
		{"is a serverless template", `"templateId":"` + serverless + `"`},
		{"does not exist", `"networkVolumeId":"nothing"`},
		{"data center EU-RO-1", `"networkVolumeId":"` + volume + `","dataCenterIds":["US-TX-3"]`},
		{"does not exist", `"containerRegistryAuthId":"nothing"`},
		{"a CPU pod has no persistent mount", `"computeType":"CPU","volumeInGb":20`},
		{"globalNetworking needs an NVIDIA GPU", `"computeType":"CPU","globalNetworking":true`},
		{"no data center that the pod may be in is in DE", `"countryCodes":["DE"]`},
		{"an absolute path", `"volumeMountPath":"w"`},
		{"additional properties 'image' not allowed", `"image":"j"`},
		{"want integer", `"gpuCount":null`},
	} {
		d.expectRefusal(400, c.text, "POST", "/v1/pods", `{"imageName":"i",`+c.more+`}`)
	}
	d.expectRefusal(400, "missing property 'imageName'", "POST", "/v1/pods", `{}`)
	network := d.podV1(`{"imageName":"i","networkVolumeId":"` + volume + `","volumeInGb":30,"countryCodes":["RO"]}`)
	d.expectMembers(network, map[string]string{"volumeInGb": `0`, "volumeMountPath": `"/workspace"`})
	d.expectMembers(d.mustSend(200, "GET", "/v1/pods/"+network.get("id").(string)+"?includeNetworkVolume=true&includeMachine=true", ""), map[string]string{
		"networkVolume.id": `"` + volume + `"`, "machine.dataCenterId": `"EU-RO-1"`, "machine.secureCloud": `true`,
	})
}

// A pod keeps the id of its template, doesn't follow its changes, and prevents its deletion.
func TestPodFromTemplateV1(t *testing.T) {
	d := deploy(t)
	template := d.podTemplate("t", `,"mounts":{"persistent":{"size":30,"path":"/t"}}`)
	got := d.podV1(`{"templateId":"` + template + `","env":{"B":"2"},"containerDiskInGb":9}`)
	path := "/pods/" + got.get("id").(string)
	d.expectMembers(got, map[string]string{
		"templateId": `"` + template + `"`, "image": `"from/template"`, "containerDiskInGb": `9`, "env": `{"A":"1","B":"2"}`, "volumeInGb": `30`, "volumeMountPath": `"/t"`,
		"dockerStartCmd": `["a","b"]`, "ports": `["22/tcp"]`,
	})
	d.expectMembers(d.mustSend(200, "GET", "/v2"+path, ""), map[string]string{"template": `"` + template + `"`})
	d.expectMembers(d.mustSend(200, "GET", "/v1"+path+"?includeTemplate=true", ""), map[string]string{"template.id": `"` + template + `"`})
	// A pod doesn't bind its template: version 1 still shows it.
	d.mustSend(200, "GET", "/v1/templates/"+template, "")
	d.mustSend(200, "PATCH", "/v2/templates/"+template, `{"image":"changed"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1"+path, ""), map[string]string{"image": `"from/template"`})
	d.expectRefusal(400, "is in use", "DELETE", "/v2/templates/"+template, "")
	d.mustSend(204, "DELETE", "/v1"+path, "")
	d.mustSend(204, "DELETE", "/v1/templates/"+template, "")
}

func TestUpdatePodV1(t *testing.T) {
	d := deploy(t)
	path := "/v1/pods/" + d.podV1(gpuPodV1).get("id").(string)
	for _, way := range []struct{ method, path string }{{"PATCH", path}, {"POST", path + "/update"}} {
		d.expectMembers(d.mustSend(200, way.method, way.path, `{"name":"`+way.method+`","imageName":"j","dockerStartCmd":["a b","c"],"dockerEntrypoint":["sh"],"env":{"A":"`+way.method+`"},"ports":[],"volumeInGb":30,"volumeMountPath":"/v","containerDiskInGb":5,"globalNetworking":true}`), map[string]string{
			"name": `"` + way.method + `"`, "image": `"j"`, "dockerStartCmd": `["a b","c"]`, "dockerEntrypoint": `["sh"]`, "env": `{"A":"` + way.method + `"}`, "ports": `[]`, "volumeInGb": `30`, "volumeMountPath": `"/v"`, "containerDiskInGb": `5`,
		})
	}
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"containerDiskInGb":null,"volumeInGb":null}`), map[string]string{"containerDiskInGb": `5`, "volumeInGb": `30`})
	d.expectRefusal(404, "not found", "PATCH", "/v1/pods/nothing", `{"name":"x"}`)
	// A lock forbids changes that end the container.
	d.mustSend(200, "PATCH", path, `{"locked":true}`)
	d.expectRefusal(400, "is locked", "PATCH", path, `{"imageName":"k"}`)
	d.expectRefusal(400, "is locked", "POST", path+"/update", `{"env":{}}`)
	d.mustSend(200, "PATCH", path, `{"name":"still","globalNetworking":false}`)
	d.mustSend(200, "PATCH", path, `{"locked":false,"imageName":"k"}`)
}

// An action of version 1 succeeds if the pod is already in the resulting state. It is rejected if a
// lock or the state forbids it.
func TestPodActionsV1(t *testing.T) {
	d := deploy(t)
	path := "/v1/pods/" + d.podV1(cpuPodV1).get("id").(string)
	act := func(status int, text, action string) {
		t.Helper()
		got := d.send("POST", path+"/"+action, "")
		must.Hold(t, got.status == status && strings.Contains(got.text, text), action, got.status, got.text, status, text)
	}
	act(200, `"desiredStatus":"RUNNING"`, "start")
	act(400, "is PROVISIONING and can't restart", "restart")
	act(200, `"desiredStatus":"RUNNING"`, "reset")
	d.mustSend(200, "PATCH", path, `{"locked":true}`)
	act(400, "is locked", "stop")
	act(400, "is locked", "reset")
	d.mustSend(200, "PATCH", path, `{"locked":false}`)
	act(200, `"desiredStatus":"EXITED"`, "stop")
	act(200, `"lastStatusChange":"Stopped by User: `, "stop")
	act(200, `"desiredStatus":"EXITED"`, "reset")
	act(400, "can't restart", "restart")
	act(200, `"desiredStatus":"RUNNING"`, "start")
	for _, action := range []string{"start", "stop", "reset", "restart"} {
		d.expectRefusal(400, "not found", "POST", "/v1/pods/nothing/"+action, "")
	}
	d.mustSend(204, "DELETE", path, "")
	d.expectRefusal(400, "not found", "DELETE", path, "")
	d.expectRefusal(404, "not found", "GET", path, "")
}

func TestListPodsV1(t *testing.T) {
	d := deploy(t)
	volume := d.createVolume("EU-RO-1")
	gpu := d.podV1(`{"name":"g","imageName":"i","gpuTypeIds":["NVIDIA L4"],"dataCenterIds":["US-TX-3"]}`).get("id").(string)
	cpu := d.podV1(`{"name":"c","imageName":"j","computeType":"CPU","cpuFlavorIds":["cpu5g"],"networkVolumeId":"` + volume + `"}`).get("id").(string)
	d.mustSend(200, "POST", "/v1/pods/"+cpu+"/stop", "")
	for query, want := range map[string]string{
		"": gpu + " " + cpu, "computeType=GPU": gpu, "computeType=CPU": cpu, "cpuFlavorId=cpu3c&cpuFlavorId=cpu5g": cpu, "cpuFlavorId=cpu3c,cpu5g": cpu, "cpuFlavorId=cpu3c": "",
		"dataCenterId=US-TX-3": gpu, "dataCenterId=EU-RO-1": cpu, "desiredStatus=EXITED": cpu, "desiredStatus=RUNNING": gpu, "desiredStatus=TERMINATED": "",
		"gpuTypeId=NVIDIA%20L4": gpu, "id=" + cpu: cpu, "imageName=j": cpu, "name=g": gpu, "networkVolumeId=" + volume: cpu, "templateId=x": "", "endpointId=x": "",
		"name=g&computeType=CPU": "", "name=": gpu + " " + cpu,
	} {
		got := d.mustSend(200, "GET", "/v1/pods?"+query, "")
		var ids []string
		for _, p := range got.body.([]any) {
			ids = append(ids, p.(map[string]any)["id"].(string))
		}
		must.Equal(t, strings.Join(ids, " "), want, query, ids)
	}
	for _, query := range []string{"computeType=TPU", "desiredStatus=LOST", "includeMachine=maybe", "includeWorkers=2", "name=" + strings.Repeat("x", 192)} {
		d.expectRefusal(400, "invalid parameter", "GET", "/v1/pods?"+query, "")
	}
}
