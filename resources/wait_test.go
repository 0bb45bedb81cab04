package resources_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func waitFor(condition map[string]any, timeout string) map[string]any {
	return map[string]any{"wait_for": condition, "timeouts": map[string]any{"create": timeout, "update": timeout}}
}

func TestPodWaitsUntilItRuns(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		config := cpuPod(waitFor(map[string]any{"running": true}, "5m"))
		state := apply(t, p, podType, tfdrive.State{}, config, "create")
		got := podOf(t, d, state)
		must.Hold(t, got.Status == "RUNNING" && state.Get("status") == "RUNNING" && state.Get("runtime") != nil,
			"it is", got.Status, "and the state says", state.Get("status"))
		state = apply(t, p, podType, state, withChanges(config, map[string]any{"env": map[string]any{"A": "b"}}), "update")
		must.Equal(t, podOf(t, d, state).Status, "RUNNING", "the pod's status after an update")
	})
}

// A failed wait's error has the reason, advice and the pod's last lines, without its variables. A cluster's has
// the number of running pods, and one failed pod. The object is in the state.
func TestFailedWaits(t *testing.T) {
	t.Parallel()
	_, pods := deploy(t)
	clusters := drive(t, deployWithGPUs(t), api.V2)
	running := func(timeout string, changes map[string]any) map[string]any {
		return withChanges(waitFor(map[string]any{"running": true}, timeout), changes)
	}
	for name, c := range map[string]struct {
		p        *tfdrive.Provider
		typeName string
		config   map[string]any
		text     []string
	}{
		"no GPU is there": {pods, podType, gpuPod(running("300ms", nil)), []string{"not reached within 300ms", "it is PROVISIONING: "}},
		"it ends": {
			pods, podType, cpuPod(running("5m", map[string]any{"args": "print 'the model is not there' env SECRET env WRITTEN exit 3", "env": map[string]any{"SECRET": "a-planted-secret"}, "env_wo": map[string]any{"WRITTEN": "a-planted-secret-too"}, "env_wo_version": 1})),
			[]string{"more time would not help: it is ERROR", "The last lines of the pod:", "the model is not there", "[redacted]"},
		},
		"its port is not published": {
			pods, podType, cpuPod(withChanges(waitFor(map[string]any{"port": 8000}, "300ms"), map[string]any{"ports": []any{"8000/tcp"}})), []string{"port 8000", "not reached within 300ms"},
		},
		"a GPU is missing": {
			clusters, clusterType, clusterConfig(running("2s", map[string]any{"compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 3}})),
			[]string{"not reached within 2s: ", " of 3 pods run; pod ", "(rank ", "it is PROVISIONING: "},
		},
		"its pods end": {
			clusters, clusterType, clusterConfig(running("5m", map[string]any{"args": "print 'the model is not there' env SECRET exit 3", "env": map[string]any{"SECRET": "a-planted-secret"}})),
			[]string{"more time would not help: ", "it is ERROR", "The last lines of pod ", "the model is not there", "[redacted]"},
		},
	} {
		// The first poll may find the pods running shortly before they end.
		for range 20 {
			state, diags := c.p.Reconfigure().Apply(c.p.Plan(c.typeName, tfdrive.State{}, c.config))
			must.Require(t, state.Exists(), name, "the object is not in the state", diags)
			err := diags.Err()
			must.Succeed(t, c.p.Destroy(state).Err())
			if err == nil && (name == "it ends" || name == "its pods end") {
				continue
			}
			// On a busy machine, the deployment may report the reason later.
			if name == "no GPU is there" && err != nil && !strings.Contains(err.Error(), "it is PROVISIONING: ") {
				continue
			}
			must.ErrorContains(t, err, append(c.text, "untaint")...)
			must.Hold(t, err == nil || !strings.Contains(err.Error(), "a-planted-secret"), name, "the error has a secret")
			break
		}
	}
}

func TestWaitPlan(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	noState := tfdrive.State{}
	expectRejection(t, d, p, noState, podType, cpuPod(withChanges(waitFor(map[string]any{"running": true}, "1m"), map[string]any{"desired_state": "EXITED"})), "wait_for", "conflicts with desired_state")
	expectRejection(t, d, p, noState, podType, cpuPod(waitFor(map[string]any{"port": 80}, "1m")), "wait_for.port", `such as "80/tcp"`)
	expectRejection(t, d, p, noState, podType, cpuPod(map[string]any{"timeouts": map[string]any{"create": "soon"}}), "timeouts.create", "expected a duration")
	endpoint := map[string]any{"name": "e", "image": "i"}
	expectRejection(t, d, p, noState, "gpucloud_endpoint", withChanges(endpoint, waitFor(map[string]any{"worker": true}, "1m")), "wait_for.worker", "workers.min of at least 1")
}

// An endpoint's apply waits for a ready worker and the newest rollout. It fails if no worker becomes ready.
func TestEndpointWaits(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := withChanges(map[string]any{"name": "e", "image": "builtin/echo", "workers": map[string]any{"min": 1, "max": 1}}, waitFor(map[string]any{"rollout": true, "worker": true}, "5m"))
	state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, config, "create")
	expectReady := func() {
		t.Helper()
		got, err := d.Client(t, api.V2).EndpointReleases(t.Context(), state.Get("id").(string))
		must.Hold(t, err == nil && !got.Rollout.InProgress, "the rollout goes on", got.Rollout, err)
		workers, err := d.Client(t, api.V2).EndpointWorkers(t.Context(), state.Get("id").(string))
		must.Hold(t, err == nil && workers.Summary.Idle+workers.Summary.Running != 0, "no worker is ready", workers.Summary, err)
	}
	expectReady()
	state = apply(t, p, "gpucloud_endpoint", state, withChanges(config, map[string]any{"env": map[string]any{"A": "b"}}), "update")
	expectReady()
	_, diags := p.Reconfigure().Apply(p.Plan("gpucloud_endpoint", state, withChanges(config, withChanges(waitFor(map[string]any{"worker": true}, "300ms"), map[string]any{"image": "nothing/runs-this"}))))
	must.ErrorContains(t, diags.Err(), "The object is updated. An apply without a change doesn't wait.")

	planned := p.Plan("gpucloud_endpoint", tfdrive.State{}, withChanges(config, withChanges(waitFor(map[string]any{"worker": true}, "300ms"), map[string]any{"name": "no image", "image": "nothing/runs-this"})))
	failed, diags := p.Reconfigure().Apply(planned)
	must.ErrorContains(t, diags.Err(), "to be ready: not reached within 300ms")
	must.Succeed(t, p.Destroy(failed).Err())
}

// A port is open when something accepts connections there.
func TestPodWaitsForItsPort(t *testing.T) {
	t.Parallel()
	listener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	// The built-in images of the jobrunner listen on no ports, so responses publish the listener's.
	d := rewriteResponses(t, acctest.Deploy(t), func(_, body string) string {
		return strings.ReplaceAll(body, `"public":null,"type":"tcp","ip":null`, fmt.Sprintf(`"public":%d,"type":"tcp","ip":"127.0.0.1"`, listener.Addr().(*net.TCPAddr).Port))
	})
	p := drive(t, d, api.V2)
	state := apply(t, p, podType, tfdrive.State{}, cpuPod(withChanges(waitFor(map[string]any{"port": 8000}, "5m"), map[string]any{"ports": []any{"8000/tcp"}})), "create")
	must.Equal(t, state.Get("status"), "RUNNING", "the pod's status")
	listener.Close()
	// The pod already runs, but its port is closed.
	must.ErrorContains(t, tfdrive.Err(p.Reconfigure().Apply(p.Plan(podType, state, cpuPod(withChanges(waitFor(map[string]any{"port": 8000}, "500ms"), map[string]any{"name": "q", "ports": []any{"8000/tcp"}}))))), "does not accept connections")
}

// rewriteResponses puts a proxy in front of the deployment that rewrites JSON responses.
func rewriteResponses(t *testing.T, d *acctest.Deployment, rewrite func(path, body string) string) *acctest.Deployment {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(must.Do(url.Parse(d.URL))(t))
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Header.Get("Content-Type") != "application/json" { // the response may be a log stream, which doesn't end
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		rewritten := rewrite(r.Request.URL.Path, string(body))
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(rewritten)), int64(len(rewritten))
		r.Header.Set("Content-Length", strconv.Itoa(len(rewritten)))
		return nil
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	d.URL = front.URL
	return d
}

// deployWithGPUs returns a deployment with simulated GPUs, on which the pods of clusters run.
func deployWithGPUs(t *testing.T) *acctest.Deployment {
	t.Helper()
	inventory := must.Do(gpu.Simulate("l4x2", slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	return acctest.DeployWith(t, func(c *jobrunner.Config) { c.GPUs = inventory })
}

// The apply of a cluster returns when all its pods run.
func TestClusterWaits(t *testing.T) {
	t.Parallel()
	p := drive(t, deployWithGPUs(t), api.V2)
	config := clusterConfig(waitFor(map[string]any{"running": true}, "5m"))
	state := apply(t, p, clusterType, tfdrive.State{}, config, "create")
	got := state.Get("pods.by_status")
	must.Hold(t, reflect.DeepEqual(got, map[string]any{"RUNNING": 2.0}) && state.Get("primary.status") == "RUNNING",
		"pods", got, "primary", state.Get("primary"))
	state = apply(t, p, clusterType, state, withChanges(config, map[string]any{"name": "renamed"}), "update")
	must.Hold(t, state.Get("name") == "renamed", "it is", state.Get("name"))
}

// The apply of a cluster waits even if only one of its pods doesn't run.
func TestClusterWaitsForEveryPod(t *testing.T) {
	t.Parallel()
	d := rewriteResponses(t, deployWithGPUs(t), func(path, body string) string {
		last := strings.LastIndex(body, `"status":"RUNNING"`)
		if !strings.HasPrefix(path, "/v2/clusters/") || !strings.HasSuffix(path, "/pods") || last < 0 {
			return body
		}
		return body[:last] + strings.Replace(body[last:], "RUNNING", "STARTING", 1)
	})
	p := drive(t, d, api.V2)
	state, diags := p.Reconfigure().Apply(p.Plan(clusterType, tfdrive.State{}, clusterConfig(waitFor(map[string]any{"running": true}, "3s"))))
	must.ErrorContains(t, diags.Err(), "1 of 2 pods run; pod ", "it is STARTING")
	must.Succeed(t, p.Destroy(state).Err())
}

// interceptor is a transport that may answer a request itself.
type interceptor func(*http.Request) (*http.Response, error)

func (intercept interceptor) RoundTrip(r *http.Request) (*http.Response, error) {
	if resp, err := intercept(r); resp != nil || err != nil {
		return resp, err
	}
	return http.DefaultTransport.RoundTrip(r)
}

// createWaiting creates an endpoint with wait_for. The provider sends through the interceptor.
func createWaiting(t *testing.T, d *acctest.Deployment, condition map[string]any, image, timeout string, intercept interceptor) (tfdrive.State, error) {
	t.Helper()
	p := tfdrive.Start(t, provider.NewWithTransport("test", intercept)(), d.Settings(api.V2))
	config := withChanges(map[string]any{"name": "e", "image": image, "workers": map[string]any{"min": 1, "max": 1}}, waitFor(condition, timeout))
	planned := p.Plan("gpucloud_endpoint", tfdrive.State{}, config)
	must.Succeed(t, planned.Diagnostics.Err())
	state, diags := p.Reconfigure().Apply(planned)
	return state, diags.Err()
}

// Waiting for the rollout and then for a worker takes no longer than the limit.
func TestLimitOfTwoWaits(t *testing.T) {
	t.Parallel()
	var began time.Time
	_, err := createWaiting(t, acctest.Deploy(t), map[string]any{"rollout": true, "worker": true}, "nothing/runs-this", "2s", func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/workers") && !strings.HasSuffix(r.URL.Path, "/releases") {
			return nil, nil
		} else if began.IsZero() {
			began = time.Now()
		}
		w := httptest.NewRecorder()
		fmt.Fprintf(w, `{"workers":[],"summary":{},"releases":[],"rollout":{"inProgress":%t}}`, time.Since(began) < time.Second)
		return w.Result(), nil
	})
	must.ErrorContains(t, err, "to be ready: not reached within 2s")
	must.Hold(t, time.Since(began) < 3*time.Second, "took", time.Since(began))
}

// A wait goes on while the deployment can't be reached for some seconds.
func TestWaitOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	var outageEnd atomic.Int64 // in ns
	_, err := createWaiting(t, d, map[string]any{"worker": true}, "builtin/echo", "2m", func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/workers") && outageEnd.Load() == 0 {
			outageEnd.Store(time.Now().Add(3 * time.Second).UnixNano())
		}
		if time.Now().UnixNano() < outageEnd.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return nil, nil
	})
	must.Hold(t, err == nil, "the wait ended", err)
}

