package main_test

import (
	"strings"
	"testing"
)

// Both API versions reject more workers than the machine can run, in creates and updates.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral")
	id := p.endpoint("builtin/echo")
	for _, c := range [][3]string{
		{"POST", "/v2/serverless", `{"name":"x","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"min":200000,"max":200000}}`},
		{"POST", "/v2/serverless", `{"name":"x","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"max":1500}}`},
		{"PATCH", "/v2/serverless/" + id, `{"workers":{"min":1500,"max":1500}}`},
		{"PATCH", "/v1/endpoints/" + id, `{"workersMin":200000,"workersMax":200000}`},
		{"PATCH", "/v1/endpoints/" + id, `{"workersMax":1500}`},
		{"POST", "/v1/endpoints/" + id + "/update", `{"workersMax":9223372036854775807}`},
	} {
		if resp, body := p.request(c[0], c[1], c[2]); resp.StatusCode != 400 || !strings.Contains(body, "invalid number of workers: expected 1000 at most") {
			t.Errorf("%v: %s %s", c, resp.Status, body)
		}
	}
	if resp, body := p.request("PATCH", "/v2/serverless/"+id, `{"workers":{"max":1000}}`); resp.StatusCode != 200 {
		t.Errorf("a thousand: %s %s", resp.Status, body)
	}
}
