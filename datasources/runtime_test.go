package datasources_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// send calls the deployment without the provider.
func send(t *testing.T, d *acctest.Deployment, method, path, body string) map[string]any {
	t.Helper()
	req := must.Do(http.NewRequestWithContext(t.Context(), method, d.URL+path, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer "+d.Key)
	resp := must.Do(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.Require(t, err == nil && resp.StatusCode <= 299, method, path, resp.Status, string(text), err)
	var out map[string]any
	must.Require(t, len(text) == 0 || json.Unmarshal(text, &out) == nil, method, path, string(text))
	return out
}

func makeEndpoint(t *testing.T, d *acctest.Deployment) (id string) {
	t.Helper()
	return send(t, d, "POST", "/v2/serverless", `{"name":"e","image":"builtin/conformance","workers":{"min":1,"max":1},"env":{"TOKEN":"a-planted-secret"}}`)["id"].(string)
}

// readUntil reads a data source until it is as expected.
func readUntil(t *testing.T, p *tfdrive.Provider, typeName string, config map[string]any, expected func(tfdrive.State) bool) tfdrive.State {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got := read(t, p, typeName, config); expected(got) {
			return got
		}
	}
	t.Fatalf("%s %v stays %v", typeName, config, read(t, p, typeName, config).Value)
	return tfdrive.State{}
}

func TestJobAndHealth(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p, endpoint := drive(t, d, v), makeEndpoint(t, d)
		run := func(input string) string {
			return send(t, d, "POST", "/v2/"+endpoint+"/run", `{"input":`+input+`}`)["id"].(string)
		}
		ended := func(s tfdrive.State) bool { return !strings.HasPrefix(s.Get("status").(string), "IN_") }
		configOf := func(id string) map[string]any { return map[string]any{"endpoint_id": endpoint, "id": id} }

		done := readUntil(t, p, "gpucloud_job", configOf(run(`{"op":"echo","big":12345678901234567890.125,"s":"<ü>"}`)), ended)
		must.Hold(t, done.Get("status") == "COMPLETED" && done.Get("output") == `{"op":"echo","big":12345678901234567890.125,"s":"<ü>"}` && done.Get("error") == nil && done.Get("worker_id") != nil && done.Get("retries") == 0.0,
			"completed", done.Value)
		failed := readUntil(t, p, "gpucloud_job", configOf(run(`{"op":"fail","message":"as ordered"}`)), ended)
		must.Hold(t, failed.Get("status") == "FAILED" && failed.Get("error") == "as ordered" && failed.Get("output") == nil, "failed", failed.Value)
		sleeping := run(`{"op":"sleep","ms":600000}`)
		readUntil(t, p, "gpucloud_job", configOf(sleeping), func(s tfdrive.State) bool { return s.Get("status") == "IN_PROGRESS" })
		waiting := read(t, p, "gpucloud_job", configOf(run(`{"op":"echo"}`)))
		must.Hold(t, waiting.Get("status") == "IN_QUEUE" && waiting.Get("output") == nil && waiting.Get("delay_time") == 0.0 && waiting.Get("worker_id") == nil,
			"waiting", waiting.Value)
		health := read(t, p, "gpucloud_endpoint_health", map[string]any{"endpoint_id": endpoint})
		want := map[string]any{"completed": 1.0, "failed": 1.0, "in_progress": 1.0, "in_queue": 1.0, "retried": 0.0}
		must.Equal[any](t, health.Get("jobs"), want, "jobs")
		must.Equal(t, health.Get("workers.running"), 1.0, "workers", health.Get("workers"))
		writes := d.Writes()
		expectErrors(t, p, "gpucloud_job", configOf("nonesuch"), "Could not look up the job", "GET", "/v2/"+endpoint+"/status/nonesuch", "404", "request id")
		expectErrors(t, p, "gpucloud_job", configOf("a/b"), "id: Invalid value of id", `got "a/b"`)
		expectErrors(t, p, "gpucloud_endpoint_health", map[string]any{"endpoint_id": "nonesuch"}, "GET", "/v2/nonesuch/health: 404")
		expectErrors(t, p, "gpucloud_endpoint_health", map[string]any{"endpoint_id": ""}, "endpoint_id: Invalid value of endpoint_id")
		tfdrive.Do(p.Data("gpucloud_job", map[string]any{"endpoint_id": tfdrive.Unknown, "id": tfdrive.Unknown}))(t)
		must.Equal(t, d.Writes(), writes, "a data source wrote")
	})
}

