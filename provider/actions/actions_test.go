package actions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// driver has a configured provider and a client of its deployment.
type driver struct {
	*testing.T
	provider *tfdrive.Provider
	client   *api.Client
	version  api.Version // of the provider
}

// onEachVersion runs a test on both management APIs.
func onEachVersion(t *testing.T, test func(d *driver)) {
	t.Helper()
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		if d.Remote {
			t.Skip("the jobs and pods are made for programs that are built into the jobrunner")
		}
		p := tfdrive.Start(t, provider.New("test")(), d.Settings(v))
		must.Succeed(t, p.ConfigureDiagnostics.Err())
		test(&driver{t, p, d.Client(t, api.V2), v})
	})
}

// makeEndpoint creates an endpoint whose handler performs the operation in a job's input.
func (d *driver) makeEndpoint(workers api.Workers) (id string) {
	d.Helper()
	template := must.Do(d.client.Templates.Create(d.Context(), api.Template{Name: "jobs", Image: "builtin/conformance", Disk: 10, Category: "NVIDIA", Serverless: true}))(d)
	return must.Do(d.client.Endpoints.Create(d.Context(), api.Endpoint{Name: "jobs", Type: "QUEUE", Workers: workers, TemplateID: &template.ID}))(d).ID
}

// submit creates a job and waits until it has the status.
func (d *driver) submit(endpointID, input, status string) (id string) {
	d.Helper()
	job := must.Do(d.client.Jobs.Run(d.Context(), endpointID, api.Submission{Input: json.RawMessage(input)}))(d)
	d.await(endpointID, job.ID, status)
	return job.ID
}

func (d *driver) await(endpointID, jobID, status string) {
	d.Helper()
	d.until("the job is "+status, func() bool { return must.Do(d.client.Jobs.Status(d.Context(), endpointID, jobID))(d).Status == status })
}

// until waits for a condition.
func (d *driver) until(what string, holds func() bool) {
	d.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	d.Fatalf("not so after a minute: %s", what)
}

// invoke runs an action, and expects success and at least these messages, in this order.
func (d *driver) invoke(action string, config map[string]any, messages ...string) {
	d.Helper()
	got, diags := d.provider.Invoke("gpucloud_"+action, config)
	must.Require(d, diags.Err() == nil, action, diags)
	rest := got
	for _, want := range messages {
		i := slices.IndexFunc(rest, func(m string) bool { return strings.Contains(m, want) })
		must.Require(d, i >= 0, action, "expected the message", want, "got", got)
		rest = rest[i+1:]
	}
}

// expectError runs an action, and expects an error with these texts.
func (d *driver) expectError(action string, config map[string]any, texts ...string) {
	d.Helper()
	must.ErrorContains(d, tfdrive.Err(d.provider.Invoke("gpucloud_"+action, config)), texts...)
}

func TestPurgeQueue(t *testing.T) {
	onEachVersion(t, func(d *driver) {
		id := d.makeEndpoint(api.Workers{Max: 1})
		d.submit(id, `{"op":"sleep","ms":600000}`, "IN_PROGRESS")
		for range 3 {
			d.submit(id, `{"op":"echo"}`, "IN_QUEUE")
		}
		d.invoke("endpoint_purge_queue", map[string]any{"endpoint_id": id}, "Jobs removed from the queue of endpoint "+id+": 3.")
		health := must.Do(d.client.Jobs.Health(d.Context(), id))(d)
		must.Hold(d, health.Jobs.InQueue == 0 && health.Jobs.InProgress == 1, "after a purge", health.Jobs)
		d.expectError("endpoint_purge_queue", map[string]any{"endpoint_id": "none"}, ": Could not purge the queue: ", "404")
		d.expectError("endpoint_purge_queue", map[string]any{"endpoint_id": "a/b"}, "endpoint_id: Invalid endpoint_id", `got "a/b"`)
	})
}

