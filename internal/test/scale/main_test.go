//go:build unix

// Package scale_test tests the provider at scale and under signals, with a real Terraform, the provider as
// its own process, and a deployment behind a proxy that counts, holds and drops requests.
package scale_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// binFolder is the folder with a folder per provider binary.
var binFolder string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gpucloud-scale-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binFolder = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// The packages of the providers' main functions.
const (
	ourProvider   = "github.com/gpucloud/terraform-provider-gpucloud"
	nullProvider  = ourProvider + "/internal/test/scale/nullprovider"
	panicProvider = ourProvider + "/internal/test/scale/panicprovider"
)

var builds sync.Map // func() (dir string, err error) by package

// buildProvider builds a provider once and returns its folder.
func buildProvider(t testing.TB, pkg string) string {
	t.Helper()
	build, _ := builds.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		dir := filepath.Join(binFolder, filepath.Base(pkg))
		if err := gobuild.Programs(t.Context(), dir, pkg); err != nil {
			return "", err
		}
		return dir, os.Rename(filepath.Join(dir, path.Base(pkg)), filepath.Join(dir, "terraform-provider-gpucloud"))
	}))
	return must.Do(build.(func() (string, error))())(t)
}

var findCLI = sync.OnceValues(func() (tfcli.CLI, error) { return tfcli.Default(context.Background()) })

// The number of calls of a plan doesn't depend on the number of objects.
func TestCallsOfAPlan(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		tf := newWorkspace(t, d, ourProvider, v)
		var before map[string]int
		tf.configure(configOf(1))
		tf.apply()
		sizes := []int{10, 100}
		if testing.Short() {
			sizes = []int{3, 10}
		}
		for _, n := range sizes {
			tf.configure(configOf(n))
			tf.grow(d, n)
			calls := d.countRequests(tf.expectEmptyPlan)
			for call, times := range calls {
				must.Hold(t, times <= 1, "the plan of", n, "objects of each kind makes the call", call, times, "times")
			}
			must.Equal(t, sum(calls), planCalls[v], "number of calls of the plan of", n, "objects of each kind, which are", calls)
			must.Hold(t, before == nil || maps.Equal(calls, before), "the plan of", n, "objects of each kind makes the calls", calls, "although fewer objects need", before)
			before = calls
		}
	})
}

// planCalls is the number of a plan's calls: a list per kind, and on v2 the catalog for GPU pools.
var planCalls = map[api.Version]int{api.V1: 4, api.V2: 5}

// deployment is a jobrunner behind a proxy that sees every request.
type deployment struct {
	url, key string

	mu      sync.Mutex
	handler http.Handler
	faults  []*wirefault.Fault
	calls   map[string]int
	posted  map[string]post // latest POST by the name in its body
	close   func() error
}

type post struct{ path, body string }

func deploy(t testing.TB) *deployment {
	t.Helper()
	d := &deployment{key: "key-of-the-deployment", calls: map[string]int{}, posted: map[string]post{}, close: func() error { return nil }}
	d.serve(t, jobrunner.Config{})
	server := httptest.NewServer(d)
	d.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		must.Succeed(t, d.close(), "closing the jobrunner")
	})
	return d
}

// serve replaces the jobrunner behind the proxy with a new one.
func (d *deployment) serve(t testing.TB, c jobrunner.Config) {
	t.Helper()
	must.Succeed(t, d.close())
	c.APIKey, c.Logger = d.key, slog.New(slog.DiscardHandler)
	j := must.Do(jobrunner.New(context.WithoutCancel(t.Context()), c))(t)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handler, d.close = j.Handler(), j.Close
}

func (d *deployment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.calls[r.Method+" "+r.URL.Path]++
	handler, faults := d.handler, d.faults
	d.mu.Unlock()
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var object struct{ Name string }
		if json.Unmarshal(body, &object) == nil {
			d.mu.Lock()
			d.posted[object.Name] = post{r.URL.Path, string(body)}
			d.mu.Unlock()
		}
		r = r.WithContext(context.WithoutCancel(r.Context())) // requests of clients that have disconnected are completed
	}
	wirefault.Handler(handler, wirefault.Deployment{}, faults...).ServeHTTP(w, r)
}

func (d *deployment) setFaults(faults ...*wirefault.Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = faults
}

// countRequests counts the requests during f by method and path.
func (d *deployment) countRequests(f func()) map[string]int {
	d.mu.Lock()
	d.calls = map[string]int{}
	d.mu.Unlock()
	f()
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.calls)
}

func sum(calls map[string]int) (n int) {
	for _, c := range calls {
		n += c
	}
	return n
}

// names returns the names of the deployment's objects by "TYPE ID". It bypasses the proxy.
func (d *deployment) names(t testing.TB, v api.Version) map[string]string {
	t.Helper()
	server := httptest.NewServer(d.handler)
	defer server.Close()
	c := must.Do(api.New(api.Settings{BaseURL: server.URL, APIKey: d.key, Version: v}))(t)
	out := map[string]string{}
	for kind, list := range map[string]func(context.Context) ([]api.NamedObject, error){
		"gpucloud_template": c.Templates.ListNames, "gpucloud_network_volume": c.NetworkVolumes.ListNames, "gpucloud_registry_auth": c.RegistryAuths.ListNames, "gpucloud_endpoint": c.Endpoints.ListNames,
	} {
		for _, o := range must.Do(list(t.Context()))(t) {
			out[kind+" "+o.ID] = o.Name
		}
	}
	return out
}

// ids lists the deployment's objects as "TYPE ID", sorted.
func (d *deployment) ids(t testing.TB, v api.Version) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(d.names(t, v)))
}

// eachVersion runs a test on both API versions concurrently; with -short only on version 2.
func eachVersion(t *testing.T, test func(t *testing.T, v api.Version)) {
	t.Helper()
	t.Parallel()
	tests := map[string]func(*testing.T){string(api.V2): func(t *testing.T) { test(t, api.V2) }}
	if !testing.Short() {
		tests[string(api.V1)] = func(t *testing.T) { test(t, api.V1) }
	}
	runConcurrently(t, tests)
}

// runConcurrently runs all tests concurrently, because they mostly wait for processes.
func runConcurrently(t *testing.T, tests map[string]func(*testing.T)) {
	t.Helper()
	var group sync.WaitGroup
	for name, test := range tests {
		group.Go(func() { t.Run(name, test) })
	}
	group.Wait()
}

func lines(list []string) string { return "\n  " + strings.Join(list, "\n  ") }
