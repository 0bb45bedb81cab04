package mgmt_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestGlobalVolumes(t *testing.T) {
	const path = "/v2/global-volumes"
	d := deploy(t)
	created := d.mustSend(201, "POST", path, `{"name":" \tdata\u00a0"}`)
	d.expectMembers(created, map[string]string{"name": `"data"`, "createdByUserId": `"default"`})
	volume := path + "/" + created.get("id").(string)
	d.mustSend(201, "POST", path, `{"name":"data"}`) // names need not be unique
	must.Equal(t, d.mustSend(200, "GET", volume, "").text, created.text, "the object as read")
	renamed := d.mustSend(200, "PATCH", volume, `{"name":"other "}`)
	d.expectMembers(renamed, map[string]string{"name": `"other"`})
	must.Equal(t, renamed.get("createdAt"), created.get("createdAt"), "createdAt after the rename", renamed.text)
	for body, want := range map[string]string{
		`{"name":""}`: "at least 1", `{"name":" \t\u00a0\u2003\u0085"}`: "a character that is not white space", `{"name":null}`: "got null", `{"size":1}`: "'size' not allowed",
		`{"name":"` + strings.Repeat("é", 192) + `"}`: "got 192 characters, want at most 191", `{}`: "",
	} {
		d.expectRefusal(422, want, "POST", path, body)
		d.expectRefusal(422, want, "PATCH", volume, body)
	}
	d.expectRefusal(422, "got no properties", "PATCH", volume, `{}`)
	d.mustSend(201, "POST", path, `{"name":"`+strings.Repeat("é", 191)+`"}`)
	d.mustSend(204, "DELETE", volume, "")
	d.expectRefusal(404, "not found", "GET", volume, "")
}

func TestDeletedRegistryAuthV2(t *testing.T) {
	d := deploy(t)
	id := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`)
	d.expectRefusal(400, "is taken", "POST", "/v2/registries", `{"name":"r","username":"u","password":"p"}`)
	template := d.create("/v2/templates", `{"name":"t","image":"i","registry":"`+id+`"}`)
	d.mustSend(204, "DELETE", "/v2/registries/"+id, "")
	d.expectMembers(d.mustSend(200, "GET", "/v2/templates/"+template, ""), map[string]string{"registry": `null`})
}

func TestEndpointV2(t *testing.T) {
	d := deploy(t)
	answer := d.mustSend(201, "POST", "/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["ADA_24","not known"],"excludedTypes":[" NVIDIA L4"],"count":2,"minCudaVersion":"12.11"},"workers":{"min":1,"max":2}}`)
	id := answer.get("id").(string)
	jobURL := `"` + d.url + "/v2/" + id
	d.expectMembers(answer, map[string]string{
		"gpu":         `{"pools":["ADA_24","not known"],"excludedTypes":["NVIDIA L4"],"count":2,"allowedCudaVersions":[],"minCudaVersion":"12.11"}`,
		"requestUrls": `{"run":` + jobURL + `/run","runSync":` + jobURL + `/runsync","status":` + jobURL + `/status/{job_id}","stream":` + jobURL + `/stream/{job_id}","cancel":` + jobURL + `/cancel/{job_id}","retry":` + jobURL + `/retry/{job_id}","purgeQueue":` + jobURL + `/purge-queue","health":` + jobURL + `/health"}`,
	})
	createdAt, err := time.Parse(time.RFC3339, answer.get("createdAt").(string))
	must.Hold(t, err == nil && time.Since(createdAt) <= time.Minute, "createdAt is", answer.get("createdAt"))
	for _, step := range []struct {
		body string
		want map[string]string
	}{
		{`{}`, map[string]string{"name": `"e"`}},
		{`{"gpu":{"count":1}}`, map[string]string{"gpu.count": `1`, "gpu.excludedTypes": `["NVIDIA L4"]`}},
		{`{"gpu":{"minCudaVersion":""}}`, map[string]string{"gpu.minCudaVersion": `null`}},
		{`{"gpu":{"allowedCudaVersions":["12.8"]}}`, map[string]string{"gpu.allowedCudaVersions": `["12.8"]`, "gpu.pools": `["ADA_24","not known"]`}},
		{`{"gpu":{"allowedCudaVersions":[],"minCudaVersion":"12.1"}}`, map[string]string{"gpu.minCudaVersion": `"12.1"`}},
		{`{"gpu":{"pools":["AMPERE_48"]}}`, map[string]string{"gpu.pools": `["AMPERE_48"]`, "gpu.excludedTypes": `[]`}},
		{`{"scaling":{"type":"REQUEST_COUNT","requestCount":2}}`, map[string]string{"scaling": `{"type":"REQUEST_COUNT","requestCount":2}`, "workers": `{"min":1,"max":2}`}},
		{`{"scaling":{"type":"QUEUE_DELAY","queueDelay":8},"workers":{"idleTimeout":7}}`, map[string]string{"workers": `{"min":1,"max":2,"idleTimeout":7}`}},
	} {
		d.expectMembers(d.mustSend(200, "PATCH", "/v2/serverless/"+id, step.body), step.want)
	}
}