func TestJobCancel(t *testing.T) {
	onEachVersion(t, func(d *driver) {
		id := d.makeEndpoint(api.Workers{Max: 1})
		running := d.submit(id, `{"op":"sleep","ms":600000}`, "IN_PROGRESS")
		waiting := d.submit(id, `{"op":"echo"}`, "IN_QUEUE")
		for _, job := range [][2]string{{waiting, "IN_QUEUE"}, {running, "IN_PROGRESS"}} { // the running job must not end first
			d.invoke("job_cancel", map[string]any{"endpoint_id": id, "job_id": job[0]}, "Job "+job[0]+", which was "+job[1]+", is cancelled.")
			d.await(id, job[0], "CANCELLED")
		}
		d.invoke("job_cancel", map[string]any{"endpoint_id": id, "job_id": waiting}, "has ended already, as CANCELLED")
		d.expectError("job_cancel", map[string]any{"endpoint_id": id, "job_id": "none"}, "Could not cancel the job", "404")
		d.expectError("job_cancel", map[string]any{"endpoint_id": id, "job_id": "../x"}, "job_id: Invalid job_id")
	})
}

// A job that ends before its cancel isn't reported as cancelled, whatever the deployment responds.
func TestJobEndsBeforeCancel(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusConflict} {
		reads := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := "COMPLETED"
			if r.Method == http.MethodPost {
				w.WriteHeader(code)
			} else if reads++; reads <= 2 { // the provider's check of the address, and the action's first read
				status = "IN_PROGRESS"
			}
			fmt.Fprintf(w, `{"id": "job", "status": %q, "templates": []}`, status)
		}))
		defer server.Close()
		d := &driver{T: t, provider: tfdrive.Start(t, provider.New("test")(), map[string]any{"base_url": server.URL, "api_key": "key"})}
		d.invoke("job_cancel", map[string]any{"endpoint_id": "ep", "job_id": "job"}, "Job job has ended already, as COMPLETED.")
	}
}

func TestJobRetry(t *testing.T) {
	onEachVersion(t, func(d *driver) {
		id := d.makeEndpoint(api.Workers{Max: 1})
		failed := d.submit(id, `{"op":"fail","message":"not yet"}`, "FAILED")
		d.expectError("job_retry", map[string]any{"endpoint_id": id, "job_id": failed}, "Could not retry the job", "job "+failed, "ended as FAILED: not yet")
		done := d.submit(id, `{"op":"echo"}`, "COMPLETED")
		d.expectError("job_retry", map[string]any{"endpoint_id": id, "job_id": done}, "Could not retry the job")
		d.expectError("job_retry", map[string]any{"endpoint_id": id, "job_id": done, "timeout": "soon"}, "timeout: Invalid timeout")

		failsOnce := d.submit(id, `{"op":"fail","times":1}`, "FAILED")
		d.invoke("job_retry", map[string]any{"endpoint_id": id, "job_id": failsOnce}, "Job "+failsOnce+" is IN_QUEUE.", "Job "+failsOnce+" is COMPLETED after")
	})
}

func TestJobRun(t *testing.T) {
	onEachVersion(t, func(d *driver) {
		id := d.makeEndpoint(api.Workers{Max: 1})
		config := func(more ...any) map[string]any {
			out := map[string]any{"endpoint_id": id, "input": `{"op":"echo","model":{"name":"sdxl","size":2.50},"tags":["a","b"]}`}
			for i := 0; i < len(more); i += 2 {
				out[more[i].(string)] = more[i+1]
			}
			return out
		}
		const whole = `{"tags":["a","b"],"model":{"size":2.5,"name":"sdxl"},"op":"echo"}`
		d.invoke("job_run", config(), " is COMPLETED after ")
		d.invoke("job_run", config("expected_output", whole, "expected_members", `{"model":{"name":"sdxl"},"tags":["a","b"]}`))
		d.invoke("job_run", config("policy", map[string]any{}), " is COMPLETED after ")
		d.expectError("job_run", config("expected_output", `{"op":"echo"}`), `expected_output: The job did not complete as expected`, `output has a member "model", expected none`, `Its output is {"model":`)
		d.expectError("job_run", config("expected_members", `{"model":{"name":"flux"}}`), `expected_members: `, `output.model.name is "sdxl", expected "flux"`)
		d.expectError("job_run", config("expected_members", `{"model":{"kind":"x"}}`), `output.model has no member "kind"`)
		d.expectError("job_run", config("expected_members", `{"tags":["a"]}`), `output.tags is ["a","b"], expected ["a"]`)
		d.expectError("job_run", config("input", `{"op":"echo","size":1e999999999}`, "expected_members", `{"size":1e888888888}`), "output.size is 1e999999999, expected 1e888888888")
		d.expectError("job_run", config("input", `{"op":"fail","message":"no such model"}`), "ended as FAILED: no such model")
		d.expectError("job_run", config("input", `{"op":"sleep","ms":600000}`, "timeout", "1s"), "not finished after 1s; it was cancelled")
		d.invoke("job_run", config("input", `{"op":"sleep","ms":1}`, "expected_output", "null"), "COMPLETED")
		d.invoke("job_run", config("webhook", "http://127.0.0.1:9/called", "s3_config", map[string]any{"access_secret": "a-planted-secret", "bucket_name": "results"}), "COMPLETED")
		d.expectError("job_run", config("expected_output", `{`), "expected_output: Invalid expected_output")
		d.expectError("job_run", config("expected_output", ""), "expected_output: Invalid expected_output")
		d.expectError("job_run", config("expected_members", `[]`), "expected_members: Invalid expected_members")
		d.expectError("job_run", config("expected_members", `null`), "expected_members: Invalid expected_members")
		d.expectError("job_run", config("input", `[]`), "input: Invalid input")
		d.expectError("job_run", config("policy", map[string]any{"ttl": 60000.5}), "Invalid policy.ttl: expected a whole number, got 60000.5.")
		health := must.Do(d.client.Jobs.Health(d.Context(), id))(d)
		must.Hold(d, health.Jobs.InQueue+health.Jobs.InProgress <= 0, "jobs are left", health.Jobs)
	})
}

