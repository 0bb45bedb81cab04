package jobrunner_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/node"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// Two nodes on one database act as one deployment: they share all objects and finish each other's work.
func TestTwoNodesOnOneDatabase(t *testing.T) {
	acctest.LeaveToCI(t, "the tests of node and TestMetricsOfTwoNodes test two nodes")
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t)}
	b := deployWith(t, c)
	var endpoint string
	t.Run("while both are there", func(t *testing.T) {
		a := deployWith(t, c)
		endpoint = a.createEndpoint(echoEndpoint("shared"))
		done, err := b.client(api.V1).Jobs.RunToEnd(t.Context(), endpoint, api.Submission{Input: json.RawMessage(`{"n":1}`)}, time.Minute, func(api.Job) {})
		must.Hold(t, err == nil && done.Status == "COMPLETED", "submitted at the other one", done, err)
		for _, d := range []*deployment{a, b} {
			h := must.Do(d.client(api.V2).Jobs.Health(t.Context(), endpoint))(t)
			must.Hold(t, h.Jobs.Completed == 1, "health is", h)
		}
		must.Do(b.client(api.V2).Templates.Create(t.Context(), api.Template{Name: "one", Image: "i", Disk: 5, Category: "CPU", Serverless: true}))(t)
		_, err = a.client(api.V2).Templates.Create(t.Context(), api.Template{Name: "one", Image: "i", Disk: 5, Category: "CPU", Serverless: true})
		must.ErrorContains(t, err, "unique")
	})
	// The node that created the endpoint is gone.
	submitted := must.Do(b.client(api.V2).Jobs.Run(t.Context(), endpoint, api.Submission{Input: json.RawMessage(`{"n":2}`)}))(t)
	b.awaitCompleted(endpoint, submitted.ID)
	log := b.log.String()
	must.Hold(t, !strings.Contains(log, "ERROR") && !strings.Contains(log, pgtest.Password), "the log has an error or the password:", log)
}

// All nodes have the same metrics of the queue and their own of workers, and share rate limits.
func TestMetricsOfTwoNodes(t *testing.T) {
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t)}
	a, b := deployWith(t, c), deployWith(t, c)
	id := a.createEndpoint(endpointWithoutWorkers("queue"))
	for _, d := range []*deployment{a, b, b} {
		must.Do(d.client(api.V2).Jobs.Run(t.Context(), id, api.Submission{Input: json.RawMessage(`{}`)}))(t)
	}
	for _, d := range []*deployment{a, b} {
		_, _, text := d.do("GET", "/metrics", "")
		must.Contain(t, text, `gpucloud_jobs{endpoint="`+id+`",state="IN_QUEUE"} 3`, `gpucloud_queue_oldest_age_seconds{endpoint="`+id+`"} `)
	}
	for i, d := range []*deployment{a, b, a, b} {
		want := http.StatusOK
		if i >= limits.Table[limits.PurgeQueue].Rate {
			want = http.StatusTooManyRequests
		}
		status, header, body := d.do("POST", "/v2/"+id+"/purge-queue", "")
		must.Hold(t, status == want && len(header.Values("X-Request-Id")) == 1, "purge", i, "is answered", status, header, body, "want", want, "with one request id")
	}
}

// The leader of an endpoint knows at once that it was deleted at another node.
func TestDeletedAtAnotherNode(t *testing.T) {
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t)}
	leader, other := deployWith(t, c), deployWith(t, c)
	for _, path := range []string{"/v1/endpoints/", "/v2/serverless/"} {
		id := leader.createEndpoint(endpointWithoutWorkers("deleted"))
		leader.must(200, "POST", "/v2/"+id+"/run", `{"input":{}}`)
		other.must(204, "DELETE", path+id, "")
		leader.must(404, "POST", "/v2/"+id+"/run", `{"input":{}}`)
	}
}

// A node warns of nodes with its address, another API key, or a copy of its data folder.
func TestWarningsOfMisconfiguredNodes(t *testing.T) {
	databaseURL := pgtest.Start(t)
	startNode := func(folderID, key, url string) *deployment {
		c := jobrunner.Config{DatabaseURL: databaseURL, DataDir: t.TempDir(), APIKey: key, NodeURL: url}
		must.Succeed(t, os.WriteFile(filepath.Join(c.DataDir, node.FolderIDFile), []byte(folderID), 0o600))
		return deployWith(t, c)
	}
	first := startNode("a", "", "")
	for d, text := range map[*deployment]string{startNode("a", "", ""): "has a copy of this one's data folder", startNode("b", "another-key", ""): "rejects this one's API key", startNode("c", "", first.url): "has this one's address"} {
		waitFor(t, func() (bool, any) { return strings.Contains(d.log.String(), text), text })
	}
}