func TestCPUEndpointV2(t *testing.T) {
	d := deploy(t)
	answer := d.mustSend(201, "POST", "/v2/serverless", `{"name":"e","image":"i","cpu":[{"id":"cpu5c","vcpuCount":4},{"id":"cpu5g","vcpuCount":8},{"id":"cpu5c","vcpuCount":2}]}`)
	d.expectMembers(answer, map[string]string{"gpu": "", "cpu": `[{"id":"cpu5c","vcpuCount":4,"memory":8},{"id":"cpu5g","vcpuCount":8,"memory":32},{"id":"cpu5c","vcpuCount":2,"memory":4}]`})
	path := "/v2/serverless/" + answer.get("id").(string)
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"cpu":[{"id":"cpu3c","vcpuCount":2}]}`), map[string]string{"cpu": `[{"id":"cpu3c","vcpuCount":2,"memory":4}]`})
	d.expectRefusal(400, "no GPU workers", "PATCH", path, `{"gpu":{"pools":["ADA_24"]}}`)
	d.expectRefusal(400, "exclude each other", "PATCH", path, `{"gpu":{"pools":["ADA_24"]},"cpu":[{"id":"cpu3c","vcpuCount":2}]}`)
	anyCompute := d.create("/v2/serverless", `{"name":"e","image":"i"}`)
	d.expectRefusal(400, "no GPU workers", "PATCH", "/v2/serverless/"+anyCompute, `{"gpu":{"count":1}}`)
	d.expectRefusal(400, "no CPU workers", "PATCH", "/v2/serverless/"+anyCompute, `{"cpu":[{"id":"cpu3c","vcpuCount":2}]}`)
}

func TestLoadBalancerV2(t *testing.T) {
	d := deploy(t)
	d.expectRefusal(422, "$.scaling: a LOAD_BALANCER endpoint scales on REQUEST_COUNT", "POST", "/v2/serverless", `{"name":"e","image":"i","type":"LOAD_BALANCER"}`)
	answer := d.mustSend(201, "POST", "/v2/serverless", `{"name":"e","image":"i","type":"LOAD_BALANCER","scaling":{"type":"REQUEST_COUNT","requestCount":4},"workers":{"idleTimeout":5}}`)
	id := answer.get("id").(string)
	d.expectMembers(answer, map[string]string{
		"type": `"LOAD_BALANCER"`, "workers.idleTimeout": `5`,
		"requestUrls": `{"base":"` + d.url + `/v2/` + id + `","health":"` + d.url + `/v2/` + id + `/ping"}`,
	})
	d.expectRefusal(422, "scales on REQUEST_COUNT", "PATCH", "/v2/serverless/"+id, `{"scaling":{"type":"QUEUE_DELAY","queueDelay":4}}`)
	d.expectRefusal(422, "additional properties 'type' not allowed", "PATCH", "/v2/serverless/"+id, `{"type":"QUEUE"}`)
	d.expectMembers(d.mustSend(200, "PATCH", "/v2/serverless/"+id, `{"env":{"HEALTH_CHECK_PATH":"/up"}}`), map[string]string{"requestUrls.health": `"` + d.url + `/v2/` + id + `/up"`})
	// Behind a proxy with TLS, a client that used http would send its key in clear text.
	proxied := d.sendWith("GET", "/v2/serverless/"+id, "", http.Header{"Authorization": {"Bearer " + testKey}, "X-Forwarded-Proto": {"https"}})
	d.expectMembers(proxied, map[string]string{"requestUrls.base": `"https` + strings.TrimPrefix(d.url, "http") + `/v2/` + id + `"`})
}

func TestInvalidEndpointsV2(t *testing.T) {
	d := deploy(t)
	id := d.create("/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["ADA_24"]}}`)
	podTemplate := d.create("/v2/templates", `{"name":"pods","image":"i"}`)
	d.expectRefusal(422, "$.gpu: missing property 'pools'", "POST", "/v2/serverless", `{"name":"e","image":"i","gpu":{"count":1}}`)
	d.expectRefusal(422, "$.gpu: missing property 'pools', which 'excludedTypes' belongs to", "PATCH", "/v2/serverless/"+id, `{"gpu":{"excludedTypes":["NVIDIA L4"]}}`)
	d.expectRefusal(422, "minCudaVersion", "POST", "/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["ADA_24"],"minCudaVersion":""}}`)
	d.expectRefusal(400, "exclude each other", "POST", "/v2/serverless", `{"name":"e","image":"i","gpu":{"pools":["ADA_24"]},"cpu":[{"id":"cpu3c","vcpuCount":2}]}`)
	for value, status := range map[string]int{
		`"gpu":{"pools":["ADA_24"],"typeIds":[]}`:                                            422,
		`"gpu":{"pools":["ADA_24"],"excludedTypes":["NVIDIA L4","NVIDIA L4"]}`:               422,
		`"gpu":{"pools":["ADA_24"],"excludedTypes":["NVIDIA L40"]}`:                          400,
		`"gpu":{"pools":["ADA_24"],"excludedTypes":["NVIDIA L4","NVIDIA GeForce RTX 4090"]}`: 400,
		`"gpu":{"pools":["ADA_24"],"minCudaVersion":"12.1","allowedCudaVersions":["12.8"]}`:  400,
		`"cpu":[]`:                                        422,
		`"cpu":[{"id":"cpu3c"}]`:                          422,
		`"cpu":[{"vcpuCount":2}]`:                         422,
		`"cpu":[{"id":"cpu3c","vcpuCount":6}]`:            422,
		`"cpu":[{"id":"cpu3c","vcpuCount":2,"memory":4}]`: 422,
		`"cpu":[{"id":"cpu3c","vcpuCount":2},{"vcpuCount":2.0,"id":"cpu3c"}]`: 422,
		`"workers":{"min":4,"max":3}`:                                         400, `"workers":{"min":4}`: 400, `"workers":{"max":1001}`: 400, `"workers":{"x":1}`: 422,
		`"scaling":{"type":"QUEUE_DELAY"}`: 422, `"scaling":{"queueDelay":4}`: 422, `"scaling":{"type":"OTHER","queueDelay":4}`: 422,
		`"scaling":{"type":"QUEUE_DELAY","queueDelay":4,"requestCount":1}`: 422, `"scaling":{"type":"REQUEST_COUNT","queueDelay":4}`: 422,
		`"scaling":{"type":"REQUEST_COUNT","requestCount":1},"workers":{"idleTimeout":5}`: 422, `"scaling":{"type":"REQUEST_COUNT","requestCount":9007199254740992}`: 422,
		`"networkVolumes":["unknown"]`: 400, `"registry":"unknown"`: 400,
		`"templateId":"unknown"`: 404, `"templateId":"` + podTemplate + `"`: 422,
	} {
		d.expectRefusal(status, `"detail":`, "POST", "/v2/serverless", `{"name":"e","image":"i",`+value+`}`)
		d.expectRefusal(status, `"detail":`, "PATCH", "/v2/serverless/"+id, `{`+value+`}`)
	}
	list := d.mustSend(200, "GET", "/v2/serverless", "")
	must.Hold(t, len(list.get("endpoints").([]any)) == 1, "a rejected create created", list.text)
}

