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

// deployed is a jobrunner in this process with a clock that is advanced, behind
// whatever wrap makes of it.
func deployed(t *testing.T, wrap func(http.Handler) http.Handler, configure ...func(*jobrunner.Config)) conformance.Target {
	t.Helper()
	dir := t.TempDir()
	target := conformance.Target{Key: "the-key-of-the-suite", Local: true, Unserved: conformance.Unserved()}
	for _, k := range []struct {
		name      string
		key       *string
		endpoints []string
	}{{"user", &target.UserKey, nil}, {"other", &target.OtherKey, []string{"nothing-of-ours"}}} {
		var err error
		if *k.key, err = apikey.At(dir).Add(k.name, k.endpoints); err != nil {
			t.Fatal(err)
		}
	}
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
	ask := func(ctx context.Context, body string) (time.Time, error) {
		return clock(ctx, j.Handler(), target.Key, body)
	}
	target.Advance = func(ctx context.Context, d time.Duration) (time.Time, error) {
		return ask(ctx, fmt.Sprintf(`{"advance":%d}`, max((d+time.Millisecond-1).Milliseconds(), 1)))
	}
	if _, err := ask(t.Context(), `{"stop":true}`); err != nil {
		t.Fatal(err)
	}
	target.ClockStopped = true
	return target
}

func clock(ctx context.Context, h http.Handler, key, body string) (time.Time, error) {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/clock", strings.NewReader(body))
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	var answer struct{ Now time.Time }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		return time.Time{}, fmt.Errorf("advancing the clock: %d %s", w.Code, w.Body)
	}
	return answer.Now, nil
}

func newCancel(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}
