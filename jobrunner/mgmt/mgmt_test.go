package mgmt_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

type operation struct{ method, path string }

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// operations has the operations of the management API that need a key, with ids that don't exist.
var operations = func() (all []operation) {
	for _, op := range contract.Operations {
		prefix := map[contract.API]string{contract.V1: "/v1", contract.V2: "/v2"}[op.API]
		path := prefix + parameter.ReplaceAllString(op.Path, "x")
		if prefix != "" && path != "/v1/docs" && path != "/v1/openapi.json" {
			all = append(all, operation{op.Method, path})
		}
	}
	return all
}()

func TestAuthentication(t *testing.T) {
	d := deploy(t)
	for _, header := range []string{"Bearer " + testKey, "bearer " + testKey, "BEARER  " + testKey, testKey} {
		must.Equal(t, d.sendWith("GET", "/v2/templates", "", http.Header{"Authorization": {header}}).status, 200, header)
	}
	for _, c := range append(operations, operation{"GET", "/v2/nothing"}, operation{"DELETE", "/v1/templates"}) {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong-key-value", "wrong-key-value", "Basic " + testKey, "Bearer " + testKey + "x"} {
			got := d.sendWith(c.method, c.path+"?api_key="+testKey, "{not read", http.Header{"Authorization": {header}})
			must.Hold(t, got.status == 401 && got.header.Get("WWW-Authenticate") == "Bearer", c.method, c.path, "with the key", header, "must be 401 with WWW-Authenticate, got", got.status, got.text)
			if strings.HasPrefix(c.path, "/v1") {
				s, ok := got.get("message").(string)
				must.Hold(t, ok && s != "", c.path, got.text)
			} else if got.get("status") != 401.0 || got.get("title") != "Unauthorized" || got.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: want a problem with status 401, got %s", c.path, got.text)
			}
			must.Equal(t, got.header.Get("RateLimit"), "", "RateLimit of an answer without authentication")
			must.Hold(t, !strings.Contains(got.text, "wrong-key-value"), "the answer repeats the key", got.text)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	d := deploy(t)
	for _, path := range []string{
		"/v1", "/v1/", "/v1/nothing", "/v1/templates/", "/v1/templates/x/nothing", "/v1/network-volumes", "/",
		"/v2", "/v2/", "/v2/networkvolumes", "/v2/containerregistryauth", "/v2/endpoints", "/v2/templates/x/update", "/v2/serverless/x/nothing",
		"/v2/catalog", "/v2/catalog/gpus/x/y", "/v2//templates", "/v2/podz", "/v1/billing/nothing", "/v2/pods/x/nothing",
	} {
		d.expectRefusal(404, "there is nothing at", "GET", path, "")
	}
	d.mustSend(200, "GET", "/v2/network%2Dvolumes", "") // an escape means its character
	for _, c := range []struct{ method, path, allow string }{
		{"PUT", "/v1/templates", "GET, HEAD, POST"},
		{"GET", "/v1/templates/x/update", "POST"},
		{"POST", "/v2/templates/x", "DELETE, GET, HEAD, PATCH"},
		{"PATCH", "/v2/registries/x", "DELETE, GET, HEAD"},
		{"DELETE", "/v2/catalog/gpus", "GET, HEAD"},
	} {
		got := d.send(c.method, c.path, "{}")
		must.Hold(t, got.status == 405 && got.header.Get("Allow") == c.allow,
			c.method, c.path, got.status, "allowed is", got.header.Get("Allow"))
	}
	got := d.send("HEAD", "/v2/templates", "")
	must.Hold(t, got.status == 200 && got.text == "", "HEAD", got.status, got.text)
}

