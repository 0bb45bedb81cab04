package jobrunner_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
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

// Two deployments on one database act as one: they share all objects, and each finishes the
// work of the other.
func TestTwoOnOneDatabase(t *testing.T) {
	acctest.LeaveToCI(t, "the tests of node and TestMetricsOfTwoNodes test two nodes")
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	b := deployWith(t, c)
	var endpoint, job string
	t.Run("while both are there", func(t *testing.T) {
		a := deployWith(t, c)
		endpoint = a.create(echo("shared"))
		done, err := b.client(api.V1).Jobs.RunSync(t.Context(), endpoint, api.Submission{Input: json.RawMessage(`{"n":1}`)}, 0)
		must.Hold(t, err == nil && done.Status == "COMPLETED", "submitted at the other one", done, err)
		for _, d := range []*deployment{a, b} {
			h := must.Do(d.client(api.V2).Jobs.Health(t.Context(), endpoint))(t)
			must.Hold(t, h.Jobs.Completed == 1, "health is", h)
		}
		_, err = b.client(api.V2).Templates.Create(t.Context(), api.Template{Name: "one", Image: "i", Disk: 5, Category: "CPU", Serverless: true})
		must.Succeed(t, err)
		_, err = a.client(api.V2).Templates.Create(t.Context(), api.Template{Name: "one", Image: "i", Disk: 5, Category: "CPU", Serverless: true})
		must.Fail(t, err, "unique")
	})
	// The deployment that created the endpoint is gone.
	client := b.client(api.V2)
	submitted := must.Do(client.Jobs.Run(t.Context(), endpoint, api.Submission{Input: json.RawMessage(`{"n":2}`)}))(t)
	for job = submitted.ID; ; {
		got := must.Do(client.Jobs.Status(t.Context(), endpoint, job))(t)
		if got.Status == "COMPLETED" {
			break
		}
	}
	log := b.log.String()
	must.Hold(t, !strings.Contains(log, "ERROR") && !strings.Contains(log, pgtest.Password), log)
}

// All nodes have the same metrics of the queue. The metrics of workers are per node.
func TestMetricsOfTwoNodes(t *testing.T) {
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	a, b := deployWith(t, c), deployWith(t, c)
	id := a.create(withoutWorkers("queue"))
	for _, d := range []*deployment{a, b, b} {
		must.Do(d.client(api.V2).Jobs.Run(t.Context(), id, api.Submission{Input: json.RawMessage(`{}`)}))(t)
	}
	for _, d := range []*deployment{a, b} {
		_, _, text := d.do("GET", "/metrics", "")
		for _, want := range []string{`gpucloud_jobs{endpoint="` + id + `",state="IN_QUEUE"} 3`, `gpucloud_queue_oldest_age_seconds{endpoint="` + id + `"} `} {
			must.Contain(t, text, want)
		}
	}
}

// Every node reports why a job waits, even if it doesn't lead the endpoint.
func TestQueueReasonAtEachNode(t *testing.T) {
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	nodes := []*deployment{deployWith(t, c), deployWith(t, c)}
	e := echo("waits")
	e.Container.Image = new("unknown/image")
	id := nodes[0].create(e)
	job := must.Do(nodes[1].client(api.V2).Jobs.Run(t.Context(), id, api.Submission{Input: json.RawMessage(`{}`)}))(t)
	until := func(says func(reason string) bool) {
		t.Helper()
		for i, d := range nodes {
			waitFor(t, func() (bool, any) {
				status, header, body := d.do("GET", "/v2/"+id+"/status/"+job.ID, "")
				return status == 200 && says(header.Get("X-Queue-Reason")), fmt.Sprintf("node %d: %d %s %q", i, status, body, header.Get("X-Queue-Reason"))
			})
		}
	}
	until(func(reason string) bool { return strings.Contains(reason, "unknown/image") })
	status, _, body := nodes[1].do("PATCH", "/v2/serverless/"+id, `{"image":"builtin/echo"}`)
	must.Require(t, status == 200, status, body)
	until(func(reason string) bool { return reason == "" })
}

// One node runs an endpoint's workers, and every node shows them as pods and counts them by
// release.
func TestWorkersAsPodsAtEachNode(t *testing.T) {
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	nodes := []*deployment{deployWith(t, c), deployWith(t, c)}
	for _, d := range nodes {
		e := echo("has a worker")
		e.Name = "of " + d.url
		e.Workers.Min = 1
		id := d.create(e)
		for i, asked := range nodes {
			var workers []struct{ ID, EndpointID string }
			for deadline := time.Now().Add(time.Minute); len(workers) == 0; time.Sleep(20 * time.Millisecond) { // until its worker runs
				status, _, body := asked.do("GET", "/v1/pods?includeWorkers=true&endpointId="+id, "")
				err := json.Unmarshal([]byte(body), &workers)
				must.Require(t, (status != 200 || err == nil) && !time.Now().After(deadline), "node", i, status, body, err)
			}
			must.Require(t, len(workers) == 1 && workers[0].EndpointID == id, "node", i, workers)
			status, _, body := asked.do("GET", "/v1/pods/"+workers[0].ID+"?includeWorkers=true", "")
			must.Hold(t, status == 200 && strings.Contains(body, id), "node", i, status, body)
			status, _, body = asked.do("GET", "/v1/pods/absent?includeWorkers=true", "")
			must.Hold(t, status == 404, "node", i, status, body)
			status, _, body = asked.do("GET", "/v2/serverless/"+id+"/releases", "")
			must.Hold(t, status == 200 && strings.Contains(body, `"workersTotal":1`), "node", i, status, body)
		}
	}
}

// silentNode joins a database with a URL that can't be reached.
func silentNode(t *testing.T, c jobrunner.Config, url string) {
	t.Helper()
	c.APIKey, c.NodeURL, c.Logger = "planted-key", url, slog.New(slog.DiscardHandler)
	other := must.Do(jobrunner.New(t.Context(), c))(t)
	t.Cleanup(func() {
		must.Equal(t, other.Close(), nil)
	})
}

// A list of pods with workers is rejected while a node doesn't respond, because it would lack
// that node's workers.
func TestWorkersOfAnUnreachableNode(t *testing.T) {
	acctest.LeaveToCI(t, "TestPageBesideAnUnreachableNode covers it")
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	d := deployWith(t, c)
	absent := httptest.NewServer(http.NotFoundHandler())
	absent.Close()
	silentNode(t, c, absent.URL)
	waitFor(t, func() (bool, any) { // until the node has read that there is another
		status, header, body := d.do("GET", "/v1/pods?includeWorkers=true", "")
		return status == 503 && header.Get("Retry-After") != "" && strings.Contains(body, "can't be reached"), body
	})
	status, _, body := d.do("GET", "/v1/pods", "")
	must.Hold(t, status == 200 && body == "[]\n", "without workers:", status, body)
}
