package jobrunner_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// A key has its rights at both APIs as soon as it is added, and none once it is removed.
func TestRightsOfKeys(t *testing.T) {
	dir := t.TempDir()
	d := deploy(t, dir)
	allowedEndpoint, otherEndpoint := d.createEndpoint(endpointWithoutWorkers("own")), d.createEndpoint(endpointWithoutWorkers("other"))
	file := apikey.FileIn(dir)
	keys := map[string]string{"own": "planted-key", "none": "", "wrong": "planted-keY"}
	for name, endpoints := range map[string][]string{"all": nil, "restricted": {allowedEndpoint}, "removed": nil} {
		keys[name] = must.Do(file.Add(apikey.Key{Name: name, Endpoints: endpoints}))(t)
	}
	status, _, _ := d.send(keys["removed"], "GET", "/v1/templates", "")
	must.Hold(t, status == 200, "a key that is about to be removed:", status)
	must.Succeed(t, file.Remove("removed"))
	names := []string{"own", "all", "restricted", "removed", "wrong", "none"}
	for _, c := range []struct {
		method, path, body string
		want               [6]int // with the keys of names
	}{
		{"GET", "/v1/templates", "", [6]int{200, 200, 403, 401, 401, 401}},
		{"GET", "/v2/templates", "", [6]int{200, 200, 403, 401, 401, 401}},
		{"GET", "/v1/endpoints/" + allowedEndpoint, "", [6]int{200, 200, 403, 401, 401, 401}},
		{"GET", "/v2/serverless/" + allowedEndpoint, "", [6]int{200, 200, 403, 401, 401, 401}},
		{"DELETE", "/v2/serverless/nowhere", "", [6]int{404, 404, 403, 401, 401, 401}},
		{"POST", "/v2/network-volumes", "{", [6]int{400, 400, 403, 401, 401, 401}},
		{"GET", "/v2/nothing", "", [6]int{404, 404, 403, 401, 401, 401}},
		{"GET", "/v2/" + allowedEndpoint + "/health", "", [6]int{200, 200, 200, 401, 401, 401}},
		{"GET", "/v2/" + otherEndpoint + "/health", "", [6]int{200, 200, 403, 401, 401, 401}},
		{"GET", "/v2/nowhere/health", "", [6]int{404, 404, 404, 401, 401, 401}},
		{"POST", "/v2/" + allowedEndpoint + "/run", `{"input":{}}`, [6]int{200, 200, 200, 401, 401, 401}},
		{"POST", "/v2/" + otherEndpoint + "/run", `{"input":{}}`, [6]int{200, 200, 403, 401, 401, 401}},
		{"POST", "/v2/nowhere/run", `{"input":{}}`, [6]int{404, 404, 404, 401, 401, 401}},
		{"GET", "/v2/" + allowedEndpoint + "/status/x", "", [6]int{404, 404, 404, 401, 401, 401}},
		{"GET", "/v2/" + otherEndpoint + "/status/x", "", [6]int{404, 404, 403, 401, 401, 401}},
	} {
		for i, name := range names {
			status, header, _ := d.send(keys[name], c.method, c.path, c.body)
			must.Hold(t, status == c.want[i] && strings.Contains(header.Get("Content-Type"), "json"),
				c.method, c.path, "with the key", name, status, "of type", header.Get("Content-Type"), "want", c.want[i])
		}
	}
	for id, jobs := range map[string]int64{allowedEndpoint: 3, otherEndpoint: 2} {
		h := must.Do(d.client(api.V2).Jobs.Health(t.Context(), id))(t)
		must.Hold(t, int64(h.Jobs.InQueue) == jobs, "health is", h)
	}
	for name, key := range keys {
		must.Hold(t, key == "" || !strings.Contains(d.log.String(), key), "the log has the key", name)
	}
}

