package jobrunner_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func (d *deployment) awaitPod(id, status string) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) {
		pod := d.must(200, "GET", "/v2/pods/"+id, "")
		return pod.at("status") == status, pod.text
	})
}

const onCPU = `"cpu":{"id":"cpu3c","vcpuCount":2}`

// With includeWorkers version 1 shows the workers of endpoints as pods.
func TestWorkersAsPods(t *testing.T) {
	d := deploy(t, "")
	endpoint := d.created("/v2/serverless", `{"name":"e","image":"builtin/echo","workers":{"min":1,"max":1}}`)
	var w struct{ ID, EndpointID, DesiredStatus, Image string }
	for start := time.Now(); w.ID == ""; time.Sleep(time.Millisecond) {
		_, _, text := d.do("GET", "/v1/pods?includeWorkers=true&endpointId="+endpoint, "")
		var list []struct{ ID, EndpointID, DesiredStatus, Image string }
		if err := json.Unmarshal([]byte(text), &list); err != nil || time.Since(start) > 3*time.Minute {
			t.Fatal(text, err)
		}
		if len(list) > 0 {
			w = list[0]
		}
	}
	if w.EndpointID != endpoint || w.DesiredStatus != "RUNNING" || w.Image != "builtin/echo" {
		t.Errorf("%+v", w)
	}
	if _, _, text := d.do("GET", "/v1/pods", ""); text != "[]\n" {
		t.Errorf("%s", text)
	}
	if status, _, text := d.do("GET", "/v1/pods/"+w.ID+"?includeWorkers=true", ""); status != 200 || !strings.Contains(text, endpoint) {
		t.Errorf("%d %s", status, text)
	}
	if status, _, _ := d.do("GET", "/v1/pods/"+w.ID, ""); status != 404 {
		t.Errorf("%d", status)
	}
}