func TestWorkersAndReleases(t *testing.T) {
	d := acctest.Deploy(t)
	p, endpoint := drive(t, d, api.V2), makeEndpoint(t, d)
	config := map[string]any{"endpoint_id": endpoint}
	workers := readUntil(t, p, "gpucloud_endpoint_workers", config, func(s tfdrive.State) bool { return s.Get("summary.idle") == 1.0 })
	first := workers.Get("workers").([]any)[0].(map[string]any)
	for attribute, want := range map[string]any{"status": "IDLE", "is_stale": false, "version": 0.0, "gpu_count": 0.0, "image": "builtin/conformance", "gpu_type_id": nil} {
		must.Equal(t, first[attribute], want, attribute, "of the worker")
	}
	must.Hold(t, workers.Get("summary.total") == 1.0 && workers.Get("endpoint_version") == 0.0 && first["started_at"] != nil && first["id"] != "", "workers", workers.Value)
	releases := read(t, p, "gpucloud_endpoint_releases", config)
	must.Hold(t, releases.Get("endpoint_version") == 0.0 && len(releases.Get("releases").([]any)) == 1 && member(releases.Get("releases"), 0, "source") == "MANUAL",
		"releases", releases.Value)
	// Old and new values of a release may contain secrets.
	send(t, d, "PATCH", "/v2/serverless/"+endpoint, `{"env":{"TOKEN":"another-planted-secret","MORE":"x"},"image":"builtin/echo"}`)
	releases = read(t, p, "gpucloud_endpoint_releases", config)
	changes := member(releases.Get("releases"), 0, "diff")
	text := releases.Value.String()
	must.Hold(t, !strings.Contains(text, "planted"), "a secret is in the state", text)
	got := column(changes, "field")
	must.Hold(t, slices.Contains(got, any("template.imageName")) && strings.Contains(fmt.Sprint(got), "env"), "changed", got)
	for i, field := range column(changes, "field") {
		must.Hold(t, field != "template.imageName" || member(changes, i, "old") == `"builtin/conformance"` && member(changes, i, "new") == `"builtin/echo"`, "image", changes)
		must.Hold(t, !strings.HasSuffix(field.(string), "env") || strings.Contains(fmt.Sprint(member(changes, i, "new")), "digest:"), "env", changes)
	}
	for _, name := range []string{"endpoint_workers", "endpoint_releases", "endpoint_builds"} {
		expectErrors(t, p, "gpucloud_"+name, map[string]any{"endpoint_id": "nonesuch"}, "GET", "/v2/serverless/nonesuch/", "404", "request id")
		expectErrors(t, drive(t, d, api.V1), "gpucloud_"+name, config, "gpucloud_"+name+" exists in management API v2 only", `api_version = "v2"`)
	}
}

