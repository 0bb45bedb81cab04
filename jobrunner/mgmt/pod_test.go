package mgmt_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const (
	cpuPodV1 = `{"imageName":"i","computeType":"CPU","cpuFlavorIds":["cpu3c"],"vcpuCount":4}`
	gpuPodV1 = `{"imageName":"i","gpuTypeIds":["NVIDIA L4","NVIDIA H200"]}`
)

func (d *deployment) createPodV1(body string) reply {
	d.Helper()
	return d.mustSend(201, "POST", "/v1/pods", body)
}

// Version 1 sets the defaults of omitted members, and version 2 shows the result.
func TestPodDefaultsV1(t *testing.T) {
	d := deploy(t)
	got := d.createPodV1(`{"imageName":"i"}`)
	d.expectMembers(got, map[string]string{
		"name": `"my pod"`, "image": `"i"`, "containerDiskInGb": `50`, "volumeInGb": `20`, "volumeMountPath": `"/workspace"`, "ports": `["8888/http","22/tcp"]`,
		"env": `{}`, "dockerEntrypoint": `[]`, "dockerStartCmd": `[]`, "gpu.count": `1`, "locked": `false`, "interruptible": `false`, "desiredStatus": `"RUNNING"`,
		"portMappings": `{}`, "publicIp": `null`, "savingsPlans": `[]`, "costPerHr": `0`, "adjustedCostPerHr": `0`, "volumeEncrypted": `false`,
	})
	text, _ := got.get("lastStatusChange").(string)
	must.Hold(t, strings.HasPrefix(text, "Rented by User: "), "lastStatusChange must begin with Rented by User:", got.text)
	d.expectMembers(d.mustSend(200, "GET", "/v2/pods/"+got.get("id").(string), ""), map[string]string{
		"mounts": `{"persistent":{"size":20,"path":"/workspace"}}`, "gpu.id": `""`, "gpu.count": `1`, "ports": `["8888/http","22/tcp"]`, "cloud": `"SECURE"`,
	})
	cpu := d.createPodV1(`{"imageName":"i","computeType":"CPU","gpuCount":4,"gpuTypeIds":["x"]}`)
	d.expectMembers(cpu, map[string]string{"cpuFlavorId": `"cpu3c"`, "vcpuCount": `2`, "memoryInGb": `4`, "gpu": "", "volumeInGb": `0`})
	d.expectMembers(d.createPodV1(`{"imageName":"i","cpuFlavorIds":["cpu5g"],"vcpuCount":1,"containerDiskInGb":null,"volumeInGb":null,"supportPublicIp":null}`), map[string]string{"gpu.count": `1`, "cpuFlavorId": "", "containerDiskInGb": `50`, "volumeInGb": `20`})
}

func TestPodRulesV1(t *testing.T) {
	d := deploy(t)
	serverless := d.create("/v2/templates", `{"name":"s","image":"i","serverless":true}`)
	volume := d.createVolume("EU-RO-1")
	for _, c := range []struct{ text, members string }{
		{"8 at most", `"gpuCount":9`},
		{"does not exist", `"templateId":"nothing"`},
		{"is a serverless template", `"templateId":"` + serverless + `"`},
		{"does not exist", `"networkVolumeId":"nothing"`},
		{"data center EU-RO-1", `"networkVolumeId":"` + volume + `","dataCenterIds":["US-TX-3"]`},
		{"does not exist", `"containerRegistryAuthId":"nothing"`},
		{"a CPU pod has no persistent mount", `"computeType":"CPU","volumeInGb":20`},
		{"globalNetworking needs an NVIDIA GPU", `"computeType":"CPU","globalNetworking":true`},
		{"no data center that the pod may be in is in DE", `"countryCodes":["DE"]`},
	} {
		d.expectRefusal(400, c.text, "POST", "/v1/pods", `{"imageName":"i",`+c.members+`}`)
	}
	network := d.createPodV1(`{"imageName":"i","networkVolumeId":"` + volume + `","volumeInGb":30,"countryCodes":["RO"]}`)
	d.expectMembers(network, map[string]string{"volumeInGb": `0`, "volumeMountPath": `"/workspace"`})
	d.expectMembers(d.mustSend(200, "GET", "/v1/pods/"+network.get("id").(string)+"?includeNetworkVolume=true&includeMachine=true", ""), map[string]string{
		"networkVolume.id": `"` + volume + `"`, "machine.dataCenterId": `"EU-RO-1"`, "machine.secureCloud": `true`,
	})
}