// Every node reports why a job waits, even if it doesn't lead the endpoint.
func TestQueueReasonAtEachNode(t *testing.T) {
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t)}
	nodes := []*deployment{deployWith(t, c), deployWith(t, c)}
	e := echoEndpoint("waits")
	e.Container.Image = new("unknown/image")
	id := nodes[0].createEndpoint(e)
	job := must.Do(nodes[1].client(api.V2).Jobs.Run(t.Context(), id, api.Submission{Input: json.RawMessage(`{}`)}))(t)
	awaitQueueReason := func(accept func(reason string) bool) {
		t.Helper()
		for i, d := range nodes {
			waitFor(t, func() (bool, any) {
				status, header, body := d.do("GET", "/v2/"+id+"/status/"+job.ID, "")
				return status == 200 && accept(header.Get("X-Queue-Reason")), fmt.Sprintf("node %d: %d %s %q", i, status, body, header.Get("X-Queue-Reason"))
			})
		}
	}
	awaitQueueReason(func(reason string) bool { return strings.Contains(reason, "unknown/image") })
	nodes[1].must(200, "PATCH", "/v2/serverless/"+id, `{"image":"builtin/echo"}`)
	awaitQueueReason(func(reason string) bool { return reason == "" })
}

// One node runs an endpoint's workers. With includeWorkers, every node shows them as pods in version 1. It also counts them by release.
func TestWorkersAsPodsAtEachNode(t *testing.T) {
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t)}
	nodes := []*deployment{deployWith(t, c), deployWith(t, c)}
	nodes[0].createEndpoint(endpointWithoutWorkers("without workers"))
	for _, d := range nodes {
		e := echoEndpoint("has a worker")
		e.Name = "of " + d.url
		e.Workers.Min = 1
		id := d.createEndpoint(e)
		for i, reader := range nodes {
			var workers []struct{ ID, EndpointID, DesiredStatus, Image string }
			waitFor(t, func() (bool, any) { // until its worker runs
				status, _, body := reader.do("GET", "/v1/pods?includeWorkers=true&endpointId="+id, "")
				return status == 200 && json.Unmarshal([]byte(body), &workers) == nil && len(workers) > 0, fmt.Sprintf("node %d: %d %s", i, status, body)
			})
			must.Require(t, len(workers) == 1 && workers[0].EndpointID == id && workers[0].DesiredStatus == "RUNNING" && workers[0].Image == "builtin/echo", "node", i, workers)
			must.Equal(t, reader.must(200, "GET", "/v1/pods", "").text, "[]\n", "the list without workers")
			must.Contain(t, reader.must(200, "GET", "/v1/pods/"+workers[0].ID+"?includeWorkers=true", "").text, id)
			reader.must(404, "GET", "/v1/pods/"+workers[0].ID, "")
			reader.must(404, "GET", "/v1/pods/absent?includeWorkers=true", "")
			must.Contain(t, reader.must(200, "GET", "/v1/endpoints/"+id+"?includeWorkers=1", "").text, `"workers":[{"id":"`+workers[0].ID)
			must.Contain(t, reader.must(200, "GET", "/v1/endpoints?includeWorkers=true", "").text, `"workers":[]`)
			must.Contain(t, reader.must(200, "GET", "/v2/serverless/"+id+"/releases", "").text, `"workersTotal":1`)
		}
	}
}

type pageSnapshot struct {
	Endpoints []struct{ Workers map[string]int }
	Workers   []struct{ ID, Node string }
	Releases  struct{ List []struct{ Workers int } }
	Past      struct {
		Ended     map[string]int
		Execution struct{ P50 []*int64 }
	}
	Nodes, Unreachable []string
}

func (d *deployment) pageOf(endpoint string) (s pageSnapshot) {
	d.t.Helper()
	status, _, body := d.do("GET", "/ui/snapshot?endpoint="+endpoint, "")
	must.Require(d.t, json.Unmarshal([]byte(body), &s) == nil && status == http.StatusOK, "the page's data are answered", status, body)
	return s
}

// startTwoNodes starts two nodes on one database, and waits until the page of each shows both.
func startTwoNodes(t *testing.T, c jobrunner.Config) []*deployment {
	t.Helper()
	c.DatabaseURL = pgtest.Start(t)
	nodes := []*deployment{deployWith(t, c), deployWith(t, c)}
	for _, d := range nodes {
		waitFor(t, func() (bool, any) { s := d.pageOf(""); return len(s.Nodes) == len(nodes), s.Nodes })
	}
	return nodes
}

// waitFor polls a condition. If it never holds, the error shows the last state.
func waitFor(t *testing.T, condition func() (done bool, state any)) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		done, state := condition()
		if done {
			return
		}
		must.Require(t, !time.Now().After(deadline), "after three minutes:", state)
	}
}

