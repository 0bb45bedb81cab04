package api_test

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
)

const testKey = `k3y/+"&<%>-of-7ests`

// request is a request that a deployment received.
type request struct {
	method, path, query, body string
	header                    http.Header
	at                        time.Time
}

// deployment answers the n-th request with the n-th answer, and later ones with the last.
type deployment struct {
	answers []http.HandlerFunc
	// emptyLists answers lists, which a create reads first, with an empty list and doesn't record them.
	emptyLists bool

	mu       sync.Mutex
	received []request
}

func (d *deployment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if list := emptyList[r.URL.Path]; d.emptyLists && r.Method == http.MethodGet && list != "" {
		answer(200, list)(w, r)
		return
	}
	d.mu.Lock()
	n := min(len(d.received), len(d.answers)-1)
	d.received = append(d.received, request{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header.Clone(), time.Now()})
	d.mu.Unlock()
	d.answers[n](w, r)
}

func (d *deployment) requests() []request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.received)
}

var emptyList = map[string]string{
	"/v1/templates": `[]`, "/v1/networkvolumes": `[]`, "/v1/containerregistryauth": `[]`, "/v1/endpoints": `[]`, "/v1/pods": `[]`,
	"/v2/templates": `{"templates":[]}`, "/v2/network-volumes": `{"networkVolumes":[]}`,
	"/v2/registries": `{"registries":[]}`, "/v2/serverless": `{"endpoints":[]}`, "/v2/pods": `{"pods":[]}`,
	"/v2/clusters": `{"clusters":[]}`, "/v2/registries/delegations": `{"delegations":[]}`,
}

func (d *deployment) last(t *testing.T) request {
	t.Helper()
	seen := d.requests()
	must.Require(t, len(seen) != 0, "nothing was sent")
	return seen[len(seen)-1]
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func deploy(t *testing.T, version api.Version, answers ...http.HandlerFunc) (*api.Client, *deployment) {
	t.Helper()
	d := &deployment{answers: answers}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	return client(t, api.Settings{BaseURL: server.URL, Version: version}), d
}

// deployPiped serves the answers inside a synctest bubble, where time is virtual.
func deployPiped(t *testing.T, version api.Version, answers ...http.HandlerFunc) (*api.Client, *deployment) {
	t.Helper()
	d := &deployment{answers: answers}
	return pipe(t, d, api.Settings{Version: version}), d
}

func runInBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// pipe serves a handler inside a synctest bubble.
func pipe(t *testing.T, handler http.Handler, s api.Settings) *api.Client {
	t.Helper()
	transport, stop := pipenet.Serve(handler)
	t.Cleanup(stop)
	transport.DisableCompression = true
	s.BaseURL, s.Transport, s.RequestTimeout = "http://deployment", transport, 10*time.Second
	return client(t, s)
}

func client(t *testing.T, s api.Settings) *api.Client {
	t.Helper()
	s.APIKey = cmp.Or(s.APIKey, testKey)
	return must.Do(api.New(s))(t)
}

// expectSameJSON compares two JSON texts by meaning.
func expectSameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	must.Require(t, json.Unmarshal([]byte(got), &g) == nil, "not JSON", got)
	must.Require(t, json.Unmarshal([]byte(want), &w) == nil, "the test's own JSON is broken", want)
	must.Equal(t, g, w, "of", got)
}

// expectEqual shows the values of a failure as JSON, which also shows what pointers point to.
func expectEqual(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.MarshalIndent(got, "", " ")
		w, _ := json.MarshalIndent(want, "", " ")
		t.Errorf("\n got %s\nwant %s", g, w)
	}
}
