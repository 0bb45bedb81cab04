package mgmt_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The documents have an ETag and can be read with HEAD. Those of version 1 need no key; that of
// version 2 needs one, like all its operations.
func TestDocumentsAreServed(t *testing.T) {
	d := deploy(t)
	key := http.Header{"Authorization": {"Bearer " + testKey}}
	for path, c := range map[string]struct {
		kind   string
		public bool
	}{
		"/v1/openapi.json": {"application/json", true},
		"/v1/docs":         {"text/html; charset=utf-8", true},
		"/v2/openapi.json": {"application/json", false},
	} {
		got := d.sendWith("GET", path, "", key.Clone())
		tag := got.header.Get("Etag")
		must.Hold(t, got.status == 200 && got.header.Get("Content-Type") == c.kind && tag != "" && got.header.Get("Cache-Control") == "no-cache", path, got.status, got.header)
		again := d.sendWith("GET", path, "", http.Header{"Authorization": key["Authorization"], "If-None-Match": {tag}})
		must.Hold(t, again.status == 304 && again.text == "", path, "with its tag", again.status, again.text)
		head := d.sendWith("HEAD", path, "", key.Clone())
		must.Hold(t, head.status == 200 && head.header.Get("Etag") == tag && head.text == "", "HEAD", path, head.status, head.header)
		other := d.sendWith("POST", path, "", key.Clone())
		must.Hold(t, other.status == 405 && other.header.Get("Allow") == "GET, HEAD", "POST", path, other.status, other.header)
		for _, header := range []http.Header{{}, {"Authorization": {"Bearer wrong-key-value"}}} {
			without := d.sendWith("GET", path, "", header)
			must.Hold(t, (without.status == 200) == c.public && (c.public || without.status == 401), path, header, without.status)
		}
	}
}

// The page runs no script and loads nothing. It shows every operation of the document.
func TestDocumentationPage(t *testing.T) {
	d := deploy(t)
	page := d.send("GET", "/v1/docs", "")
	policy := page.header.Get("Content-Security-Policy")
	must.Hold(t, strings.Contains(policy, "default-src 'none'") && !strings.Contains(policy, "unsafe") && !strings.Contains(policy, "script-src"), "the policy is", policy)
	for _, outside := range []string{"<script", "<link", "<img", "http://", "https://", "@import", "url("} {
		must.Hold(t, !strings.Contains(page.text, outside), "the page has", outside)
	}
	for _, c := range paths {
		if path, ok := strings.CutPrefix(c.path, "/v1/"); ok {
			path = strings.ReplaceAll(path, "/x", "/{id}")
			want := "<code>" + c.method + " /v1/" + path + "</code>"
			must.Hold(t, strings.Contains(page.text, want), "the page lacks", want)
		}
	}
	must.Contain(t, page.text, `<a href="openapi.json">`)
}

// Each operation of the contract is served; other paths are unknown.
func TestContractIsServed(t *testing.T) {
	d := deploy(t)
	for _, c := range paths {
		got := d.send(c.method, c.path, "")
		must.Hold(t, got.status != 405 && !strings.Contains(got.text, "there is nothing at"), c.method, c.path, "an operation of the contract, is unknown", got.text)
	}
	for _, o := range contract.UnservedOperations {
		if o.API != contract.V2 {
			continue
		}
		path := "/v2" + parameter.ReplaceAllString(o.Path, "x")
		got := d.send(o.Method, path, "")
		if got.status != 501 || got.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.text, "the jobrunner doesn't serve it") || !strings.Contains(got.text, o.Method+" /v2"+o.Path) {
			t.Errorf("%s %s, which the jobrunner lacks: %d %s", o.Method, path, got.status, got.text)
		}
		got = d.send("PUT", path, "{}")
		must.Hold(t, got.status == 405 && got.header.Get("Allow") != "", "PUT", path, got.status, got.text)
	}
	for _, path := range []string{"/v2/podz", "/v1/billing/nothing", "/v2/pods/x/nothing"} {
		got := d.send("GET", path, "")
		must.Hold(t, got.status == 404 && strings.Contains(got.text, "there is nothing at"), path, got.status, got.text)
	}
}
