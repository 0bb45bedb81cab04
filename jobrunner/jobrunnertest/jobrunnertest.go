// Package jobrunnertest starts a deployment in a test's own process: both management
// APIs, the job API and workers, at an address of this machine, without an account,
// a container or a file. It ends with the test.
//
//	func TestMyClient(t *testing.T) {
//		j := jobrunnertest.Start(t, jobrunnertest.Handle("team/upper", upper))
//		endpoint := j.Endpoint("team/upper:1")
//		client := myclient.New(j.URL, j.Key) // what is tested
//		…
//	}
//
// Options choose what runs an image: a function of the test ([Handle]), a file such as a
// Python handler ([HandleFile]), or the rules of a jobrunner.yaml ([ConfigFile]).
// builtin/echo, which returns its input, and builtin/conformance need no option.
//
// Terraform, the conformance suite and the public SDKs run as processes beside the test:
// [Jobrunner.Environ] is the environment for them.
//
// The module jobrunnercontainer, a folder below, runs the jobrunner's image with
// Testcontainers instead.
package jobrunnertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// Jobrunner is a deployment that runs until its test ends.
type Jobrunner struct {
	// URL is the base address of the management and job APIs, such as http://127.0.0.1:40123.
	URL string
	// Key is the deployment's API key.
	Key string

	t testing.TB
}

// Start starts a deployment with its state in memory. When t ends, the workers and the deployment are
// stopped. Start fails the test if the deployment can't start.
func Start(t testing.TB, options ...Option) *Jobrunner {
	t.Helper()
	s := settings{config: jobrunner.Config{AdminClock: true}}
	for _, o := range options {
		o(&s)
	}
	j := &Jobrunner{t: t}
	if err := j.start(&s); err != nil {
		t.Fatalf("starting a jobrunner: %s", err)
	}
	return j
}

// SDKURL is the base URL for the public SDKs of the job API.
func (j *Jobrunner) SDKURL() string { return j.URL + "/live/v2" }

// Environ returns the environment of the test's process with the variables by which the provider, the
// conformance suite, jobrunner job and the public Python SDK reach the deployment. It is meant for
// [os/exec.Cmd].
func (j *Jobrunner) Environ() []string {
	j.t.Helper()
	variables := j.variables()
	all := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(variables, func(other string) bool { return strings.HasPrefix(other, name+"=") })
	})
	return append(all, variables...)
}

// Setenv sets the variables that Environ adds in the test's own process, until the test ends. Like
// [testing.T.Setenv], it can't be used in parallel tests.
func (j *Jobrunner) Setenv() {
	j.t.Helper()
	for _, v := range j.variables() {
		name, value, _ := strings.Cut(v, "=")
		j.t.Setenv(name, value)
	}
}

// variables returns the variables that Environ adds. The empty ones override variables that would lead
// clients to another deployment.
func (j *Jobrunner) variables() []string {
	return []string{
		"GPUCLOUD_BASE_URL=" + j.URL, "GPUCLOUD_BASE_URL_V1=", "GPUCLOUD_QUEUE_URL=", "GPUCLOUD_API_KEY=" + j.Key,
		"RUNPOD_ENDPOINT_BASE_URL=" + j.SDKURL(), "RUNPOD_API_KEY=" + j.Key,
	}
}

// start opens everything that the settings name. Cleanups of the test close it in reverse order.
func (j *Jobrunner) start(s *settings) (err error) {
	ctx := context.WithoutCancel(j.t.Context()) // workers end in Cleanup, after the test's context
	c := s.config
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if s.showLogs {
		out := &testLog{output: j.t.Output()}
		c.Logger, c.LogWorkers = slog.New(slog.NewTextHandler(out, nil)), out
		j.t.Cleanup(out.close) // runs last
	}
	c.APIKey = cmp.Or(c.APIKey, rand.Text())
	if s.gpus != "" {
		if c.GPUs, err = gpu.Simulate(s.gpus, c.Logger); err != nil {
			return err
		}
		inventory := c.GPUs
		j.t.Cleanup(func() { inventory.Close() })
	}
	server := httptest.NewUnstartedServer(nil)
	listener := httplimit.Listen(server.Listener, httplimit.Config{}) // without it, a refused client that still sends its body would get a reset
	server.Listener, server.Config.ConnContext, server.Config.ConnState = listener, listener.ConnContext, listener.ConnState
	c.URL = "http://" + listener.Addr().String()
	closeServer := func() {
		server.CloseClientConnections() // a request that waits for a job must not delay the end
		server.Close()
	}
	if err := s.openPrograms(ctx, j.t, &c); err != nil {
		closeServer()
		return err
	}
	runner, err := jobrunner.New(ctx, c)
	if err != nil {
		closeServer()
		return err
	}
	server.Config.Handler = runner.Handler()
	for _, wrap := range s.middleware {
		server.Config.Handler = wrap(server.Config.Handler)
	}
	server.Start()
	j.URL, j.Key = server.URL, c.APIKey
	j.t.Cleanup(func() {
		closeServer()
		if err := runner.Close(); err != nil {
			j.t.Errorf("closing the jobrunner: %s", err)
		}
	})
	return nil
}

// Client returns a client that sends the API key with each request to the deployment, and only there.
func (j *Jobrunner) Client() *http.Client {
	return &http.Client{Transport: &keyTransport{url: j.URL, key: j.Key}}
}

type keyTransport struct{ url, key string }

func (t *keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme+"://"+r.URL.Host == t.url && r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// testLog writes to the test's log until the test ends: after that it would panic.
type testLog struct {
	mu     sync.Mutex
	output io.Writer // nil once the test has ended
}

func (l *testLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.output == nil {
		return len(text), nil
	}
	return l.output.Write(text)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.output = nil
}