// The answer is 404, except that version 1 answers 400 to deletes and to actions on pods.
func TestUnknownIDs(t *testing.T) {
	d := deploy(t)
	for _, c := range operations {
		if !strings.Contains(c.path, "/x") {
			continue
		}
		want := 404
		if strings.HasPrefix(c.path, "/v1") && (c.method == "DELETE" || strings.HasPrefix(c.path, "/v1/pods/x/") && !strings.HasSuffix(c.path, "/update")) {
			want = 400
		}
		body, wantText := `{"name":"x"}`, "not found"
		switch {
		case strings.HasPrefix(c.path, "/v2/catalog/"):
			wantText = "the catalog has no"
		case strings.HasSuffix(c.path, "/action"):
			body = `{"action":"stop"}`
		case strings.HasPrefix(c.path, secretsPath):
			body = `{"description":"x"}`
		}
		d.expectRefusal(want, wantText, c.method, c.path+"?unknown=parameter", body)
	}
}

func TestAnswerHeaders(t *testing.T) {
	d := deploy(t)
	seen := map[string]bool{}
	for _, c := range append(operations, operation{"GET", "/v2/nothing"}) {
		got := d.sendWith(c.method, c.path, "{}", http.Header{"Authorization": {testKey}, "X-Request-Id": {"the client's"}})
		id := got.header.Get("X-Request-Id")
		must.Hold(t, id != "" && id != "the client's" && !seen[id], c.method, c.path, "request id", id)
		seen[id] = true
		v2 := strings.HasPrefix(c.path, "/v2")
		must.Equal(t, got.header.Get("RateLimit-Policy") == `"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400`, v2,
			c.method, c.path, "policy", got.header.Get("RateLimit-Policy"))
		must.Hold(t, !v2 || strings.HasPrefix(got.header.Get("RateLimit"), `"minute";r=`),
			c.method, c.path, "state", got.header.Get("RateLimit"))
		want := "application/json"
		if v2 && got.status >= 400 {
			want = "application/problem+json"
			must.Hold(t, got.get("status") == float64(got.status) && got.get("title") == http.StatusText(got.status) && got.get("detail") != "", c.method, c.path, got.text)
		}
		must.Equal(t, got.header.Get("Content-Type"), want, c.method, c.path)
	}
}

func TestBodies(t *testing.T) {
	d := deploy(t)
	for _, path := range []string{"/v1/templates", "/v2/templates"} {
		mismatch := 422 // status if the body does not match the schema
		if strings.HasPrefix(path, "/v1") {
			mismatch = 400
		}
		d.expectRefusal(400, "no body", "POST", path, "")
		d.expectRefusal(400, "not valid JSON", "POST", path, "{")
		d.expectRefusal(400, "unexpected data after the JSON value", "POST", path, "{} {}")
		d.expectRefusal(400, "not valid JSON", "POST", path, "{} x")
		d.expectRefusal(mismatch, "$: got array, want object", "POST", path, "[]")
		d.expectRefusal(mismatch, "$: got null, want object", "POST", path, "null")
		d.expectRefusal(400, "not valid JSON", "POST", path, strings.Repeat("[", 20000))
		for _, text := range []string{"x\xff", "\xc3", "\xed\xa0\x80", `\ud800`, `\udc00`, `\ud83d x`, `\ud83d\u0041`, `\\\ud800`} {
			for _, body := range []string{`{"name":"` + text + `","image":"i"}`, `{"` + text + `":1}`, `{"name":"n","env":{"A":["` + text + `"]}}`} {
				d.expectRefusal(400, "send it uncompressed, in UTF-8", "POST", path, body)
			}
		}
		d.expectRefusal(mismatch, "got array, want object", "POST", path, "[1"+strings.Repeat(",1", 49_999)+"]")
		d.expectRefusal(413, "more than 50000 values", "POST", path, "[1"+strings.Repeat(",1", 50_000)+"]")
		d.expectRefusal(413, "larger than 1048576 bytes", "POST", path, `{"name":"x","readme":"`+strings.Repeat("x", 1<<20)+`"}`)
		invalid := d.send("POST", path, `{"name":1,"bogus":1,"also":2}`)
		must.Contain(t, invalid.text,
			"$.name: got number, want string", "additional properties 'bogus' not allowed", "additional properties 'also' not allowed", "missing property 'image")
	}
	d.expectRefusal(422, `"errors":["$: got no properties`, "PATCH", "/v2/network-volumes/"+d.createVolume("X"), `{}`)
	got := d.mustSend(422, "POST", "/v2/network-volumes", `{"size":"x","x":1}`)
	want := []any{
		"$: missing property 'name'", "$.size: got string, want integer", "$: missing property 'dataCenter'", "$: additional properties 'x' not allowed",
	}
	errors, _ := got.get("errors").([]any)
	must.Hold(t, slices.Equal(errors, want), "errors are", errors)
}

