// Package acctest runs acceptance tests: a real Terraform, or package tfdrive, runs the provider
// against a deployment. The deployment is a jobrunner in this process, or the remote deployment
// at GPUCLOUD_BASE_URL if that variable and TF_ACC are set.
package acctest

import (
	"bytes"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// Versions are the API versions that EachVersion uses: both, but only the first in make test.
var Versions = []api.Version{api.V2, api.V1}

const providerName = "gpucloud"

// Main runs a package's tests, or serves the provider if a CLI started the test binary as one.
func Main(m *testing.M) {
	if IsProviderProcess() {
		if err := provider.Serve("test", false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse() // for testing.Short
	if InMakeTest() {
		Versions = Versions[:1]
	}
	code := m.Run()
	RemoveBuiltProvider()
	os.Exit(code)
}

type Deployment struct {
	URL    string
	Key    string
	Remote bool

	suffix string // makes the names of a test's objects unique
	writes atomic.Int64
	mu     sync.Mutex
	calls  map[string]int
}

// Deploy starts a jobrunner for the test, or returns the remote deployment.
func Deploy(t *testing.T) *Deployment {
	t.Helper()
	return DeployWith(t, func(*jobrunner.Config) {})
}

// DeployLocal starts a jobrunner for the test. If tests use a remote deployment, it skips the test.
func DeployLocal(t *testing.T, reason string) *Deployment {
	t.Helper()
	d := Deploy(t)
	if d.Remote {
		t.Skip(reason)
	}
	return d
}

// DeployWith is like Deploy, but configure changes the jobrunner's settings.
func DeployWith(t *testing.T, configure func(*jobrunner.Config)) *Deployment {
	t.Helper()
	suffix := "-" + strings.ToLower(rand.Text()[:8])
	if base := os.Getenv("GPUCLOUD_BASE_URL"); base != "" && os.Getenv("TF_ACC") != "" {
		return &Deployment{URL: base, Key: os.Getenv("GPUCLOUD_API_KEY"), Remote: true, suffix: suffix}
	}
	d := &Deployment{Key: "key-of-" + strings.ReplaceAll(t.Name(), "/", "-"), suffix: suffix, calls: map[string]int{}}
	d.URL = jobrunnertest.Start(t, jobrunnertest.Key(d.Key), jobrunnertest.Middleware(d.count), jobrunnertest.Configure(func(c *jobrunner.Config) {
		c.AdminClock = false
		configure(c)
	})).URL
	return d
}

// count counts each request before next serves it.
func (d *Deployment) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			d.writes.Add(1)
		}
		d.mu.Lock()
		d.calls[r.Method+" "+r.URL.Path]++
		d.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// Intercept puts a proxy in front of the deployment. handle gets each request, and may forward it.
func (d *Deployment) Intercept(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler)) {
	t.Helper()
	forward := httputil.NewSingleHostReverseProxy(must.Do(url.Parse(d.URL))(t))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handle(w, r, body, forward)
	}))
	t.Cleanup(proxy.Close)
	d.URL = proxy.URL
}

// Writes returns the number of requests so far other than GET, or 0 for a remote deployment.
func (d *Deployment) Writes() int64 { return d.writes.Load() }

// Calls counts the requests that f causes, by method and path. For a remote deployment it counts none.
func (d *Deployment) Calls(f func()) map[string]int {
	d.mu.Lock()
	clear(d.calls)
	d.mu.Unlock()
	f()
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.calls)
}

func (d *Deployment) Name(name string) string { return name + d.suffix }

// Client returns a client that reads and changes objects without Terraform.
func (d *Deployment) Client(t *testing.T, v api.Version) *api.Client {
	t.Helper()
	return must.Do(api.New(api.Settings{BaseURL: d.URL, APIKey: d.Key, Version: v}))(t)
}

// Settings returns the provider block for the deployment and an API version, for tfdrive.
func (d *Deployment) Settings(v api.Version) map[string]any {
	return map[string]any{"base_url": d.URL, "api_key": d.Key, "api_version": string(v)}
}

// EachVersion runs a test with each of Versions, each with its own deployment.
func EachVersion(t *testing.T, test func(t *testing.T, d *Deployment, v api.Version)) {
	t.Helper()
	for _, v := range Versions {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			test(t, Deploy(t), v)
		})
	}
}

// DeployCatalog is Deploy with a catalog file. With a remote deployment, the test is skipped.
func DeployCatalog(t *testing.T, text string) *Deployment {
	t.Helper()
	file := CatalogFile(t, text)
	d := DeployWith(t, func(c *jobrunner.Config) { c.Catalog = file })
	if d.Remote {
		t.Skip("the test needs its own catalog")
	}
	return d
}

// CatalogFile writes a catalog file and returns its path. The file is removed after the test.
func CatalogFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
