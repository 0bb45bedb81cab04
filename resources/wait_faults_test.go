package resources_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// meddler is a transport that may answer a request itself.
type meddler func(*http.Request) (*http.Response, error)

func (m meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if resp, err := m(r); resp != nil || err != nil {
		return resp, err
	}
	return http.DefaultTransport.RoundTrip(r)
}

// createWaiting starts to create an endpoint that waits for a worker, through a transport.
func createWaiting(t *testing.T, d *acctest.Deployment, image, timeout string, m meddler) (tfdrive.State, error) {
	t.Helper()
	p := tfdrive.Start(t, provider.Through("test", m)(), d.Settings(api.V2))
	config := with(map[string]any{"name": "e", "image": image, "workers": map[string]any{"min": 1, "max": 1}}, waits(map[string]any{"worker": true}, timeout))
	planned := p.Plan("gpucloud_endpoint", tfdrive.State{}, config)
	must.Succeed(t, planned.Diagnostics.Err())
	state, diags := p.Walk().Apply(planned)
	return state, diags.Err()
}

// A wait goes on while the deployment can't be reached for some seconds.
func TestWaitOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	var until atomic.Int64 // the end of the outage, in ns
	_, err := createWaiting(t, d, "builtin/echo", "2m", func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/workers") && until.Load() == 0 {
			until.Store(time.Now().Add(3 * time.Second).UnixNano())
		}
		if time.Now().UnixNano() < until.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return nil, nil
	})
	must.Hold(t, err == nil, "the wait ended", err)
}

// If an endpoint is deleted elsewhere during a wait, the error doesn't suggest to untaint it.
func TestWaitForWhatWasDeleted(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	var looks atomic.Int64
	_, err := createWaiting(t, d, "nothing/runs-this", "2m", func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/workers") || looks.Add(1) != 2 {
			return nil, nil
		}
		id := strings.Split(r.URL.Path, "/")[3]
		return nil, d.Client(t, api.V2).Endpoints.Delete(t.Context(), id)
	})
	if err == nil || !strings.Contains(err.Error(), "it was deleted meanwhile") || !strings.Contains(err.Error(), "creates it again") || strings.Contains(err.Error(), "untaint") {
		t.Errorf("got %v", err)
	}
}

// The reason and the log in an error belong to the same worker, and the advice fits the reason.
func TestWaitShowsOneWorker(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	answer := func(code int, contentType, body string) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
		return w.Result(), nil
	}
	const worker = `{"id":"%s","status":"%s","reason":%s,"isStale":false,"gpuCount":0}`
	slow, throttled, failed := fmt.Sprintf(worker, "slow", "INITIALIZING", `null`), fmt.Sprintf(worker, "waits", "THROTTLED", `"no GPU is free"`), fmt.Sprintf(worker, "fails", "UNHEALTHY", `"exit status 3"`)
	for name, c := range map[string]struct {
		first, then string // the workers of the first poll and of later polls
		gone        string // a worker without a log
		want        []string
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
			var looks atomic.Int64
			_, err := createWaiting(t, d, "nothing/runs-this", "1s", func(r *http.Request) (*http.Response, error) {
				path := strings.Split(r.URL.Path, "/")
				switch last := path[len(path)-1]; {
				case last == "workers":
					workers := c.then
					if looks.Add(1) == 1 {
						workers = c.first
					}
					unhealthy := strings.Count(workers, "UNHEALTHY")
					return answer(200, "application/json", fmt.Sprintf(`{"workers":[%s],"summary":{"unhealthy":%d}}`, workers, unhealthy))
				case last == "logs" && path[len(path)-2] == c.gone:
					return answer(404, "application/problem+json", `{"title":"Not Found","status":404,"detail":"no such worker"}`)
				case last == "logs":
					return answer(200, "text/event-stream", "data: {\"ts\":\"2026-11-24T00:00:00Z\",\"text\":\"a line of "+path[len(path)-2]+"\",\"message\":\"a line of "+path[len(path)-2]+"\"}\n\n")
				}
				return nil, nil
			})
			if err == nil {
				t.Fatal("the wait succeeded")
			}
			must.Contain(t, err.Error(), c.want...)
		})
	}
}
