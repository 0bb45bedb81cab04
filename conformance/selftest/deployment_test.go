package selftest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// newTarget creates the keys of a deployment in a directory.
func newTarget(t *testing.T) (target conformance.Target, dir string) {
	t.Helper()
	dir = t.TempDir()
	target = conformance.Target{Key: "the-key-of-the-suite", Local: true}
	target.UserKey = must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "user"}))(t)
	target.OtherKey = must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "other", Endpoints: []string{"nothing-of-ours"}}))(t)
	return target, dir
}

// startDeployment starts a jobrunner in this process, behind wrap. Only the suite advances its clock.
func startDeployment(t *testing.T, wrap func(http.Handler) http.Handler) conformance.Target {
	t.Helper()
	target, callClock := startRunningDeployment(t, wrap)
	must.Do(callClock(t.Context(), `{"stop":true}`))(t)
	target.ClockStopped = true
	return target
}

// startRunningDeployment starts a jobrunner whose clock runs. callClock sends a body to /clock and returns the time.
func startRunningDeployment(t *testing.T, wrap func(http.Handler) http.Handler) (_ conformance.Target, callClock func(ctx context.Context, body string) (time.Time, error)) {
	t.Helper()
	target, dir := newTarget(t)
	j := must.Do(jobrunner.New(context.Background(), jobrunner.Config{APIKey: target.Key, KeyDir: dir, AdminClock: true}))(t)
	t.Cleanup(func() { must.Succeed(t, j.Close()) })
	handler := j.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	target.BaseURL = startServer(t, handler)
	callClock = func(ctx context.Context, body string) (time.Time, error) {
		return askClock(ctx, j.Handler(), target.Key, body)
	}
	target.Advance = advanceWith(callClock)
	return target, callClock
}

// advanceWith returns a Target's Advance. callClock sends a body to /clock.
func advanceWith(callClock func(ctx context.Context, body string) (time.Time, error)) func(context.Context, time.Duration) (time.Time, error) {
	return func(ctx context.Context, d time.Duration) (time.Time, error) {
		return callClock(ctx, fmt.Sprintf(`{"advance":%d}`, max((d+time.Millisecond-1).Milliseconds(), 1)))
	}
}

// askClock sends a request to /clock and returns the deployment's time.
func askClock(ctx context.Context, h http.Handler, key, body string) (time.Time, error) {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/clock", strings.NewReader(body))
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	var answer struct{ Now time.Time }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		return time.Time{}, fmt.Errorf("POST /clock: %d %s", w.Code, w.Body)
	}
	return answer.Now, nil
}

func startServer(t *testing.T, h http.Handler) string {
	t.Helper()
	server := newServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// newServer starts a server with a jobrunner's listener, which doesn't reset connections that still send.
func newServer(h http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	listener := httplimit.Listen(server.Listener, httplimit.Config{})
	server.Listener, server.Config.ConnContext, server.Config.ConnState = listener, listener.ConnContext, listener.ConnState
	server.Start()
	return server
}

func intercept(matches func(*http.Request) bool, answer http.HandlerFunc) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if matches(r) {
				answer(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

func countRequests(requests *atomic.Int64) func(http.Handler) http.Handler {
	return intercept(func(*http.Request) bool { requests.Add(1); return false }, nil)
}

func pathHas(text string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.Contains(r.URL.Path, text) }
}

func forward(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a failed write shows in the verdicts
}

// serveInMemory serves a handler until stop is called, without sockets, as virtual time requires.
func serveInMemory(h http.Handler) (client *http.Client, stop func()) {
	transport, stop := pipenet.Serve(h)
	transport.MaxIdleConnsPerHost = 64
	return &http.Client{Transport: transport}, stop
}
