package selftest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// newTarget creates the keys of a deployment in a directory.
func newTarget(t *testing.T) (target conformance.Target, dir string) {
	t.Helper()
	dir = t.TempDir()
	target = conformance.Target{Key: "the-key-of-the-suite", Local: true, Unserved: conformance.Unserved()}
	for _, k := range []struct {
		name      string
		key       *string
		endpoints []string
	}{{"user", &target.UserKey, nil}, {"other", &target.OtherKey, []string{"nothing-of-ours"}}} {
		var err error
		if *k.key, err = apikey.At(dir).Add(apikey.Key{Name: k.name, Endpoints: k.endpoints}); err != nil {
			t.Fatal(err)
		}
	}
	return target, dir
}

// startDeployment starts a jobrunner in this process, with wrap as a middleware. Only the
// suite advances its clock.
func startDeployment(t *testing.T, wrap func(http.Handler) http.Handler, configure ...func(*jobrunner.Config)) conformance.Target {
	t.Helper()
	target := startRunningDeployment(t, wrap, configure...)
	if err := target.stopClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	target.ClockStopped = true
	return target.Target
}

// runningDeployment is a deployment whose clock runs and can also be advanced.
type runningDeployment struct {
	conformance.Target
	stopClock func(context.Context) error
}

func startRunningDeployment(t *testing.T, wrap func(http.Handler) http.Handler, configure ...func(*jobrunner.Config)) runningDeployment {
	t.Helper()
	target, dir := newTarget(t)
	config := jobrunner.Config{APIKey: target.Key, KeyDir: dir, AdminClock: true}
	for _, change := range configure {
		change(&config)
	}
	j, err := jobrunner.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	handler := j.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	target.BaseURL = server.URL
	callClock := func(ctx context.Context, body string) (time.Time, error) {
		return postClock(ctx, j.Handler(), target.Key, body)
	}
	target.Advance = func(ctx context.Context, d time.Duration) (time.Time, error) {
		return callClock(ctx, fmt.Sprintf(`{"advance":%d}`, max((d+time.Millisecond-1).Milliseconds(), 1)))
	}
	return runningDeployment{target, func(ctx context.Context) error {
		_, err := callClock(ctx, `{"stop":true}`)
		return err
	}}
}

// postClock sends a body to /clock and returns the deployment's time.
func postClock(ctx context.Context, h http.Handler, key, body string) (time.Time, error) {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/clock", strings.NewReader(body))
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	var answer struct{ Now time.Time }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		return time.Time{}, fmt.Errorf("can't advance the clock: %d %s", w.Code, w.Body)
	}
	return answer.Now, nil
}

// cancellableContext returns a context that is cancelled at the end of the test at the latest.
func cancellableContext(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}