// A pod keeps its template's id, doesn't follow the template's changes, and prevents the template's deletion.
func TestPodFromTemplateV1(t *testing.T) {
	d := deploy(t)
	template := d.createTemplate("t", `,"mounts":{"persistent":{"size":30,"path":"/t"}}`)
	got := d.createPodV1(`{"templateId":"` + template + `","env":{"B":"2"},"containerDiskInGb":9}`)
	path := "/pods/" + got.get("id").(string)
	d.expectMembers(got, map[string]string{
		"templateId": `"` + template + `"`, "image": `"from/template"`, "containerDiskInGb": `9`, "env": `{"A":"1","B":"2"}`, "volumeInGb": `30`, "volumeMountPath": `"/t"`,
		"dockerStartCmd": `["a","b"]`, "ports": `["22/tcp"]`,
	})
	d.expectMembers(d.mustSend(200, "GET", "/v2"+path, ""), map[string]string{"template": `"` + template + `"`})
	d.expectMembers(d.mustSend(200, "GET", "/v1"+path+"?includeTemplate=true", ""), map[string]string{"template.id": `"` + template + `"`})
	// Version 1 hides templates of endpoints, not of pods.
	d.mustSend(200, "GET", "/v1/templates/"+template, "")
	d.mustSend(200, "PATCH", "/v2/templates/"+template, `{"image":"changed"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v1"+path, ""), map[string]string{"image": `"from/template"`})
	d.expectRefusal(400, "is in use", "DELETE", "/v2/templates/"+template, "")
	d.mustSend(204, "DELETE", "/v1"+path, "")
	d.mustSend(204, "DELETE", "/v1/templates/"+template, "")
}

func TestUpdatePodV1(t *testing.T) {
	d := deploy(t)
	path := "/v1/pods/" + d.createPodV1(gpuPodV1).get("id").(string)
	for _, update := range []struct{ method, path string }{{"PATCH", path}, {"POST", path + "/update"}} {
		d.expectMembers(d.mustSend(200, update.method, update.path, `{"name":"`+update.method+`","imageName":"j","dockerStartCmd":["a b","c"],"dockerEntrypoint":["sh"],"env":{"A":"`+update.method+`"},"ports":[],"volumeInGb":30,"volumeMountPath":"/v","containerDiskInGb":5,"globalNetworking":true}`), map[string]string{
			"name": `"` + update.method + `"`, "image": `"j"`, "dockerStartCmd": `["a b","c"]`, "dockerEntrypoint": `["sh"]`, "env": `{"A":"` + update.method + `"}`, "ports": `[]`, "volumeInGb": `30`, "volumeMountPath": `"/v"`, "containerDiskInGb": `5`,
		})
	}
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"containerDiskInGb":null,"volumeInGb":null}`), map[string]string{"containerDiskInGb": `5`, "volumeInGb": `30`})
	// A lock forbids changes that end the container.
	d.mustSend(200, "PATCH", path, `{"locked":true}`)
	d.expectRefusal(400, "is locked", "PATCH", path, `{"imageName":"k"}`)
	d.expectRefusal(400, "is locked", "POST", path+"/update", `{"env":{}}`)
	d.mustSend(200, "PATCH", path, `{"name":"still","globalNetworking":false}`)
	d.mustSend(200, "PATCH", path, `{"locked":false,"imageName":"k"}`)
}

