package jobrunner_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// public lists the paths that need no key: the page without its data, and the metrics on a
// loopback address.
func public(path string) bool {
	return path == "/" || path == "/metrics" || strings.HasPrefix(path, "/ui/") && path != "/ui/snapshot" && path != "/ui/job" && path != "/ui/log" && path != "/ui/call"
}

// A request without a key changes nothing on any route. It is rejected unless the path is
// public, and the response has no secret.
func FuzzWithoutKey(f *testing.F) {
	j := must.Do(jobrunner.New(f.Context(), jobrunner.Config{APIKey: "planted-key", Logger: slog.New(slog.DiscardHandler), AdminClock: true, Profile: true}))(f)
	f.Cleanup(func() { _ = j.Close() })
	state := func(t testing.TB) string {
		var all strings.Builder
		for _, path := range []string{"/v1/templates", "/v2/serverless", "/v2/registries", "/v2/network-volumes"} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Authorization", "Bearer planted-key")
			j.Handler().ServeHTTP(w, r)
			must.Require(t, w.Code == http.StatusOK, path, w.Code, w.Body)
			all.WriteString(w.Body.String())
		}
		return all.String()
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v2/templates", strings.NewReader(`{"name":"the template","image":"i","env":{"A":"planted-value"}}`))
	r.Header.Set("Authorization", "Bearer planted-key")
	j.Handler().ServeHTTP(w, r)
	must.Require(f, w.Code == http.StatusCreated, w.Code, w.Body)
	_, id, _ := strings.Cut(w.Body.String(), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	was := state(f)
	fuzz.Run(f, func(t *testing.T, method, target, header, body string) {
		u, err := url.ParseRequestURI(strings.ReplaceAll(target, "$T", id))
		if _, refused := http.NewRequestWithContext(t.Context(), method, "/", nil); refused != nil || err != nil || strings.Contains(header, "planted-key") || strings.HasPrefix(u.Path, "/debug/pprof/") { // profiles take time, and are this machine's
			return
		}
		name, value, _ := strings.Cut(header, ":")
		r := &http.Request{Method: method, URL: u, Host: "127.0.0.1", Header: http.Header{http.CanonicalHeaderKey(name): {value}}, Body: http.NoBody, RemoteAddr: "127.0.0.1:1"}
		if body != "" {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}
		w := httptest.NewRecorder()
		j.Handler().ServeHTTP(w, r.WithContext(t.Context()))
		switch text := w.Body.String(); {
		case w.Code >= 500:
			t.Errorf("%s %q, %q, %q is answered %d %s", method, target, header, body, w.Code, text)
		case w.Code < 400 && !public(u.Path):
			t.Errorf("%s %q, %q, %q needs no key: %d %s", method, target, header, body, w.Code, text)
		case strings.Contains(text, "planted-") && !strings.Contains(target+header+body, "planted-"):
			t.Errorf("%s %q is answered with a secret: %s", method, target, text)
		}
		now := state(t)
		must.Require(t, now == was, method, target, header, body, "without a key changed", was, "to", now)
	},
		fuzz.Seed{"GET", "/v2/templates/$T", "", ""}, fuzz.Seed{"DELETE", "/v1/templates/$T", "Authorization: Bearer x", ""}, fuzz.Seed{"POST", "/v2/ep/run", "Authorization:", `{"input":{}}`},
		fuzz.Seed{"POST", "/live/v2/ep/runsync", "Cookie: gpucloud-page=x", `{"input":{}}`}, fuzz.Seed{"GET", "/ui/snapshot", "Cookie: gpucloud-page=x", ""}, fuzz.Seed{"POST", "/ui/session", "Origin: http://127.0.0.1", `{"key":"x"}`},
		fuzz.Seed{"POST", "/ui/call?endpoint=ep&op=run", "Sec-Fetch-Site: cross-site", `{}`}, fuzz.Seed{"POST", "/clock", "", `{"advance":1000}`}, fuzz.Seed{"GET", "/metrics", "", ""},
		fuzz.Seed{"GET", "/v2/ep/ping/w1?job_id=a", "Authorization: x", ""}, fuzz.Seed{"POST", "/v2/ep/job-done/w1/j", "Authorization: Bearer x", `{"output":1}`},
		fuzz.Seed{"PATCH", "/v2/templates/$T", "X-Forwarded-For: 127.0.0.1", `{"name":"x"}`}, fuzz.Seed{"GET", "/ui/../v2/templates/$T", "", ""}, fuzz.Seed{"GET", "//v2/templates", "", ""},
	)
}