func TestIntegerLiterals(t *testing.T) {
	d := deploy(t)
	for literal, want := range map[string]float64{"10.0": 10, "1e1": 10, "4096": 4096} {
		got := d.mustSend(201, "POST", "/v2/network-volumes", `{"name":"v","dataCenter":"X","size":`+literal+`}`)
		must.Equal[any](t, got.get("size"), want, "the size that was sent as", literal)
	}
	for literal, want := range map[string]string{
		"10.5": "10.5, want integer", "1e400": "1e400, want an integer closer to 0", "1e1000000000": "1e1000000000, want an integer closer to 0", "99999999999999999999": "99999999999999999999, want an integer closer to 0",
		"9007199254740992": "9007199254740992, want an integer closer to 0", "true": "boolean", "null": "null", `"10"`: "string", "{}": "object", "-1e300": "-1e300, want an integer closer to 0",
	} {
		d.expectRefusal(422, "$.size: got "+want, "POST", "/v2/network-volumes", `{"name":"v","dataCenter":"X","size":`+literal+`}`)
	}
}

// A forbidden request of a known key counts, and its answer shows the key's quotas.
func TestForbiddenRequestsAreCounted(t *testing.T) {
	file := apikey.FileIn(t.TempDir())
	restrictedKey := must.Do(file.Add(apikey.Key{Name: "restricted", Endpoints: []string{"some-endpoint"}}))(t)
	d := deploy(t, func(c *mgmt.Config) {
		c.Limits = true
		c.Keys = must.Do(c.Keys.With(file, time.Now, slog.New(slog.DiscardHandler)))(t)
	})
	sendRestricted := func(path string) reply {
		return d.sendWith("GET", path, "", http.Header{"Authorization": {"Bearer " + restrictedKey}})
	}
	for remaining := 59; remaining >= 0; remaining-- {
		got := sendRestricted("/v2/templates")
		want := fmt.Sprintf(`"minute";r=%d;t=`, remaining)
		must.Require(t, got.status == 403 && strings.HasPrefix(got.header.Get("RateLimit"), want) && got.header.Get("RateLimit-Policy") != "", got.status, got.header, "want 403 with", want)
	}
	got := sendRestricted("/v2/templates")
	must.Hold(t, got.status == 429 && got.header.Get("Retry-After") != "" && strings.Contains(got.text, "minute window") && strings.HasPrefix(got.header.Get("RateLimit"), `"minute";r=0;t=`),
		"a request above the quota", got.status, got.text, got.header)
	got = sendRestricted("/v1/templates")
	must.Hold(t, got.status == 403 && got.header.Get("RateLimit") == "", "version 1", got.status, got.header)
	d.mustSend(200, "GET", "/v2/templates", "") // another owner has quotas of their own
}

func TestServedPathsAreReserved(t *testing.T) {
	d := deploy(t)
	servedSegments := map[string]bool{}
	for _, c := range operations {
		if path, ok := strings.CutPrefix(c.path, "/v2/"); ok {
			segment, _, _ := strings.Cut(path, "/")
			servedSegments[segment] = true
		}
	}
	for segment := range servedSegments {
		must.Hold(t, slices.Contains(store.Reserved, segment), segment, "is served, and could be the id of an endpoint")
	}
	for _, segment := range store.Reserved {
		got := d.send("GET", "/v2/"+url.PathEscape(segment), "")
		must.Hold(t, servedSegments[segment] || got.status == 404 || got.status == 501, segment, got.status)
	}
}