// Attributes that the deployment doesn't return for a build are null, in the list and by id.
func TestBuilds(t *testing.T) {
	d := acctest.DeployCatalog(t, "builds:\n  - {endpoint: e, id: b2, status: PENDING}\n  - {endpoint: e, id: b1, status: FAILED, commit_hash: abc, commit_message: \"fix: it\", branch: main, "+
		"commit_date: 2026-11-01T10:00:00Z, image_name: \"r/i:1\", started_at: 2026-11-01T11:00:00Z, completed_at: 2026-11-01T12:00:00Z, error: exit 1}\n")
	p, endpoint := drive(t, d, api.V2), makeEndpoint(t, d)
	configOf := func(id string) map[string]any { return map[string]any{"endpoint_id": endpoint, "id": id} }
	builds := read(t, p, "gpucloud_endpoint_builds", map[string]any{"endpoint_id": endpoint}).Get("builds")
	for i, want := range []map[string]any{
		{"id": "b2", "status": "PENDING", "commit_hash": nil, "commit_message": nil, "branch": nil, "commit_date": nil, "image_name": nil, "started_at": nil, "completed_at": nil, "error": nil},
		{"id": "b1", "status": "FAILED", "commit_hash": "abc", "commit_message": "fix: it", "branch": "main", "commit_date": "2026-11-01T10:00:00Z",
			"image_name": "r/i:1", "started_at": "2026-11-01T11:00:00Z", "completed_at": "2026-11-01T12:00:00Z", "error": "exit 1"},
	} {
		one := read(t, p, "gpucloud_endpoint_build", configOf(want["id"].(string)))
		for name, value := range want {
			listed, alone := member(builds, i, name), one.Get(name)
			must.Hold(t, listed == value && alone == value, name, "of", want["id"], "is", listed, "in the list and", alone, "alone, expected", value)
		}
	}
	must.Equal(t, len(builds.([]any)), 2, "builds")
	expectErrors(t, p, "gpucloud_endpoint_build", configOf("nonesuch"), "GET", "/v2/serverless/"+endpoint+"/builds/nonesuch: 404", "request id")
	expectErrors(t, p, "gpucloud_endpoint_build", configOf("a/b"), "id: Invalid value of id", `got "a/b"`)
	expectErrors(t, drive(t, d, api.V1), "gpucloud_endpoint_build", configOf("b1"), "gpucloud_endpoint_build exists in management API v2 only")
}

// The existing lines of a log are read, within the data source's limits.
func TestLogs(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V2)
	var args strings.Builder
	for i := range 20 {
		fmt.Fprintf(&args, "print line-%d ", i)
	}
	pod := send(t, d, "POST", "/v2/pods", fmt.Sprintf(`{"name":"p","image":"builtin/echo","cpu":{"id":"cpu3c","vcpuCount":2},"args":%q}`, args.String()))["id"].(string)
	configOf := func(config map[string]any) map[string]any { return withChanges(map[string]any{"pod_id": pod}, config) }
	all := readUntil(t, p, "gpucloud_pod_logs", configOf(map[string]any{"source": "container"}), func(s tfdrive.State) bool { return len(s.Get("lines").([]any)) == 20 })
	got := member(all.Get("entries"), 3, "line")
	must.Hold(t, got == "line-3" && member(all.Get("entries"), 3, "source") == "container" && all.Get("lines").([]any)[3] == "line-3", all.Value)
	last := read(t, p, "gpucloud_pod_logs", configOf(map[string]any{"source": "container", "tail": 2}))
	must.Equal[any](t, last.Get("lines"), []any{"line-18", "line-19"}, "the last lines")
	since := read(t, p, "gpucloud_pod_logs", configOf(map[string]any{"source": "container", "tail": 3, "since": "2001-01-01T00:00:00Z"}))
	must.Equal[any](t, since.Get("lines"), []any{"line-0", "line-1", "line-2"}, "the first lines since a time")
	begin := time.Now()
	got = read(t, p, "gpucloud_pod_logs", configOf(map[string]any{"since": "2999-01-01T00:00:00Z"})).Get("lines")
	must.Hold(t, len(got.([]any)) == 0 && time.Since(begin) <= 3*time.Minute, "lines", got, "after", time.Since(begin)) // the read ends, although the API keeps the log open
	got = read(t, p, "gpucloud_pod_logs", configOf(map[string]any{"source": "system"})).Get("entries")
	must.Hold(t, !slices.Contains(column(got, "source"), any("container")), "of the system", got)

	endpoint := makeEndpoint(t, d)
	workers := readUntil(t, p, "gpucloud_endpoint_workers", map[string]any{"endpoint_id": endpoint}, func(s tfdrive.State) bool { return s.Get("summary.idle") == 1.0 })
	worker := member(workers.Get("workers"), 0, "id")
	got = read(t, p, "gpucloud_worker_logs", map[string]any{"endpoint_id": endpoint, "worker_id": worker}).Get("lines")
	must.Hold(t, got != nil, "no list of lines")
	for _, c := range []struct {
		config map[string]any
		says   []string
	}{
		{map[string]any{"pod_id": "nonesuch"}, []string{"Could not look up the log of the pod", "GET", "/v2/pods/nonesuch: 404", "request id"}},
		{map[string]any{"pod_id": "a b"}, []string{"pod_id: Invalid value of pod_id"}},
		{configOf(map[string]any{"tail": 0}), []string{"tail: ", "expected 1 to 5000, got 0"}},
		{configOf(map[string]any{"tail": 5001}), []string{"expected 1 to 5000, got 5001"}},
		{configOf(map[string]any{"seconds": 61}), []string{"seconds: ", "expected 1 to 60, got 61"}},
		{configOf(map[string]any{"source": "kernel"}), []string{`expected "container" or "system", got "kernel"`}},
		{configOf(map[string]any{"since": "yesterday"}), []string{"since: ", `such as 2026-06-01T00:00:00Z, got "yesterday"`}},
	} {
		expectErrors(t, p, "gpucloud_pod_logs", c.config, c.says...)
	}
	expectErrors(t, p, "gpucloud_worker_logs", map[string]any{"endpoint_id": endpoint, "worker_id": "nonesuch"}, "404", "/workers/nonesuch/logs")
	v1 := drive(t, d, api.V1)
	expectErrors(t, v1, "gpucloud_pod_logs", configOf(nil), "gpucloud_pod_logs exists in management API v2 only")
	expectErrors(t, v1, "gpucloud_worker_logs", map[string]any{"endpoint_id": endpoint, "worker_id": "w"}, "gpucloud_worker_logs exists in management API v2 only")
}

