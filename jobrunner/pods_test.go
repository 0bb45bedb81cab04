package jobrunner_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

type shownPod struct{ ID, Status string }

func (d *deployment) pod(method, path, body string, status int) (p shownPod) {
	d.t.Helper()
	got, _, text := d.do(method, "/v2/pods"+path, body)
	if got != status {
		d.t.Fatalf("%s %s: %d %s", method, path, got, text)
	}
	if status != http.StatusNoContent {
		must.Succeed(d.t, json.Unmarshal([]byte(text), &p))
	}
	return p
}

func (d *deployment) awaitPod(id, status string) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) { p := d.pod("GET", "/"+id, "", 200); return p.Status == status, p })
}

const onCPU = `"cpu":{"id":"cpu3c","vcpuCount":2}`

// On a shared database the deployment that created a pod runs it; any deployment can show and
// stop it.
func TestPodsOfSharedDatabases(t *testing.T) {
	acctest.LeaveToCI(t, "TestPodsOfANodeThatIsGone tests pods of two nodes")
	url := pgtest.Start(t)
	a, b := deployWith(t, jobrunner.Config{Engine: url}), deployWith(t, jobrunner.Config{Engine: url})
	id := a.pod("POST", "", `{"name":"p","image":"builtin/echo",`+onCPU+`}`, 201).ID
	b.awaitPod(id, "RUNNING")
	b.pod("POST", "/"+id+"/action", `{"action":"stop"}`, 200)
	a.awaitPod(id, "EXITED")
	b.pod("POST", "/"+id+"/action", `{"action":"start"}`, 200)
	a.awaitPod(id, "RUNNING")
	b.pod("DELETE", "/"+id, "", 204)
	if status, _, text := a.do("GET", "/v2/pods/"+id, ""); status != http.StatusNotFound {
		t.Errorf("a deleted pod: %d %s", status, text)
	}
}

// With includeWorkers version 1 shows the workers of endpoints as pods.
func TestWorkersAsPods(t *testing.T) {
	d := deploy(t, "")
	endpoint := d.createObject("/v2/serverless", `{"name":"e","image":"builtin/echo","workers":{"min":1,"max":1}}`)
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
	must.Hold(t, w.EndpointID == endpoint && w.DesiredStatus == "RUNNING" && w.Image == "builtin/echo", w)
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
