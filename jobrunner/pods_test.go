package jobrunner_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

func (d *deployment) awaitPod(id, status string) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) {
		p := d.must(200, "GET", "/v2/pods/"+id, "")
		return p.member("status") == status, p.text
	})
}

const onCPU = `"cpu":{"id":"cpu3c","vcpuCount":2}`

// If a pod's node is gone, other nodes say so. When it is back, it applies changes and deletions.
func TestPodsOfANodeThatIsGone(t *testing.T) {
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t)}
	otherNode := deployWith(t, c)
	c.DataDir = t.TempDir()
	var pods []string
	readPod := func(d *deployment, id string) (reason, status string) {
		t.Helper()
		var p struct {
			Reason *string
			Status string
		}
		code, _, body := d.do("GET", "/v2/pods/"+id, "")
		if code == http.StatusServiceUnavailable { // the other node hasn't removed it yet
			return "", ""
		}
		must.Require(t, json.Unmarshal([]byte(body), &p) == nil && code == http.StatusOK, "the pod is answered", code, body)
		if p.Reason != nil {
			reason = *p.Reason
		}
		return reason, p.Status
	}
	t.Run("while the node is there", func(t *testing.T) {
		firstRun := deployWith(t, c)
		for _, name := range []string{"stopped", "deleted"} {
			id := firstRun.createObject("/v2/pods", `{"name":"`+name+`","image":"builtin/echo",`+onCPU+`}`)
			pods = append(pods, id)
			for _, d := range []*deployment{firstRun, otherNode} {
				waitFor(t, func() (bool, any) {
					reason, status := readPod(d, id)
					return status == "RUNNING" && reason == "", status + reason
				})
			}
		}
		forwardedCount := func() string {
			_, metrics := otherNode.get("/metrics", "")
			return regexp.MustCompile(`gpucloud_http_request_duration_seconds_count{code="200",route="forwarded"}.*`).FindString(metrics)
		}
		waitFor(t, func() (bool, any) { // until otherNode knows where the newest pod runs
			before := forwardedCount()
			_, status := readPod(otherNode, pods[1])
			return forwardedCount() != before, status
		})
	})
	must.Require(t, len(pods) == 2, "the pods are", pods)
	for _, id := range pods {
		waitFor(t, func() (bool, any) {
			reason, _ := readPod(otherNode, id)
			return strings.Contains(reason, "is not running"), reason
		})
	}
	otherNode.must(http.StatusOK, "POST", "/v2/pods/"+pods[0]+"/action", `{"action":"stop"}`)
	otherNode.must(http.StatusNoContent, "DELETE", "/v2/pods/"+pods[1], "")
	secondRun := deployWith(t, c)
	for _, d := range []*deployment{secondRun, otherNode} {
		waitFor(t, func() (bool, any) {
			reason, status := readPod(d, pods[0])
			return status == "EXITED" && !strings.Contains(reason, "is not running"), status + reason
		})
		d.must(http.StatusNotFound, "GET", "/v2/pods/"+pods[1], "")
	}
	otherNode.must(http.StatusOK, "POST", "/v2/pods/"+pods[0]+"/action", `{"action":"start"}`)
	secondRun.awaitPod(pods[0], "RUNNING")
	otherNode.must(http.StatusNoContent, "DELETE", "/v2/pods/"+pods[0], "")
	secondRun.must(http.StatusNotFound, "GET", "/v2/pods/"+pods[0], "")
}