// The documents have an ETag and can be read with HEAD. Only version 2's need a key.
func TestDocumentsAreServed(t *testing.T) {
	d := deploy(t)
	key := http.Header{"Authorization": {"Bearer " + testKey}}
	for path, c := range map[string]struct {
		contentType string
		public      bool
	}{
		"/v1/openapi.json": {"application/json", true},
		"/v1/docs":         {"text/html; charset=utf-8", true},
		"/v2/openapi.json": {"application/json", false},
	} {
		got := d.sendWith("GET", path, "", key.Clone())
		tag := got.header.Get("Etag")
		must.Hold(t, got.status == 200 && got.header.Get("Content-Type") == c.contentType && tag != "" && got.header.Get("Cache-Control") == "no-cache", path, got.status, got.header)
		revalidated := d.sendWith("GET", path, "", http.Header{"Authorization": key["Authorization"], "If-None-Match": {tag}})
		must.Hold(t, revalidated.status == 304 && revalidated.text == "", path, "with its tag", revalidated.status, revalidated.text)
		head := d.sendWith("HEAD", path, "", key.Clone())
		must.Hold(t, head.status == 200 && head.header.Get("Etag") == tag && head.text == "", "HEAD", path, head.status, head.header)
		post := d.sendWith("POST", path, "", key.Clone())
		must.Hold(t, post.status == 405 && post.header.Get("Allow") == "GET, HEAD", "POST", path, "must be 405, got", post.status, post.header)
		for _, header := range []http.Header{{}, {"Authorization": {"Bearer wrong-key-value"}}} {
			unauthorized := d.sendWith("GET", path, "", header)
			must.Hold(t, (unauthorized.status == 200) == c.public && (c.public || unauthorized.status == 401), path, header, unauthorized.status)
		}
	}
}

// The page runs no script and loads nothing. It shows every operation of the document.
func TestDocumentationPage(t *testing.T) {
	page := deploy(t).send("GET", "/v1/docs", "")
	policy := page.header.Get("Content-Security-Policy")
	must.Hold(t, strings.Contains(policy, "default-src 'none'") && !strings.Contains(policy, "unsafe") && !strings.Contains(policy, "script-src"), "the policy is", policy)
	for _, external := range []string{"<script", "<link", "<img", "http://", "https://", "@import", "url("} {
		must.Hold(t, !strings.Contains(page.text, external), "the page has", external)
	}
	for _, c := range operations {
		if path, ok := strings.CutPrefix(c.path, "/v1/"); ok {
			path = strings.ReplaceAll(path, "/x", "/{id}")
			want := "<code>" + c.method + " /v1/" + path + "</code>"
			must.Hold(t, strings.Contains(page.text, want), "the page lacks", want)
		}
	}
	must.Contain(t, page.text, `<a href="openapi.json">`)
}

func TestContractIsServed(t *testing.T) {
	d := deploy(t)
	for _, c := range operations {
		got := d.send(c.method, c.path, "")
		must.Hold(t, got.status != 405 && !strings.Contains(got.text, "there is nothing at"), c.method, c.path, "an operation of the contract, is unknown", got.text)
	}
	for _, o := range contract.UnservedOperations {
		if o.API != contract.V2 {
			continue
		}
		path := "/v2" + parameter.ReplaceAllString(o.Path, "x")
		got := d.send(o.Method, path, "")
		must.Hold(t, got.status == 501 && got.header.Get("Content-Type") == "application/problem+json" && strings.Contains(got.text, "the jobrunner doesn't serve it (docs/reference/fidelity.md)") && strings.Contains(got.text, o.Method+" /v2"+o.Path), o.Method, path, "which the jobrunner lacks:", got.status, got.text)
		got = d.send("PUT", path, "{}")
		must.Hold(t, got.status == 405 && got.header.Get("Allow") != "", "PUT", path, got.status, got.text)
	}
}