func TestRecycleWorkers(t *testing.T) {
	onEachVersion(t, func(d *driver) {
		id := d.makeEndpoint(api.Workers{Min: 2, Max: 3})
		d.until("two workers are idle", func() bool { return must.Do(d.client.Jobs.Health(d.Context(), id))(d).Workers.Idle == 2 })
		before := d.runningWorker(id)
		d.invoke("endpoint_recycle_workers", map[string]any{"endpoint_id": id}, "Workers left at endpoint "+id+": 0.", "Endpoint "+id+" has 2 to 3 workers again.")
		got, err := d.client.Endpoints.Get(d.Context(), id)
		must.Hold(d, err == nil && got.Workers.Min == 2 && got.Workers.Max == 3, "the endpoint has the workers", got.Workers, err)
		must.Hold(d, d.runningWorker(id) != before, "worker", before, "is still there")

		// A worker stays busy for longer than the action waits: the bounds are restored.
		d.submit(id, `{"op":"sleep","ms":600000}`, "IN_PROGRESS")
		d.expectError("endpoint_recycle_workers", map[string]any{"endpoint_id": id, "timeout": "1s"}, "Could not recycle the workers", "not finished after 1s")
		got, err = d.client.Endpoints.Get(d.Context(), id)
		must.Hold(d, err == nil && got.Workers.Min == 2 && got.Workers.Max == 3, "the endpoint has the workers", got.Workers, err)
		d.expectError("endpoint_recycle_workers", map[string]any{"endpoint_id": "none"}, "Could not recycle the workers", "404")
	})
}

// If the worker limits can't be restored, the error also has the reason why the action failed.
func TestRecycleCannotRestore(t *testing.T) {
	failing, firstFailure, failures := false, "GET /v2/ep/health", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing = failing || r.Method+" "+r.URL.Path == firstFailure; failing {
			failures++
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, `{"templates": [], "id": "ep", "name": "e", "type": "QUEUE", "workers": {"min": 1, "max": 2}, "scaling": {"type": "QUEUE_DELAY", "queueDelay": 4}}`)
	}))
	defer server.Close()
	d := &driver{T: t, provider: tfdrive.Start(t, provider.New("test")(), map[string]any{"base_url": server.URL, "api_key": "key"})}
	d.expectError("endpoint_recycle_workers", map[string]any{"endpoint_id": "ep"}, "waiting until the workers of endpoint ep are gone", "/health", "may have workers.min = 0", "the earlier values 1 and 2 could not be restored")
	// A rejected update changes nothing, so nothing is restored.
	failing, firstFailure, failures = false, "PATCH /v2/serverless/ep", 0
	d.expectError("endpoint_recycle_workers", map[string]any{"endpoint_id": "ep"}, "403 Forbidden")
	must.Equal(t, failures, 1, "requests after the update was rejected")
}

