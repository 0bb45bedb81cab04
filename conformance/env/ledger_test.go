package env_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

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
