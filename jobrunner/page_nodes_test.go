package jobrunner_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// pageSnapshot is the data of the page.
type pageSnapshot struct {
	Endpoints []struct{ Workers map[string]int }
	Workers   []struct{ ID, Node string }
	Releases  struct{ List []struct{ Workers int } }
	Past      struct {
		Ended     map[string]int
		Execution struct{ P50 []*int64 }
	}
	Nodes, Silent []string
}

func (d *deployment) pageOf(endpoint string) (s pageSnapshot) {
	d.t.Helper()
	status, _, body := d.do("GET", "/ui/snapshot?endpoint="+endpoint, "")
	err := json.Unmarshal([]byte(body), &s)
	must.Require(d.t, err == nil && status == http.StatusOK, status, body)
	return s
}

// twoNodes starts two nodes on one database, and waits until they know each other.
func twoNodes(t *testing.T, c jobrunner.Config) []*deployment {
	t.Helper()
	c.Engine = pgtest.Start(t)
	nodes := []*deployment{deployWith(t, c), deployWith(t, c)}
	for _, d := range nodes {
		waitFor(t, func() (bool, any) { s := d.pageOf(""); return len(s.Nodes) == len(nodes), s.Nodes })
	}
	return nodes
}

// waitFor polls a condition, which also returns what it has seen.
func waitFor(t *testing.T, is func() (done bool, seen any)) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		done, seen := is()
		if done {
			return
		}
		must.Require(t, !time.Now().After(deadline), "after three minutes:", seen)
	}
}

// The page of each node shows the workers, releases, logs and jobs of all nodes.
func TestPageAtEachNode(t *testing.T) {
	nodes := twoNodes(t, jobrunner.Config{Programs: &webServers{}, URL: "http://127.0.0.1:1"})
	e := echo("watched")
	e.Container.Image = new("builtin/conformance")
	id := nodes[0].create(e)
	job, err := nodes[1].client(api.V2).Jobs.RunSync(t.Context(), id, api.Submission{Input: json.RawMessage(`{"op":"sleep","ms":20}`)}, time.Minute)
	must.Require(t, err == nil && job.Status == "COMPLETED", job, err)
	for i, d := range nodes {
		s := d.pageOf(id)
		must.Hold(t, s.Nodes[0] == d.url && len(s.Silent) == 0, "node", i, "nodes", s.Nodes, "silent", s.Silent)
		must.Require(t, len(s.Workers) == 1 && s.Workers[0].Node == nodes[0].url &&
			s.Endpoints[0].Workers["IDLE"]+s.Endpoints[0].Workers["RUNNING"] == 1, "node", i, s)
		must.Equal(t, s.Releases.List[0].Workers, 1, "node", i, "releases", s.Releases)
		executions := 0
		for _, p50 := range s.Past.Execution.P50 {
			if p50 != nil {
				executions++
			}
		}
		must.Hold(t, s.Past.Ended["COMPLETED"] == 1 && executions == 1, "node", i, s.Past)
		web := d.createObject("/v2/serverless", `{"name":"web `+d.url+`","type":"LOAD_BALANCER","image":"test/web","env":{"WHO":"one","HEALTH_CHECK_PATH":"/up"},
			"workers":{"min":1,"max":1},"scaling":{"type":"REQUEST_COUNT","requestCount":1}}`)
		for k, asked := range nodes {
			waitFor(t, func() (bool, any) { s = asked.pageOf(web); return len(s.Workers) == 1 && s.Workers[0].ID != "", s })
			if status, _, body := asked.do("GET", "/ui/log?endpoint="+web+"&worker="+s.Workers[0].ID, ""); status != http.StatusOK || !strings.Contains(body, "listening, as one") {
				t.Errorf("the log of a worker at node %d, asked at node %d: %d %s", i, k, status, body)
			}
			status, _, _ := asked.do("GET", "/ui/log?endpoint="+web+"&worker=absent", "")
			must.Hold(t, status == http.StatusNotFound, "the log of an absent worker:", status)
		}
	}
}

// If the other node doesn't respond, the page says so and shows its own node.
func TestPageBesideAnUnreachableNode(t *testing.T) {
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	absent := httptest.NewServer(http.NotFoundHandler())
	absent.Close()
	d := deployWith(t, c)
	silentNode(t, c, absent.URL)
	waitFor(t, func() (bool, any) {
		s := d.pageOf("")
		return len(s.Silent) == 1 && s.Silent[0] == absent.URL && len(s.Nodes) == 1, s
	})
}

// Behind a load balancer a browser is signed in at all nodes until it signs out at any of
// them.
func TestBrowserAtEachNode(t *testing.T) {
	acctest.LeaveToCI(t, "TestPageAtEachNode covers the page at each node")
	nodes := twoNodes(t, jobrunner.Config{})
	var cookie *http.Cookie
	send := func(d *deployment, method, path, body string) int {
		t.Helper()
		resp, _ := d.exchange(method, path, body, func(r *http.Request) {
			r.Host = "localhost:8420" // of the load balancer
			if cookie != nil {
				r.AddCookie(cookie)
			}
		})
		for _, set := range resp.Cookies() {
			cookie = set
		}
		return resp.StatusCode
	}
	for i, d := range nodes {
		status := send(d, "POST", "/ui/session", `{"key":"planted-key"}`)
		must.Require(t, status == http.StatusNoContent, "signing in at node", i, status)
		for k, asked := range nodes {
			must.Equal(t, send(asked, "GET", "/ui/snapshot", ""), http.StatusOK, "signed in at node", i, "asking node", k)
		}
		before := *cookie
		must.Equal(t, send(nodes[1-i], "DELETE", "/ui/session", ""), http.StatusNoContent, "signing out")
		cookie = &before
		for _, asked := range nodes {
			must.Equal(t, send(asked, "GET", "/ui/snapshot", ""), http.StatusUnauthorized, "after signing out")
		}
		cookie = nil
	}
}