// runningWorker runs a job, and returns the id of the worker that ran it.
func (d *driver) runningWorker(endpointID string) string {
	d.Helper()
	return must.Do(d.client.Jobs.RunToEnd(d.Context(), endpointID, api.Submission{Input: json.RawMessage(`{"op":"echo"}`)}, time.Minute, func(api.Job) {}))(d).WorkerID
}

func TestPodActions(t *testing.T) {
	onEachVersion(t, func(d *driver) {
		newPod := func(image string) api.Pod {
			return must.Do(d.client.Pods.Create(d.Context(), api.Pod{Name: "p", Container: &api.Container{Image: &image, Disk: new(int64(5))}, CPU: &api.PodCPU{ID: "cpu3c", VCPUCount: 2}, Cloud: "SECURE"}))(d)
		}
		created := newPod("builtin/echo")
		config := map[string]any{"pod_id": created.ID}
		awaitStatus := func(status string) {
			d.Helper()
			current := func() string { return must.Do(d.client.Pods.GetFresh(d.Context(), created.ID))(d).Status }
			if d.version == api.V1 { // its status is the desired one, even while the pod starts
				d.until("the pod is "+status, func() bool { return current() == status })
			}
			must.Equal(d, current(), status, "the pod's status")
		}
		d.invoke("pod_start", config, "Pod "+created.ID+" is RUNNING.") // it already starts
		d.invoke("pod_restart", config, "Pod "+created.ID+" restarts.", "is RUNNING.")
		awaitStatus("RUNNING")
		d.invoke("pod_stop", config, "is EXITED.")
		awaitStatus("EXITED")
		d.invoke("pod_stop", config, "is EXITED.")
		d.expectError("pod_restart", config, "Could not restart the pod", "is EXITED: only a pod that is RUNNING can be restarted")
		d.invoke("pod_start", config, "is RUNNING.")
		awaitStatus("RUNNING")
		if d.version == api.V2 {
			provisioning := map[string]any{"pod_id": newPod("team/absent").ID, "timeout": "1s"}
			d.expectError("pod_start", provisioning, "is PROVISIONING: ", "team/absent: not finished after 1s")
			d.expectError("pod_restart", provisioning, "is PROVISIONING: only a pod that is RUNNING can be restarted. gpucloud_pod_start waits until it runs")
		}
		d.expectError("pod_start", map[string]any{"pod_id": "none"}, "Could not start the pod", "404")
		d.expectError("pod_stop", map[string]any{"pod_id": "a b"}, "pod_id: Invalid pod_id")
		d.expectError("pod_stop", map[string]any{"pod_id": created.ID, "timeout": "0s"}, "timeout: Invalid timeout")
	})
}

// If Terraform is interrupted, no job stays, and the endpoint keeps its workers.
func TestActionsAreInterrupted(t *testing.T) {
	onEachVersion(t, func(d *driver) {
		id := d.makeEndpoint(api.Workers{Max: 1})
		interrupt := func(action string, config map[string]any, begun func() bool, want string) {
			d.Helper()
			ended := make(chan error)
			go func() { ended <- tfdrive.Err(d.provider.Invoke("gpucloud_"+action, config)) }()
			d.until("the action has begun", begun)
			d.provider.Stop()
			must.ErrorContains(d, <-ended, want)
		}
		inProgress := func() bool {
			health, err := d.client.Jobs.Health(d.Context(), id)
			return err == nil && health.Jobs.InProgress == 1
		}
		maximum := func() int64 { return must.Do(d.client.Endpoints.GetFresh(d.Context(), id))(d).Workers.Max }
		interrupt("job_run", map[string]any{"endpoint_id": id, "input": `{"op":"sleep","ms":600000}`}, inProgress, "interrupted; it was cancelled")
		d.until("no job runs", func() bool { return !inProgress() })
		d.submit(id, `{"op":"sleep","ms":600000}`, "IN_PROGRESS")
		interrupt("endpoint_recycle_workers", map[string]any{"endpoint_id": id}, func() bool { return maximum() == 0 }, "interrupted")
		must.Equal(d, maximum(), 1, "the endpoint may", "workers")
	})
}