// The page of each node shows the workers, releases, logs and jobs of all nodes.
func TestPageAtEachNode(t *testing.T) {
	nodes := startTwoNodes(t, jobrunner.Config{Programs: &webServers{}, URL: "http://127.0.0.1:1"})
	e := echoEndpoint("watched")
	e.Container.Image = new("builtin/conformance")
	id := nodes[0].createEndpoint(e)
	job, err := nodes[1].client(api.V2).Jobs.RunToEnd(t.Context(), id, api.Submission{Input: json.RawMessage(`{"op":"sleep","ms":20}`)}, time.Minute, func(api.Job) {})
	must.Require(t, err == nil && job.Status == "COMPLETED", "the job is", job, err, "want COMPLETED")
	for i, d := range nodes {
		s := d.pageOf(id)
		must.Hold(t, s.Nodes[0] == d.url && len(s.Unreachable) == 0, "node", i, "nodes", s.Nodes, "unreachable", s.Unreachable)
		must.Require(t, len(s.Workers) == 1 && s.Workers[0].Node == nodes[0].url &&
			s.Endpoints[0].Workers["IDLE"]+s.Endpoints[0].Workers["RUNNING"] == 1, "node", i, s)
		must.Equal(t, s.Releases.List[0].Workers, 1, "the workers of the release at node", i, s.Releases)
		executions := 0
		for _, p50 := range s.Past.Execution.P50 {
			if p50 != nil {
				executions++
			}
		}
		must.Hold(t, s.Past.Ended["COMPLETED"] == 1 && executions == 1, "node", i, s.Past)
		web := d.createObject("/v2/serverless", `{"name":"web `+d.url+`","type":"LOAD_BALANCER","image":"test/web","env":{"WHO":"one","HEALTH_CHECK_PATH":"/up"},
			"workers":{"min":1,"max":1},"scaling":{"type":"REQUEST_COUNT","requestCount":1}}`)
		for k, reader := range nodes {
			waitFor(t, func() (bool, any) { s = reader.pageOf(web); return len(s.Workers) == 1 && s.Workers[0].ID != "", s })
			status, _, body := reader.do("GET", "/ui/log?endpoint="+web+"&worker="+s.Workers[0].ID, "")
			must.Hold(t, status == http.StatusOK && strings.Contains(body, "listening, as one"), "the log of a worker at node", i, "asked at node", k, status, body)
			reader.must(http.StatusNotFound, "GET", "/ui/log?endpoint="+web+"&worker=absent", "")
		}
	}
}

// If the other node doesn't respond, the page says so and shows its own node.
func TestPageBesideAnUnreachableNode(t *testing.T) {
	c := jobrunner.Config{DatabaseURL: pgtest.Start(t)}
	absent := httptest.NewServer(http.NotFoundHandler())
	absent.Close()
	d := deployWith(t, c)
	c.APIKey, c.NodeURL, c.Logger = "planted-key", absent.URL, slog.New(slog.DiscardHandler)
	other := must.Do(jobrunner.New(t.Context(), c))(t)
	t.Cleanup(func() { must.Equal(t, other.Close(), nil) })
	waitFor(t, func() (bool, any) {
		s := d.pageOf("")
		return len(s.Unreachable) == 1 && s.Unreachable[0] == absent.URL && len(s.Nodes) == 1, s
	})
	// A list with workers is refused, because it would lack the other node's workers.
	status, header, body := d.do("GET", "/v1/pods?includeWorkers=true", "")
	must.Hold(t, status == 503 && header.Get("Retry-After") != "" && strings.Contains(body, "can't be reached"), "the list with workers is answered", status, body, "want 503 with Retry-After")
	must.Equal(t, d.must(200, "GET", "/v1/pods", "").text, "[]\n", "the list without workers")
}

// Behind a load balancer a browser is signed in at all nodes until it signs out at any of them.
func TestBrowserAtEachNode(t *testing.T) {
	acctest.LeaveToCI(t, "TestPageAtEachNode covers the page at each node")
	nodes := startTwoNodes(t, jobrunner.Config{})
	var cookie *http.Cookie
	send := func(d *deployment, method, path, body string) int {
		t.Helper()
		resp, _ := d.exchange(method, path, body, func(r *http.Request) {
			r.Host = "localhost:8420" // of the load balancer
			if cookie != nil {
				r.AddCookie(cookie)
			}
		})
		for _, newCookie := range resp.Cookies() {
			cookie = newCookie
		}
		return resp.StatusCode
	}
	for i, d := range nodes {
		status := send(d, "POST", "/ui/session", `{"key":"planted-key"}`)
		must.Require(t, status == http.StatusNoContent, "signing in at node", i, status)
		for k, reader := range nodes {
			must.Equal(t, send(reader, "GET", "/ui/snapshot", ""), http.StatusOK, "the status of a session of node", i, "at node", k)
		}
		before := *cookie
		must.Equal(t, send(nodes[1-i], "DELETE", "/ui/session", ""), http.StatusNoContent, "the status of signing out")
		cookie = &before
		for _, reader := range nodes {
			must.Equal(t, send(reader, "GET", "/ui/snapshot", ""), http.StatusUnauthorized, "the status after signing out")
		}
		cookie = nil
	}
}