// If an endpoint is deleted elsewhere during a wait, the error doesn't suggest to untaint it.
func TestWaitForDeletedEndpoint(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	var polls atomic.Int64
	_, err := createWaiting(t, d, map[string]any{"worker": true}, "nothing/runs-this", "2m", func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/workers") || polls.Add(1) != 2 {
			return nil, nil
		}
		return nil, d.Client(t, api.V2).Endpoints.Delete(t.Context(), strings.Split(r.URL.Path, "/")[3])
	})
	must.Hold(t, err != nil && strings.Contains(err.Error(), "it was deleted meanwhile") && strings.Contains(err.Error(), "creates it again") && !strings.Contains(err.Error(), "untaint"),
		"got", err)
}

// The reason and the log in an error belong to the same worker, and the advice fits the reason.
func TestWaitShowsOneWorker(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	response := func(code int, contentType, body string) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
		return w.Result(), nil
	}
	const worker = `{"id":"%s","status":"%s","reason":%s,"isStale":false,"gpuCount":0}`
	slow, throttled, failed := fmt.Sprintf(worker, "slow", "INITIALIZING", `null`), fmt.Sprintf(worker, "waits", "THROTTLED", `"no GPU is free"`), fmt.Sprintf(worker, "fails", "UNHEALTHY", `"exit status 3"`)
	for name, c := range map[string]struct {
		first, later string // the workers of the first poll and of later polls
		gone         string // a worker without a log
		want         []string
	}{
		"one fails":          {failed + "," + throttled + "," + slow, failed + "," + throttled + "," + slow, "", []string{"worker fails: exit status 3", "Look at why it fails", "The last lines of worker fails"}},
		"another order":      {slow + "," + throttled + "," + failed, slow + "," + throttled + "," + failed, "", []string{"worker fails: exit status 3", "Look at why it fails", "The last lines of worker fails"}},
		"its successor":      {failed, slow, "", []string{"worker fails: exit status 3", "Look at why it fails", "The last lines of worker fails"}},
		"its log is gone":    {failed, throttled, "fails", []string{"Look at why it fails", "worker waits: no GPU is free", "The last lines of worker waits"}},
		"one waits":          {slow + "," + throttled, slow + "," + throttled, "", []string{"worker waits: no GPU is free", "raise timeouts", "The last lines of worker waits"}},
		"none has a reason":  {slow, slow, "", []string{"0 unhealthy", "raise timeouts", "The last lines of worker slow"}},
		"there is no worker": {"", "", "", []string{"raise timeouts", "The endpoint has no worker"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var polls atomic.Int64
			_, err := createWaiting(t, d, map[string]any{"worker": true}, "nothing/runs-this", "1s", func(r *http.Request) (*http.Response, error) {
				path := strings.Split(r.URL.Path, "/")
				switch last := path[len(path)-1]; {
				case last == "workers":
					workers := c.later
					if polls.Add(1) == 1 {
						workers = c.first
					}
					unhealthy := strings.Count(workers, "UNHEALTHY")
					return response(200, "application/json", fmt.Sprintf(`{"workers":[%s],"summary":{"unhealthy":%d}}`, workers, unhealthy))
				case last == "logs" && path[len(path)-2] == c.gone:
					return response(404, "application/problem+json", `{"title":"Not Found","status":404,"detail":"no such worker"}`)
				case last == "logs":
					return response(200, "text/event-stream", "data: {\"ts\":\"2026-11-24T00:00:00Z\",\"text\":\"a line of "+path[len(path)-2]+"\",\"message\":\"a line of "+path[len(path)-2]+"\"}\n\n")
				}
				return nil, nil
			})
			must.Require(t, err != nil, "the wait succeeded")
			must.Contain(t, err.Error(), c.want...)
		})
	}
}
