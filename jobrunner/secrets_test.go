package jobrunner_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// Whatever clients send that is secret is in no line of the log, also where what
// they send is refused.
func TestLogHasNoSecret(t *testing.T) {
	d := deployWith(t, jobrunner.Config{DataDir: t.TempDir()})
	_, _, endpoint := d.do("POST", "/v2/serverless", `{"name":"e","image":"builtin/echo","env":{"TOKEN":"planted-env"}}`)
	_, id, _ := strings.Cut(endpoint, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v2/registries", `{"name":"r","username":"u","password":"planted-password"}`},
		{"POST", "/v2/registries", `{"name":"r","username":"u","password":"planted-password"}`},
		{"POST", "/v1/containerregistryauth", `{"password":{"planted-password":1}}`},
		{"POST", "/v1/templates", `{"name":"t","imageName":"i","env":{"TOKEN":["planted-env"]}}`},
		{"GET", "/v2/templates?api_key=planted-query", ""},
		{"POST", "/v2/" + id + "/runsync?key=planted-query", `{"input":{"token":"planted-input"},"s3Config":{"accessSecret":"planted-s3"},"webhook":"http://127.0.0.1:1/?token=planted-hook"}`},
		{"POST", "/v2/" + id + "/run", `{"input":{},"webhook":"http://user:planted-hook@10.0.0.1/planted-hook"}`},
		{"POST", "/v2/" + id + "/run", `{"input":"planted-input"`},
		{"POST", "/v2/" + id + "/job-done/w/j?token=planted-query", `{"output":"planted-input"}`},
		{"POST", "/ui/session", `{"key":"planted-key"}`},
		{"POST", "/ui/session", `{"key":"planted-other-key"}`},
	} {
		d.do(r.method, r.path, r.body)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/v2/templates", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Basic planted-wrong-key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if text := d.awaitLog("/runsync", 1); strings.Contains(text, "planted-") || !strings.Contains(text, "/runsync") {
		t.Errorf("the log says\n%s", text)
	}
}

// No route allows a browser to show its answers to another site's page.
func TestNoOtherSiteReads(t *testing.T) {
	d := deployWith(t, jobrunner.Config{AdminClock: true, Remote: true})
	for _, path := range []string{"/", "/ui/snapshot", "/ui/session", "/metrics", "/clock", "/v1/templates", "/v2/templates", "/v2/ep/run", "/live/v2/ep/run", "/v2/ep/job-take/w"} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"Authorization": "Bearer planted-key", "Origin": "https://evil.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"} {
				req.Header.Set(name, value)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			for name := range resp.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: %s is %s", method, path, name, resp.Header.Get(name))
				}
			}
		}
	}
}

// A name that leads to this machine from a site of others shows its scripts
// nothing: neither profiles nor metrics nor the page.
func TestNamesOfOthersAreRefused(t *testing.T) {
	d := deployWith(t, jobrunner.Config{Profile: true})
	for _, path := range []string{"/", "/ui/snapshot", "/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
		for host, want := range map[string]bool{"evil.example": false, "evil.example:8420": false, "127.0.0.1.evil.example": false, "": true} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", d.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host // "": that of the address
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if (resp.StatusCode != http.StatusMisdirectedRequest) != want {
				t.Errorf("%s at %q is answered %d", path, host, resp.StatusCode)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} { // a proxy probes under its own name
		req, _ := http.NewRequestWithContext(t.Context(), "GET", d.url+path, nil)
		req.Host = "jobs.example.com"
		if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s behind a proxy: %v, %v", path, resp, err)
		}
	}
}
