package main_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Both API versions reject more workers than the machine can run, in creates and updates.
func TestManyWorkers(t *testing.T) {
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral")
	id := p.endpoint("builtin/echo")
	send := func(method, path, body string) (int, string) {
		req, _ := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer k")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	for _, c := range [][3]string{
		{"POST", "/v2/serverless", `{"name":"x","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"min":200000,"max":200000}}`},
		{"POST", "/v2/serverless", `{"name":"x","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"max":1500}}`},
		{"PATCH", "/v2/serverless/" + id, `{"workers":{"min":1500,"max":1500}}`},
		{"PATCH", "/v1/endpoints/" + id, `{"workersMin":200000,"workersMax":200000}`},
		{"PATCH", "/v1/endpoints/" + id, `{"workersMax":1500}`},
		{"POST", "/v1/endpoints/" + id + "/update", `{"workersMax":9223372036854775807}`},
	} {
		if status, body := send(c[0], c[1], c[2]); status != 400 || !strings.Contains(body, "invalid number of workers: expected 1000 at most") {
			t.Errorf("%v: %d %s", c, status, body)
		}
	}
	if status, body := send("PATCH", "/v2/serverless/"+id, `{"workers":{"max":1000}}`); status != 200 {
		t.Errorf("a thousand: %d %s", status, body)
	}
}