// Version 2 copies a template and keeps no link.
func TestTemplateIsCopiedV2(t *testing.T) {
	d := deploy(t)
	auth := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`)
	template := d.create("/v2/templates", `{"name":"t","image":"i","args":"a","disk":9,"env":{"A":"1","B":"1"},"ports":["80/tcp"],"registry":"`+auth+`","serverless":true,"allowedCudaVersions":["12.8"]}`)
	answer := d.mustSend(201, "POST", "/v2/serverless", `{"name":"e","templateId":"`+template+`","args":"mine","env":{"B":"2","C":"2"},"registry":null,"gpu":{"pools":["ADA_24"]}}`)
	d.expectMembers(answer, map[string]string{
		"templateId": "", "image": `"i"`, "args": `"mine"`, "disk": `9`, "env": `{"A":"1","B":"2","C":"2"}`, "ports": `["80/tcp"]`, "registry": `null`, "gpu.allowedCudaVersions": `["12.8"]`,
	})
	path := "/v2/serverless/" + answer.get("id").(string)
	for gpu, want := range map[string]string{
		`{"pools":["ADA_24"],"minCudaVersion":"12.1"}`:                          `[]`,
		`{"pools":["ADA_24"],"allowedCudaVersions":[]}`:                         `[]`,
		`{"pools":["ADA_24"],"allowedCudaVersions":["12.6"]}`:                   `["12.6"]`,
		`{"pools":["ADA_24"],"allowedCudaVersions":[],"minCudaVersion":"12.1"}`: `[]`,
	} {
		d.expectMembers(d.mustSend(201, "POST", "/v2/serverless", `{"name":"e","templateId":"`+template+`","gpu":`+gpu+`}`), map[string]string{"gpu.allowedCudaVersions": want})
	}
	d.mustSend(201, "POST", "/v2/serverless", `{"name":"e","templateId":"`+template+`","cpu":[{"id":"cpu3c","vcpuCount":2}]}`)

	d.mustSend(200, "PATCH", "/v2/templates/"+template, `{"image":"j","env":{"D":"1"}}`)
	d.expectMembers(d.mustSend(200, "GET", path, ""), map[string]string{"image": `"i"`})
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"templateId":"`+template+`","env":{"E":"1"}}`),
		map[string]string{"image": `"j"`, "args": `"a"`, "env": `{"D":"1","E":"1"}`, "registry": `"` + auth + `"`, "templateId": "", "gpu.allowedCudaVersions": `["12.8"]`})
	d.expectMembers(d.mustSend(200, "PATCH", path, `{"templateId":"`+template+`"}`), map[string]string{"env": `{"D":"1"}`})
	d.mustSend(204, "DELETE", "/v2/templates/"+template, "")
	d.expectMembers(d.mustSend(200, "GET", path, ""), map[string]string{"image": `"j"`})
}
