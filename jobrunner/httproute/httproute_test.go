package httproute

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func table(headAsGet bool) *Table[string] {
	t := &Table[string]{HeadAsGet: headAsGet}
	t.Add(http.MethodGet, "/v2/things", "list")
	t.Add(http.MethodPost, "/v2/things", "create")
	t.Add(http.MethodGet, "/v2/things/special", "special")
	t.Add(http.MethodGet, "/v2/things/{id}", "get")
	t.Add(http.MethodGet, "/v2/things/{id}/parts/{part}", "part")
	t.Add(http.MethodPost, "/v2/things/{id}/pass/{route...}", "pass")
	return t
}

// A path is matched unchanged: neither cleaned, nor redirected, nor decoded.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		method, path, want, pattern string
		values                      [3]string
		allow                       []string
	}{
		{"GET", "/v2/things", "list", "GET /v2/things", [3]string{}, []string{"GET", "POST"}},
		{"POST", "/v2/things", "create", "POST /v2/things", [3]string{}, []string{"GET", "POST"}},
		{"DELETE", "/v2/things", "", "", [3]string{}, []string{"GET", "POST"}},
		{"HEAD", "/v2/things", "", "", [3]string{}, []string{"GET", "POST"}},
		{"GET", "/v2/things/special", "special", "GET /v2/things/special", [3]string{}, []string{"GET"}},
		{"GET", "/v2/things/a%2Fb", "get", "GET /v2/things/{id}", [3]string{"a%2Fb"}, []string{"GET"}},
		{"GET", "/v2/things/..", "get", "GET /v2/things/{id}", [3]string{".."}, []string{"GET"}},
		{"GET", "/v2/things/{id}", "get", "GET /v2/things/{id}", [3]string{"{id}"}, []string{"GET"}},
		{"GET", "/v2/things/a/parts/b", "part", "GET /v2/things/{id}/parts/{part}", [3]string{"a", "b"}, []string{"GET"}},
		{"POST", "/v2/things/a/pass/v1//models/", "pass", "POST /v2/things/{id}/pass/{route...}", [3]string{"a", "v1//models/"}, []string{"POST"}},
		{"POST", "/v2/things/a/pass//", "pass", "POST /v2/things/{id}/pass/{route...}", [3]string{"a", "/"}, []string{"POST"}},
		{method: "GET", path: "/v2/things/"},
		{method: "GET", path: "/v2//things"},
		{method: "GET", path: "//v2/things"},
		{method: "GET", path: "/v2/things/a/"},
		{method: "GET", path: "/v2/things/a/parts"},
		{method: "GET", path: "/v2/things//parts/b"},
		{method: "POST", path: "/v2/things/a/pass/"},
		{method: "POST", path: "/v2/things/a/pass"},
		{method: "GET", path: "/v2"},
		{method: "GET", path: "/"},
		{method: "OPTIONS", path: "*"},
		{method: "GET", path: ""},
	} {
		m := table(false).Find(c.method, c.path)
		must.Hold(t, m.Operation == c.want && m.Pattern == c.pattern && slices.Equal(m.Allow, c.allow) && (m.Pattern == "" || m.Values == c.values), c.method, c.path, "found", m)
	}
}

func TestHeadAsGet(t *testing.T) {
	m := table(true).Find(http.MethodHead, "/v2/things")
	must.Hold(t, m.Operation == "list" && m.Pattern == "GET /v2/things" && slices.Equal(m.Allow, []string{"GET", "HEAD", "POST"}), "found", m)
}

// Find runs for every request of the job API.
func TestFindDoesNotAllocate(t *testing.T) {
	routes := table(false)
	must.Equal(t, testing.AllocsPerRun(100, func() { routes.Find(http.MethodGet, "/v2/things/a/parts/b") }), 0, "allocations")
}

func BenchmarkFind(b *testing.B) {
	routes := table(false)
	for b.Loop() {
		routes.Find(http.MethodGet, "/v2/things/a/parts/b")
	}
}