// The pods of a cluster are listed by rank, without their environment.
func TestClusterPods(t *testing.T) {
	d := acctest.Deploy(t)
	p := drive(t, d, api.V2)
	created := must.Do(d.Client(t, api.V2).Clusters.Create(t.Context(), api.Cluster{
		Name: "c", Type: "RAY", Image: "builtin/echo", Env: map[string]string{"TOKEN": "a-planted-secret"},
		Compute: api.ClusterCompute{GPUTypeID: "NVIDIA L4", GPUCountPerPod: 1, PodCount: 3},
	}))(t)
	config := map[string]any{"cluster_id": created.ID}
	writes := d.Writes()
	got := read(t, p, "gpucloud_cluster_pods", config)
	must.Equal(t, column(got.Get("pods"), "rank"), []any{0.0, 1.0, 2.0}, "ranks")
	for _, m := range must.Do(d.Client(t, api.V2).Clusters.Pods(t.Context(), created.ID))(t) {
		i := int(*m.Cluster.Rank)
		for attribute, want := range map[string]any{"id": m.ID, "name": m.Name, "role": m.Cluster.Role, "gpu_type_id": "NVIDIA L4", "gpu_count": 1.0, "created_at": m.CreatedAt} {
			must.Equal(t, member(got.Get("pods"), i, attribute), want, attribute, "of rank", i)
		}
		must.Equal(t, member(got.Get("pods"), i, "status"), "PROVISIONING", "rank", i) // there is no GPU
	}
	text := got.Value.String()
	must.Hold(t, d.Writes() == writes && !strings.Contains(text, "a-planted-secret"), d.Writes()-writes, "writes; in the state", text)
	expectErrors(t, p, "gpucloud_cluster_pods", map[string]any{"cluster_id": "nonesuch"}, "GET", `/v2/clusters/nonesuch: 404 Not Found: cluster "nonesuch" not found`)
	expectErrors(t, p, "gpucloud_cluster_pods", map[string]any{"cluster_id": "a b"}, "cluster_id: Invalid value of cluster_id", `got "a b"`)
	expectErrors(t, drive(t, d, api.V1), "gpucloud_cluster_pods", config, "gpucloud_cluster_pods exists in management API v2 only", `api_version = "v2"`)
}