// An action of version 1 succeeds if the pod is in the resulting state, and is rejected if a lock or the state forbids it.
func TestPodActionsV1(t *testing.T) {
	d := deploy(t)
	path := "/v1/pods/" + d.createPodV1(cpuPodV1).get("id").(string)
	expectAnswer := func(status int, text, action string) {
		t.Helper()
		got := d.send("POST", path+"/"+action, "")
		must.Hold(t, got.status == status && strings.Contains(got.text, text), action, "got", got.status, got.text, "want", status, "with", text)
	}
	expectAnswer(200, `"desiredStatus":"RUNNING"`, "start")
	expectAnswer(400, "is PROVISIONING and can't restart", "restart")
	expectAnswer(200, `"desiredStatus":"RUNNING"`, "reset")
	d.mustSend(200, "PATCH", path, `{"locked":true}`)
	expectAnswer(400, "is locked", "stop")
	expectAnswer(400, "is locked", "reset")
	d.mustSend(200, "PATCH", path, `{"locked":false}`)
	expectAnswer(200, `"desiredStatus":"EXITED"`, "stop")
	expectAnswer(200, `"lastStatusChange":"Stopped by User: `, "stop")
	expectAnswer(200, `"desiredStatus":"EXITED"`, "reset")
	expectAnswer(400, "can't restart", "restart")
	expectAnswer(200, `"desiredStatus":"RUNNING"`, "start")
	d.mustSend(204, "DELETE", path, "")
	d.expectRefusal(404, "not found", "GET", path, "")
}

func TestListPodsV1(t *testing.T) {
	d := deploy(t)
	volume := d.createVolume("EU-RO-1")
	gpu := d.createPodV1(`{"name":"g","imageName":"i","gpuTypeIds":["NVIDIA L4"],"dataCenterIds":["US-TX-3"]}`).get("id").(string)
	cpu := d.createPodV1(`{"name":"c","imageName":"j","computeType":"CPU","cpuFlavorIds":["cpu5g"],"networkVolumeId":"` + volume + `"}`).get("id").(string)
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
		d.expectRefusal(400, ", want ", "GET", "/v1/pods?"+query, "")
	}
}

const (
	cpuPod = `{"name":"p","image":"i","cpu":{"id":"cpu3c","vcpuCount":4}}`
	gpuPod = `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4"}}`
)

func (d *deployment) createTemplate(name, members string) string {
	d.Helper()
	return d.create("/v2/templates", `{"name":"`+name+`","image":"from/template","disk":7,"args":"a b","ports":["22/tcp"],"env":{"A":"1","B":"1"}`+members+`}`)
}

