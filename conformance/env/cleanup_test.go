package env_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A deletion counts if no version shows the object. The user of an object is deleted first. Each list has two pages.
func TestCleanUp(t *testing.T) {
	const template, endpoint = "template", "endpoint"
	type call struct {
		method, path string
		deletions    int  // up to this call
		inUse        bool // the endpoint uses the template
		advanced     time.Duration
	}
	for name, c := range map[string]struct {
		matches       func(call) bool
		matchedStatus int // of the answer to the matching calls
		otherStatus   int // of the answer to the other calls; 0 is the ordinary answer
		left          []string
	}{
		"ordinary":                          {func(call) bool { return false }, 0, 0, nil},
		"version 1 hides a template in use": {func(r call) bool { return strings.HasPrefix(r.path, "/v1/templates/") && r.inUse }, 404, 0, nil},
		"version 1 hides a template":        {func(r call) bool { return strings.HasPrefix(r.path, "/v1/templates") }, 404, 0, nil},
		"version 1 deletes no template":     {func(r call) bool { return r.method == "DELETE" && strings.HasPrefix(r.path, "/v1/templates") }, 501, 0, nil},
		"version 1 refuses":                 {func(r call) bool { return strings.HasPrefix(r.path, "/v1/templates/") }, 400, 0, []string{template}},
		"a template in use is refused": {func(r call) bool {
			return r.method == "DELETE" && strings.HasPrefix(r.path, "/v1/templates/") && r.inUse
		}, 409, 0, nil},
		"the first deletions fail":         {func(r call) bool { return r.method == "DELETE" && r.deletions <= 3 }, 503, 0, nil},
		"the first deletion has no effect": {func(r call) bool { return r.method == "DELETE" && r.deletions == 1 }, 204, 0, nil},
		"deletions have no effect":         {func(r call) bool { return r.method == "DELETE" }, 204, 0, []string{endpoint, template}},
		"lists lag by the target's clock":  {func(r call) bool { return r.method == "DELETE" && r.advanced == 0 }, 204, 0, nil},
		"reads fail":                       {func(r call) bool { return r.method == "GET" }, 500, 404, []string{endpoint, template}},
		"the key reads no version":         {func(r call) bool { return r.method == "GET" }, 403, 404, []string{endpoint, template}},
		"the key reads version 2 only":     {func(r call) bool { return r.method == "GET" && strings.HasPrefix(r.path, "/v1/") }, 403, 404, nil},
		"version 1 serves no reads":        {func(r call) bool { return r.method == "GET" && strings.HasPrefix(r.path, "/v1/") }, 501, 404, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			deletions, advanced := 0, time.Duration(0)
			shown := map[string]bool{template: true, endpoint: true}
			serve := func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Method == "DELETE" {
					deletions++
				}
				id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				status := c.otherStatus
				if c.matches(call{r.Method, r.URL.Path, deletions, shown[endpoint], advanced}) {
					status = c.matchedStatus
				}
				switch {
				case status != 0:
					w.WriteHeader(status)
				case (id == "templates" || id == "serverless" || id == "endpoints") && r.URL.RawQuery == "":
					w.Header()["Link"] = []string{`</first?cursor=1>; rel="first"`, `</next?cursor=2+>; rel="next"`}
					_, _ = io.WriteString(w, map[bool]string{true: "[]", false: `{"pagination":{"nextCursor":"2 "}}`}[id == "templates"])
				case r.URL.RawQuery == "cursor=2+":
					var list []map[string]any
					for id := range shown {
						list = append(list, map[string]any{"id": id})
					}
					_ = json.NewEncoder(w).Encode(list)
				case !shown[id]:
					w.WriteHeader(404)
				case r.Method == "DELETE":
					delete(shown, id)
				}
			}
			target := env.Target{Key: "the-key", Client: &http.Client{Transport: roundTripper(serve)}}
			target.Advance = func(_ context.Context, d time.Duration) (time.Time, error) { advanced += d; return time.Now(), nil }
			e := env.New(&target, env.NewClock(1))
			for _, o := range []env.Object{ // deleted in reverse order: the template, which the endpoint uses, first
				{Kind: "endpoints", ID: endpoint, URL: "http://h/v1/endpoints/endpoint", Reads: []string{"http://h/v1/endpoints/endpoint", "http://h/v2/serverless/endpoint"}},
				{Kind: "templates", ID: template, URL: "http://h/v1/templates/template", Reads: []string{"http://h/v1/templates/template?includeEndpointBoundTemplates=true", "http://h/v2/templates/template"}},
			} {
				o.Method, o.Case = "DELETE", "X-01"
				must.Do(e.Ledger.Add(o))(t)
			}
			var left []string
			for _, o := range e.CleanUp(t.Context(), func(env.Object) bool { return false }) {
				left = append(left, o.ID)
			}
			slices.Sort(left)
			must.Equal(t, left, c.left, name, "left")
		})
	}
}