// A key's scopes apply at each API, the page and the clock. An expired key has no rights.
func TestScopesOfKeys(t *testing.T) {
	dir := t.TempDir()
	d := deployWith(t, jobrunner.Config{DataDir: dir, AdminClock: true, Remote: true})
	endpoint := d.createEndpoint(endpointWithoutWorkers("scoped"))
	keys := map[string]string{}
	for name, key := range map[string]apikey.Key{
		"reads":   {Management: apikey.Read, Jobs: apikey.Read},
		"jobs":    {Management: apikey.None},
		"objects": {Jobs: apikey.None},
		"expires": {Expires: time.Now().Add(time.Hour)},
	} {
		key.Name = name
		keys[name] = must.Do(apikey.FileIn(dir).Add(key))(t)
	}
	jobAPI := "/v2/" + endpoint
	for _, c := range []struct {
		method, path, body string
		want               [4]int // with reads, jobs, objects, expires
	}{
		{"GET", "/v2/serverless", "", [4]int{200, 403, 200, 200}},
		{"GET", "/v1/endpoints", "", [4]int{200, 403, 200, 200}},
		{"POST", "/v2/templates", "{}", [4]int{403, 403, 422, 422}},
		{"PUT", "/v2/account/ssh-keys", "{}", [4]int{403, 403, 422, 422}},
		{"TRACE", "/v1/docs", "", [4]int{405, 403, 405, 405}},
		{"DELETE", "/v1/nothing", "", [4]int{404, 403, 404, 404}},
		{"PATCH", "/v1/templates/none", "{}", [4]int{403, 403, 404, 404}},
		{"DELETE", "/v2/templates/none", "", [4]int{403, 403, 404, 404}},
		{"GET", jobAPI + "/health?ttl=20000", "", [4]int{200, 200, 403, 200}},
		{"GET", jobAPI + "/requests", "", [4]int{200, 200, 403, 200}},
		{"GET", jobAPI + "/status/none?ttl=", "", [4]int{404, 404, 403, 404}},
		{"GET", jobAPI + "/status/none?ttl=20000", "", [4]int{403, 404, 403, 404}},
		{"GET", jobAPI + "/stream/none", "", [4]int{403, 404, 403, 404}},
		{"POST", jobAPI + "/run", `{"input":{}}`, [4]int{403, 200, 403, 200}},
		{"POST", jobAPI + "/purge-queue", "", [4]int{403, 200, 403, 200}},
		{"GET", "/metrics", "", [4]int{200, 403, 200, 200}},
		{"GET", "/clock", "", [4]int{200, 403, 200, 200}},
		{"POST", "/clock", "{}", [4]int{403, 403, 400, 400}},
		{"GET", "/ui/snapshot", "", [4]int{200, 401, 401, 200}},
		{"POST", "/ui/call?endpoint=" + endpoint + "&op=run", `{"input":{}}`, [4]int{403, 401, 401, 200}},
		{"POST", "/ui/call?endpoint=" + endpoint + "&op=status&id=none", "", [4]int{404, 401, 401, 404}},
	} {
		for i, name := range []string{"reads", "jobs", "objects", "expires"} {
			status, _, _ := d.send(keys[name], c.method, c.path, c.body)
			must.Hold(t, status == c.want[i], c.method, c.path, "with the key", name, status, "expected", c.want[i])
		}
	}
	status, _, _ := d.send("planted-key", "POST", "/clock", `{"advance":3600000}`)
	must.Require(t, status == 200, "advancing the clock:", status)
	for _, path := range []string{"/v2/serverless", jobAPI + "/health", "/metrics", "/ui/snapshot"} {
		status, _, _ := d.send(keys["expires"], "GET", path, "")
		must.Hold(t, status == 401, path, "with an expired key:", status, "expected 401")
	}
}

// By default the job API has limits, and the management API has none.
func TestLimitsOfADeployment(t *testing.T) {
	for _, c := range []struct {
		config   jobrunner.Config
		rejected int
	}{{jobrunner.Config{}, 1}, {jobrunner.Config{NoJobLimits: true}, 0}} {
		d := deployWith(t, c.config)
		id := d.createEndpoint(endpointWithoutWorkers("never"))
		rejected := 0
		for range 52 {
			if status, _, _ := d.send("planted-key", "POST", "/v2/"+id+"/run", `{"input":{}}`); status == 429 {
				rejected++
			}
		}
		must.Equal(t, rejected, c.rejected, "rejected jobs of 52 with", c.config)
		for range 70 {
			status, _, _ := d.send("planted-key", "GET", "/v2/templates", "")
			must.Require(t, status == 200, c.config, "the management API answers", status)
		}
	}
	dir := t.TempDir()
	otherKey := must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "other"}))(t)
	d := deployWith(t, jobrunner.Config{DataDir: dir, ManagementLimits: true})
	for n := range 61 {
		status, _, _ := d.send("planted-key", "GET", "/v2/templates", "")
		must.Hold(t, (status == 429) == (n == 60), "request", n, "with limits of the management API:", status)
	}
	status, _, _ := d.send(otherKey, "GET", "/v2/templates", "")
	must.Hold(t, status == 200, "another user is limited:", status)
}