func (d *deployment) createVolume(center string) string {
	d.Helper()
	return d.create("/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"`+center+`"}`)
}

// Omitted members of a create have their defaults, and unknown values are null.
func TestPodDefaultsV2(t *testing.T) {
	d := deploy(t)
	got := d.mustSend(201, "POST", "/v2/pods", cpuPod)
	d.expectMembers(got, map[string]string{
		"name": `"p"`, "image": `"i"`, "args": `""`, "disk": `50`, "env": `{}`, "ports": `[]`, "registry": `null`, "mounts": `{}`,
		"cpu": `{"id":"cpu3c","vcpuCount":4,"memory":8}`, "cloud": `"SECURE"`, "status": `"PROVISIONING"`, "actions": `["stop","terminate"]`,
		"template": `null`, "locked": `false`, "globalNetworking": `{"enabled":false}`, "runtime": `null`, "startedAt": `null`, "cost": `0`,
		"ssh": `{"proxy":null,"direct":null}`, "dataCenterId": `null`, "cudaVersion": `null`,
	})
	must.Hold(t, !got.has("gpu") && !got.has("cluster") && !got.has("startSsh"), "the answer must have no gpu, cluster and startSsh:", got.text)
	d.expectMembers(d.mustSend(201, "POST", "/v2/pods", gpuPod), map[string]string{"gpu.id": `"NVIDIA L4"`, "gpu.count": `1`, "cpu": ""})
}

// A pod has GPUs or CPUs in valid counts, and one kind of storage.
func TestPodRulesV2(t *testing.T) {
	d := deploy(t)
	volume := d.createVolume("EU-RO-1")
	serverless := d.create("/v2/templates", `{"name":"s","image":"i","serverless":true}`)
	for _, c := range []struct {
		status   int
		text     string
		body     string
		replaces string // the part of cpuPod or gpuPod that body replaces; "" if body is the whole body
	}{
		{400, "exactly one of gpu and cpu", `{"name":"p","image":"i"}`, ""},
		{400, "exactly one of gpu and cpu", `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4"},"cpu":{"id":"cpu3c","vcpuCount":2}}`, ""},
		{400, "cpu3c has 2 to 32 vCPUs, got 64", `"vcpuCount":64`, `"vcpuCount":4`},
		{400, "8 at most, got 9", `{"id":"NVIDIA L4","count":9}`, `{"id":"NVIDIA L4"}`},
		{400, "exclude each other", `{"id":"NVIDIA L4","minCudaVersion":"12.1","allowedCudaVersions":["12.8"]}`, `{"id":"NVIDIA L4"}`},
		{400, "persistent mount", `"image":"i","mounts":{"persistent":{"size":10,"path":"/w"}},"cpu"`, `"image":"i","cpu"`},
		{422, "got 2 items, want at most 1", `"image":"i","mounts":{"network":[{"volumeId":"a","path":"/w"},{"volumeId":"b","path":"/v"}]},"gpu"`, `"image":"i","gpu"`},
		{400, "exclude each other", `"image":"i","mounts":{"persistent":{"size":10,"path":"/w"},"network":[{"volumeId":"` + volume + `","path":"/w"}]},"gpu"`, `"image":"i","gpu"`},
		{400, `network volume \"nowhere\" does not exist`, `"image":"i","mounts":{"network":[{"volumeId":"nowhere","path":"/w"}]},"gpu"`, `"image":"i","gpu"`},
		{400, "is in the data center EU-RO-1, and the pod may be in US-TX-3 alone", `"image":"i","dataCenterIds":["US-TX-3"],"mounts":{"network":[{"volumeId":"` + volume + `","path":"/w"}]},"gpu"`, `"image":"i","gpu"`},
		{404, "not found", `"templateId":"nothing"`, `"image":"i"`},
		{422, "is a serverless template", `"templateId":"` + serverless + `"`, `"image":"i"`},
		{400, `registry auth \"nobody\" does not exist`, `"image":"i","registry":"nobody"`, `"image":"i"`},
		{400, "globalNetworking needs an NVIDIA GPU", `"image":"i","globalNetworking":true,"cpu"`, `"image":"i","cpu"`},
		{400, "AMD Instinct MI300X OAM isn't one", `"image":"i","globalNetworking":true,"gpu":{"id":"AMD Instinct MI300X OAM"}`, `"image":"i","gpu":{"id":"NVIDIA L4"}`},
	} {
		body := c.body
		if c.replaces != "" {
			base := cpuPod
			if !strings.Contains(base, c.replaces) || strings.HasSuffix(c.body, `"gpu"`) {
				base = gpuPod
			}
			body = strings.Replace(base, c.replaces, c.body, 1)
			must.Require(t, body != base, c.replaces, "is not in", base)
		}
		d.expectRefusal(c.status, c.text, "POST", "/v2/pods", body)
	}
	d.expectMembers(d.mustSend(200, "GET", "/v2/pods", ""), map[string]string{"pods": `[]`})
}

// A body overrides its template and merges env; startSsh and startJupyter set variables that both lack.
func TestPodFromTemplateV2(t *testing.T) {
	d := deploy(t)
	d.mustSend(200, "PUT", "/v2/account/ssh-keys", `{"keys":["ssh-ed25519 AAAA one","ssh-rsa BBBB"]}`)
	template := d.createTemplate("t", `,"mounts":{"persistent":{"size":30,"path":"/t"}},"allowedCudaVersions":["12.8"],"startSsh":false,"startJupyter":false`)
	body := func(members string) string { return `{"name":"p","templateId":"` + template + `"` + members + `}` }
	gpu := d.mustSend(201, "POST", "/v2/pods", body(`,"gpu":{"id":"NVIDIA L4"},"disk":9,"env":{"B":"2","C":"2"}`))
	d.expectMembers(gpu, map[string]string{
		"image": `"from/template"`, "disk": `9`, "args": `"a b"`, "ports": `["22/tcp"]`, "env": `{"A":"1","B":"2","C":"2"}`,
		"mounts": `{"persistent":{"size":30,"path":"/t"}}`, "template": `null`,
	})
	cpu := d.mustSend(201, "POST", "/v2/pods", body(`,"cpu":{"id":"cpu3c","vcpuCount":2}`))
	d.expectMembers(cpu, map[string]string{"mounts": `{}`, "image": `"from/template"`})
	d.expectMembers(d.mustSend(201, "POST", "/v2/pods", body(`,"gpu":{"id":"NVIDIA L4"},"mounts":{"persistent":{"size":10,"path":"/b"}}`)), map[string]string{
		"mounts": `{"persistent":{"size":10,"path":"/b"}}`,
	})

	withAccess := d.mustSend(201, "POST", "/v2/pods", body(`,"cpu":{"id":"cpu3c","vcpuCount":2},"startSsh":true,"startJupyter":true`))
	password, _ := withAccess.get("env.JUPYTER_PASSWORD").(string)
	must.Hold(t, len(password) >= 20, "JUPYTER_PASSWORD must have 20 characters:", withAccess.text)
	key, _ := withAccess.get("env.PUBLIC_KEY").(string)
	must.Hold(t, key == "ssh-ed25519 AAAA one\nssh-rsa BBBB", "PUBLIC_KEY must have both keys:", withAccess.text)
	withOwnEnv := d.mustSend(201, "POST", "/v2/pods", body(`,"cpu":{"id":"cpu3c","vcpuCount":2},"startSsh":true,"startJupyter":true,"env":{"PUBLIC_KEY":"mine","JUPYTER_PASSWORD":"hers"}`))
	d.expectMembers(withOwnEnv, map[string]string{"env.PUBLIC_KEY": `"mine"`, "env.JUPYTER_PASSWORD": `"hers"`})
	// By default both flags of a template are on.
	defaultTemplate := d.create("/v2/templates", `{"name":"on","image":"i"}`)
	withoutSSH := d.mustSend(201, "POST", "/v2/pods", `{"name":"p","templateId":"`+defaultTemplate+`","cpu":{"id":"cpu3c","vcpuCount":2},"startSsh":false}`)
	must.Hold(t, withoutSSH.get("env.JUPYTER_PASSWORD") != nil && withoutSSH.get("env.PUBLIC_KEY") == nil, "only Jupyter must be on:", withoutSSH.text)

	// Later changes of the template don't affect the pod, and the template can be deleted.
	d.mustSend(200, "PATCH", "/v2/templates/"+template, `{"image":"changed"}`)
	d.expectMembers(d.mustSend(200, "GET", "/v2/pods/"+gpu.get("id").(string), ""), map[string]string{"image": `"from/template"`})
	d.mustSend(204, "DELETE", "/v2/templates/"+template, "")
}

// A PATCH changes only its members. Mounts keep their kind and their network volume.
func TestUpdatePodV2(t *testing.T) {
	d := deploy(t)
	volume, otherVolume := d.createVolume("EU-RO-1"), d.createVolume("EU-RO-1")
	registry := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`)
	id := d.create("/v2/pods", `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4"},"env":{"A":"1"},"mounts":{"persistent":{"size":20,"path":"/w"}}}`)
	path := "/v2/pods/" + id
	before := d.mustSend(200, "GET", path, "")
	must.Equal(t, d.mustSend(200, "PATCH", path, `{}`).text, before.text)
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"name":"q","image":"j","args":"x","disk":8,"ports":["80/http"],"env":{"B":"2"},"registry":"`+registry+`","locked":true,"globalNetworking":true,"mounts":{"persistent":{"size":10,"path":"/v"}}}`), map[string]string{
		"name": `"q"`, "image": `"j"`, "args": `"x"`, "disk": `8`, "ports": `["80/http"]`, "env": `{"B":"2"}`, "registry": fmt.Sprintf("%q", registry), "locked": `true`,
		"mounts": `{"persistent":{"size":10,"path":"/v"}}`, "globalNetworking": `{"enabled":false}`, // before it joins the network
	})
	d.expectRefusal(400, "is in use", "DELETE", "/v2/registries/"+registry, "")
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"registry":null,"ports":[],"mounts":{},"locked":false}`), map[string]string{"registry": `null`, "ports": `[]`, "mounts": `{"persistent":{"size":10,"path":"/v"}}`})
	d.mustSend(204, "DELETE", "/v2/registries/"+registry, "")

	template := d.createTemplate("t", `,"mounts":{"persistent":{"size":99,"path":"/t"}}`)
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"templateId":"`+template+`","env":{"B":"9"},"disk":5}`), map[string]string{
		"image": `"from/template"`, "disk": `5`, "env": `{"A":"1","B":"9"}`, "mounts": `{"persistent":{"size":10,"path":"/v"}}`, "template": `null`,
	})
	d.expectRefusal(404, "not found", "PATCH", path, `{"templateId":"nothing"}`)
	d.expectRefusal(400, "can't be cleared", "PATCH", path, `{"mounts":{"network":[]}}`)
	d.expectRefusal(400, "no network mount", "PATCH", path, `{"mounts":{"network":[{"volumeId":"`+volume+`","path":"/n"}]}}`)
	d.expectRefusal(400, "exclude each other", "PATCH", path, `{"mounts":{"persistent":{"size":10,"path":"/v"},"network":[{"volumeId":"`+volume+`","path":"/n"}]}}`)
	d.expectRefusal(422, "missing property 'size'", "PATCH", path, `{"mounts":{"persistent":{"path":"/v"}}}`)

	network := "/v2/pods/" + d.create("/v2/pods", `{"name":"p","image":"i","cpu":{"id":"cpu3c","vcpuCount":2},"mounts":{"network":[{"volumeId":"`+volume+`","path":"/n"}]}}`)
	d.expectMembers(d.mustSend(200, "PATCH", network, `{"mounts":{"network":[{"volumeId":"`+volume+`","path":"/m"}]}}`), map[string]string{"mounts": `{"network":[{"volumeId":"` + volume + `","path":"/m"}]}`})
	d.expectRefusal(400, "is fixed", "PATCH", network, `{"mounts":{"network":[{"volumeId":"`+otherVolume+`","path":"/m"}]}}`)
	d.expectRefusal(400, "no persistent mount", "PATCH", network, `{"mounts":{"persistent":{"size":10,"path":"/v"}}}`)
	d.expectRefusal(400, "globalNetworking needs", "PATCH", network, `{"globalNetworking":true}`)
	d.mustSend(204, "DELETE", "/v2/network-volumes/"+volume, "")
	d.expectMembers(d.mustSend(200, "GET", network, ""), map[string]string{"mounts": `{}`})
}

// An action that the state forbids is rejected, and actions lists the allowed ones.
func TestPodActionsV2(t *testing.T) {
	d := deploy(t)
	path := "/v2/pods/" + d.create("/v2/pods", cpuPod)
	actionBody := func(action string) string { return `{"action":"` + action + `"}` }
	d.expectRefusal(409, "is PROVISIONING and can't start: it allows stop and terminate", "POST", path+"/action", actionBody("start"))
	d.expectRefusal(409, "can't restart", "POST", path+"/action", actionBody("restart"))
	d.expectRefusal(422, "want one of 'start', 'stop', 'restart', 'terminate'", "POST", path+"/action", actionBody("reset"))
	d.expectRefusal(422, "missing property 'action'", "POST", path+"/action", `{}`)
	d.mustSend(200, "PATCH", path, `{"locked":true}`)
	d.expectMembers(d.mustSend(200, "GET", path, ""), map[string]string{"actions": `["terminate"]`})
	d.expectRefusal(409, "is locked", "POST", path+"/action", actionBody("stop"))
	d.mustSend(200, "PATCH", path, `{"locked":false}`)
	d.expectMembers(d.mustSend(200, "POST", path+"/action", actionBody("stop")), map[string]string{"status": `"EXITED"`, "actions": `["start","terminate"]`})
	d.expectRefusal(409, "is EXITED and can't stop", "POST", path+"/action", actionBody("stop"))
	d.expectMembers(d.mustSend(200, "POST", path+"/action", actionBody("start")), map[string]string{"status": `"PROVISIONING"`})
	must.Equal(t, d.mustSend(204, "POST", path+"/action", actionBody("terminate")).text, "")
	d.expectRefusal(404, "not found", "GET", path, "")
}

// paddedPod returns the body of a pod, padded to a size.
func paddedPod(size int, members string) string {
	body := `{"name":"p","cpu":{"id":"cpu3c","vcpuCount":2},"env":{"A":"%s"}` + members + `}`
	return fmt.Sprintf(body, strings.Repeat("x", size-len(body)+len("%s")))
}

// A body that is too large gets 413 with any key or none, even if its length isn't declared.
func TestPodBodySize(t *testing.T) {
	d := deploy(t)
	largest, larger := paddedPod(contract.MaxPodBody, `,"image":"i"`), paddedPod(contract.MaxPodBody+1, `,"image":"i"`)
	d.mustSend(201, "POST", "/v2/pods", largest)
	for _, key := range []string{"Bearer " + testKey, "Bearer wrong", ""} {
		got := d.sendWith("POST", "/v2/pods", larger, http.Header{"Authorization": {key}})
		must.Hold(t, got.status == 413 && got.header.Get("Content-Type") == "application/problem+json" &&
			strings.Contains(got.text, "102400"), "with the key", key, got.status, got.text)
	}
	got := d.sendWith("POST", "/v2/pods", largest, http.Header{})
	must.Hold(t, got.status == 401, "the largest body without a key", got.status, got.text)
	for body, want := range map[string]string{larger: "413", largest: "401"} {
		conn := must.Do((&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(d.url, "http://")))(t)
		go fmt.Fprintf(conn, "POST /v2/pods HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		status := must.Do(bufio.NewReader(conn).ReadString('\n'))(t)
		conn.Close()
		must.Hold(t, strings.Contains(status, want), len(body), "bytes in chunks without a key", status, want)
	}
	// Other operations have other limits.
	d.mustSend(201, "POST", "/v1/pods", map[string]any{"imageName": "i", "env": map[string]string{"A": strings.Repeat("x", contract.MaxPodBody)}})
	id := d.create("/v2/pods", `{"name":"p","image":"i","cpu":{"id":"cpu3c","vcpuCount":2}}`)
	d.mustSend(200, "PATCH", "/v2/pods/"+id, map[string]any{"env": map[string]string{"A": strings.Repeat("x", contract.MaxPodBody)}})
}

// The limit includes the settings of the template that the body doesn't override.
func TestPodBodySizeWithTemplate(t *testing.T) {
	d := deploy(t)
	createTemplate := func(name string, bytes int) string {
		return d.create("/v2/templates", map[string]any{"name": name, "image": "i", "args": "a", "env": map[string]string{"A": strings.Repeat("t", bytes), "B": "b"}})
	}
	small, large := createTemplate("small", 50_000), createTemplate("large", 150_000)
	podBody := func(template string, bytes int, members string) string {
		return paddedPod(bytes, `,"templateId":"`+template+`"`+members)
	}
	d.mustSend(201, "POST", "/v2/pods", podBody(small, 100_000, "")) // its A replaces the template's
	d.mustSend(201, "POST", "/v2/pods", podBody(large, 1_000, ""))
	withOtherVariable := func(template string, bytes int) string {
		return strings.Replace(podBody(template, bytes, ""), `{"A":`, `{"C":`, 1)
	}
	d.mustSend(201, "POST", "/v2/pods", withOtherVariable(small, 50_000))
	for _, body := range []string{withOtherVariable(small, 60_000), withOtherVariable(large, 1_000), `{"name":"p","cpu":{"id":"cpu3c","vcpuCount":2},"templateId":"` + large + `"}`} {
		d.expectRefusal(413, `with the settings of template`, "POST", "/v2/pods", body)
	}
	got := d.mustSend(200, "GET", "/v2/pods", "").get("pods").([]any)
	must.Hold(t, len(got) == 3, len(got), "pods are listed, want 3")
}

func TestPodMachineRequirements(t *testing.T) {
	d := deploy(t)
	got := d.mustSend(201, "POST", "/v2/pods", `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4","count":2,"minRamPerGpu":3000,"minVcpuCountPerGpu":5000}}`)
	d.expectMembers(got, map[string]string{"gpu": `{"id":"NVIDIA L4","count":2,"vcpuCount":10000,"memory":6000}`})
	withoutMinimums := d.mustSend(201, "POST", "/v2/pods", gpuPod)
	for _, member := range []string{"gpu.vcpuCount", "gpu.memory"} {
		n, _ := withoutMinimums.get(member).(float64)
		must.Hold(t, n >= 1, member, "is", withoutMinimums.get(member), "want at least 1")
	}
	id, _ := got.get("id").(string)
	d.expectRefusal(422, "gpu", "PATCH", "/v2/pods/"+id, `{"gpu":{"minRamPerGpu":1}}`)
}