// An object whose creation wasn't answered remains if the list is cut off, its deletion fails, or a list still shows it. Its
// entry keeps the deployment whose key deletes it, also in a sweep, whose ledger has none.
func TestCleanUpOfAnUnansweredCreation(t *testing.T) {
	for list, want := range map[string]struct {
		deletion int
		ids      string
	}{
		`{"templates":[`: {200, ""}, `[{"id":"x","name":"conf-x"}]`: {500, "x"}, `[{"id":"y","name":"conf-x"}]`: {200, "y"}, `[{"name":"conf-x"}]`: {200, ""},
		`[{"id":"x","name":"conf-x"},{"id":"z"},{"id":"y","name":"conf-x"}]`: {500, "yx"},
	} {
		synctest.Test(t, func(t *testing.T) {
			serve := func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "DELETE" {
					w.WriteHeader(want.deletion)
				}
				_, _ = io.WriteString(w, list)
			}
			e := env.New(&env.Target{Client: &http.Client{Transport: roundTripper(serve)}}, env.NewClock(1))
			must.Do(e.Ledger.Add(env.Object{Deployment: "http://h", Kind: "templates", Name: "conf-x", Method: "GET", URL: "http://h/v2/templates"}))(t)
			left := e.CleanUp(t.Context(), func(env.Object) bool { return false })
			ids := ""
			for _, o := range left {
				ids += o.ID
			}
			must.Hold(t, len(left) > 0 && ids == want.ids && left[0].Deployment == "http://h", "with the list", list, "left", left)
		})
	}
}

// roundTripper serves requests in memory.
type roundTripper http.HandlerFunc

func (serve roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	serve(w, r)
	return w.Result(), nil
}

// The next process deletes what a crashed process created, newest first, even if the last line was cut short.
func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	var mu sync.Mutex
	var requests []string
	statuses := map[string]int{"DELETE /v2/c": 404, "DELETE /v1/d": 400, "DELETE /v2/e": 404, "GET /v2/c": 404, "GET /v2/e": 405}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		request := r.Method + " " + r.URL.Path
		requests = append(requests, request)
		status := cmp.Or(statuses[request], 200)
		if r.Header.Get("Authorization") != "Bearer the-key" {
			status = 401
		}
		w.WriteHeader(status)
	}))
	defer target.Close()
	first := must.Do(env.OpenLedger(path))(t)
	for i, path := range []string{"/v2/a", "/v2/b", "/v2/c", "/v1/d", "/v2/e"} {
		o := must.Do(first.Add(env.Object{Kind: "thing", ID: path, Method: "DELETE", URL: target.URL + path, Case: "X-01"}))(t)
		if i == 1 {
			must.Succeed(t, first.Remove(o))
		}
	}
	file := must.Do(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
	must.Do(file.WriteString(`{"n":9,"kind":"thi`))(t)
	must.Succeed(t, file.Close())

	reopened := must.Do(env.OpenLedger(path))(t)
	e := env.New(&env.Target{Key: "the-key"}, env.NewClock(1))
	e.Ledger = reopened
	// Version 1 returns 400 for a missing object. Here a read shows that it exists.
	e.DeleteCreated(context.Background(), "")
	must.Equal(t, strings.Join(requests, ", "), "DELETE /v2/e, GET /v2/e, DELETE /v1/d, GET /v1/d, DELETE /v2/c, GET /v2/c, DELETE /v2/a, DELETE /v1/d, GET /v1/d", "the requests")
	left := reopened.Remaining("")
	must.Hold(t, len(left) == 1 && left[0].ID == "/v1/d", "the remaining objects are", left)
	must.Succeed(t, reopened.Remove(left[0]))
	must.Do(env.OpenLedger(path))(t)
	must.Equal(t, string(must.ReadFile(t, path)), "", "a ledger whose objects were all deleted")
}

// Whatever a ledger file contains, such as after a crash, an added entry is read back beside the others.
func FuzzLedger(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "ledger")
		must.Succeed(t, os.WriteFile(path, text, 0o600))
		l, err := env.OpenLedger(path)
		if err != nil {
			return
		}
		before := l.Remaining("")
		added := must.Do(l.Add(env.Object{Kind: "template", ID: "x", Method: "DELETE", URL: "/v2/templates/x", Case: "the case"}))(t)
		must.Succeed(t, l.Close())
		reopened, err := env.OpenLedger(path)
		must.Succeed(t, err, string(text), "can't be read after an entry was added:")
		defer reopened.Close()
		left := reopened.Remaining("")
		must.Hold(t, slices.ContainsFunc(left, func(o env.Object) bool { return o.N == added.N && o.ID == "x" }) &&
			len(left) == len(before)+1, string(text), "has the objects", before, "and after an entry was added", left)
	},
		fuzz.Seed{[]byte("{\"n\":1,\"kind\":\"template\",\"id\":\"a\",\"method\":\"DELETE\",\"url\":\"/a\",\"case\":\"c\"}\n{\"n\":2,\"kind\":\"job\",\"id\":\"b\"}\n{\"n\":1,\"gone\":true}\n")},
		fuzz.Seed{[]byte("{\"n\":1,\"id\":\"a\"}\n{\"n\":2,\"id\"")}, fuzz.Seed{[]byte("")}, fuzz.Seed{[]byte("{\"n\":-1}\n{\"n\":9223372036854775807}\n")},
	)
}