// isPublic reports whether a path needs no key: the page's files and sign-in, probes, or metrics on loopback.
func isPublic(path string) bool {
	return slices.Contains([]string{"/", "/metrics", "/healthz", "/readyz", "/ui/session"}, path) || strings.HasPrefix(path, "/ui/") && strings.Contains(path, ".")
}

// A request without a key changes nothing, is rejected on all but public paths, and gets no secret.
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
			must.Require(t, w.Code == http.StatusOK, "GET", path, "is answered", w.Code, w.Body)
			all.WriteString(w.Body.String())
		}
		return all.String()
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v2/templates", strings.NewReader(`{"name":"the template","image":"i","env":{"A":"planted-value"}}`))
	r.Header.Set("Authorization", "Bearer planted-key")
	j.Handler().ServeHTTP(w, r)
	must.Require(f, w.Code == http.StatusCreated, "creating the template is answered", w.Code, w.Body)
	_, id, _ := strings.Cut(w.Body.String(), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	before := state(f)
	fuzz.Run(f, func(t *testing.T, method, target, header, body string) {
		u, err := url.ParseRequestURI(strings.ReplaceAll(target, "$T", id))
		if _, methodErr := http.NewRequestWithContext(t.Context(), method, "/", nil); methodErr != nil || err != nil || strings.Contains(header, "planted-key") || strings.HasPrefix(u.Path, "/debug/pprof/") { // profiles take time, and are this machine's
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
		case w.Code < 400 && !isPublic(u.Path):
			t.Errorf("%s %q, %q, %q needs no key: %d %s", method, target, header, body, w.Code, text)
		case strings.Contains(text, "planted-") && !strings.Contains(target+header+body, "planted-"):
			t.Errorf("%s %q is answered with a secret: %s", method, target, text)
		}
		after := state(t)
		must.Require(t, after == before, method, target, header, body, "without a key changed", before, "to", after)
	},
		fuzz.Seed{"GET", "/v2/templates/$T", "", ""}, fuzz.Seed{"DELETE", "/v1/templates/$T", "Authorization: Bearer x", ""}, fuzz.Seed{"POST", "/v2/ep/run", "Authorization:", `{"input":{}}`},
		fuzz.Seed{"POST", "/live/v2/ep/runsync", "Cookie: gpucloud-page=x", `{"input":{}}`}, fuzz.Seed{"GET", "/ui/snapshot", "Cookie: gpucloud-page=x", ""}, fuzz.Seed{"POST", "/ui/session", "Origin: http://127.0.0.1", `{"key":"x"}`},
		fuzz.Seed{"POST", "/ui/call?endpoint=ep&op=run", "Sec-Fetch-Site: cross-site", `{}`}, fuzz.Seed{"POST", "/clock", "", `{"advance":1000}`}, fuzz.Seed{"GET", "/metrics", "", ""}, fuzz.Seed{"GET", "/healthz", "", ""}, fuzz.Seed{"GET", "/ui/node", "", ""},
		fuzz.Seed{"GET", "/v2/ep/ping/w1?job_id=a", "Authorization: x", ""}, fuzz.Seed{"POST", "/v2/ep/job-done/w1/j", "Authorization: Bearer x", `{"output":1}`},
		fuzz.Seed{"PATCH", "/v2/templates/$T", "X-Forwarded-For: 127.0.0.1", `{"name":"x"}`}, fuzz.Seed{"GET", "/ui/../v2/templates/$T", "", ""}, fuzz.Seed{"GET", "//v2/templates", "", ""},
	)
}
