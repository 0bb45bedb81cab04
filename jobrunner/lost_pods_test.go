package jobrunner_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// If a pod's node is gone, the other nodes say so. When the node is back, it applies the
// changes that were requested meanwhile, including deletions.
func TestPodsOfANodeThatIsGone(t *testing.T) {
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	stays := deployWith(t, c)
	c.DataDir = t.TempDir()
	var pods []string
	pod := func(d *deployment, id string) (reason, status string) {
		t.Helper()
		var p struct {
			Reason *string
			Status string
		}
		code, _, body := d.do("GET", "/v2/pods/"+id, "")
		if code == http.StatusServiceUnavailable { // the node is about to be struck off
			return "", ""
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		if p.Reason != nil {
			reason = *p.Reason
		}
		return reason, p.Status
	}
	t.Run("while the node is there", func(t *testing.T) {
		leaves := deployWith(t, c)
		for _, name := range []string{"stopped", "deleted"} {
			id := leaves.createObject("/v2/pods", `{"name":"`+name+`","image":"builtin/echo","cpu":{"id":"cpu3c","vcpuCount":2}}`)
			pods = append(pods, id)
			for _, d := range []*deployment{leaves, stays} {
				waitFor(t, func() (bool, any) {
					reason, status := pod(d, id)
					return status == "RUNNING" && reason == "", status + reason
				})
			}
		}
	})
	for _, id := range pods {
		waitFor(t, func() (bool, any) {
			reason, _ := pod(stays, id)
			return strings.Contains(reason, "is not running"), reason
		})
	}
	if code, _, body := stays.do("POST", "/v2/pods/"+pods[0]+"/action", `{"action":"stop"}`); code != http.StatusOK {
		t.Errorf("stopping: %d %s", code, body)
	}
	if code, _, body := stays.do("DELETE", "/v2/pods/"+pods[1], ""); code != http.StatusNoContent {
		t.Errorf("deleting: %d %s", code, body)
	}
	back := deployWith(t, c)
	for _, d := range []*deployment{back, stays} {
		waitFor(t, func() (bool, any) {
			reason, status := pod(d, pods[0])
			return status == "EXITED" && !strings.Contains(reason, "is not running"), status + reason
		})
		if code, _, _ := d.do("GET", "/v2/pods/"+pods[1], ""); code != http.StatusNotFound {
			t.Errorf("the deleted one: %d", code)
		}
	}
}
