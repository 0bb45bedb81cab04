package provider_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

const serviceKey = "key-of-the-service-account"

// serviceHosts are the hosts of the service with the paths that each of them serves.
var serviceHosts = map[string]*regexp.Regexp{
	"api.runpod.io":  regexp.MustCompile(`^/v2/(serverless|templates|network-volumes|registries|pods|clusters|catalog|account|billing)(/|$)`),
	"rest.runpod.io": regexp.MustCompile(`^/v1/`),
	"api.runpod.ai":  regexp.MustCompile(`^/v2/[a-z0-9]+/(run|runsync|status|stream|cancel|health)(/|$)`),
	"example.com":    regexp.MustCompile(`^/`),
}

// service is a jobrunner behind the service's host names.
type service struct {
	transport http.RoundTripper

	mu   sync.Mutex
	seen map[string]int // requests by host
}

func startService(t *testing.T) *service {
	t.Helper()
	clearVariables(t)
	s := &service{seen: map[string]int{}}
	j := jobrunnertest.Start(t, jobrunnertest.Key(serviceKey), jobrunnertest.Middleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host := strings.TrimSuffix(r.Host, ":443")
			s.mu.Lock()
			s.seen[host]++
			s.mu.Unlock()
			if serves := serviceHosts[host]; serves == nil || !serves.MatchString(r.URL.Path) {
				t.Errorf("%s %s was sent to %s", r.Method, r.URL.Path, host)
				http.NotFound(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}))
	s.transport = &http.Transport{DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(address); err != nil || port != "443" || serviceHosts[host] == nil {
			return nil, fmt.Errorf("the test has no server at %s", address)
		}
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(j.URL, "http://"))
	}}
	return s
}

func (s *service) start(t *testing.T, block map[string]any) *tfdrive.Provider {
	t.Helper()
	return tfdrive.Start(t, provider.NewWithTransport("test", s.transport)(), block)
}

// hosts returns the hosts that got requests since hosts was called last.
func (s *service) hosts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var called []string
	for _, host := range []string{"api.runpod.io", "rest.runpod.io", "api.runpod.ai", "example.com"} {
		if s.seen[host] > 0 {
			called = append(called, host)
		}
	}
	clear(s.seen)
	return strings.Join(called, " ")
}

func TestServiceAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		block map[string]any
		env   map[string]string
		hosts string
		queue string // of request_urls
	}{
		"v2":                  {map[string]any{"service": "runpod"}, nil, "api.runpod.io api.runpod.ai", "https://api.runpod.ai"},
		"v1":                  {map[string]any{"service": "runpod", "api_version": "v1"}, nil, "rest.runpod.io api.runpod.ai", "https://api.runpod.ai"},
		"variable":            {nil, map[string]string{"GPUCLOUD_SERVICE": "runpod"}, "api.runpod.io api.runpod.ai", "https://api.runpod.ai"},
		"variables, v1":       {nil, map[string]string{"GPUCLOUD_SERVICE": "runpod", "GPUCLOUD_API_VERSION": "v1"}, "rest.runpod.io api.runpod.ai", "https://api.runpod.ai"},
		"base_url":            {map[string]any{"service": "runpod", "base_url": "https://example.com"}, nil, "example.com", "https://example.com"},
		"base_url, v1":        {map[string]any{"service": "runpod", "base_url": "https://example.com/", "api_version": "v1"}, nil, "example.com", "https://example.com"},
		"base_url, variable":  {map[string]any{"service": "runpod"}, map[string]string{"GPUCLOUD_BASE_URL": "https://example.com"}, "example.com", "https://example.com"},
		"variable, base_url":  {map[string]any{"base_url": "https://example.com"}, map[string]string{"GPUCLOUD_SERVICE": "runpod"}, "example.com", "https://example.com"},
		"queue_url":           {map[string]any{"service": "runpod", "queue_url": "https://example.com"}, nil, "api.runpod.io example.com", "https://example.com"},
		"queue_url, v1":       {map[string]any{"service": "runpod", "queue_url": "https://example.com", "api_version": "v1"}, nil, "rest.runpod.io example.com", "https://example.com"},
		"queue_url, variable": {map[string]any{"service": "runpod"}, map[string]string{"GPUCLOUD_QUEUE_URL": "https://example.com"}, "api.runpod.io example.com", "https://example.com"},
		"both":                {map[string]any{"service": "runpod", "base_url": "https://example.com", "queue_url": "https://api.runpod.ai"}, nil, "api.runpod.ai example.com", "https://api.runpod.ai"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startService(t)
			t.Setenv("RUNPOD_API_KEY", serviceKey)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			p := s.start(t, c.block)
			must.Succeed(t, p.ConfigureDiagnostics.Err())
			created := tfdrive.Do(p.Apply(p.Plan("gpucloud_template", tfdrive.State{}, map[string]any{"name": "worker", "image": "builtin/echo", "serverless": true, "disk": 5})))(t)
			endpoint := tfdrive.Do(p.Apply(p.Plan("gpucloud_endpoint", tfdrive.State{}, map[string]any{"name": "hello", "template_id": created.Get("id"), "cpu": []any{map[string]any{"id": "cpu3c", "vcpu_count": 2}}})))(t)
			got, want := endpoint.Get("request_urls.run"), c.queue+"/v2/"+endpoint.Get("id").(string)+"/run"
			must.Hold(t, got == want, "request_urls.run is", got, "want", want)
			tfdrive.Do(p.Open("gpucloud_job", map[string]any{"endpoint_id": endpoint.Get("id"), "input": `{}`, "timeout": "1m"}))(t)
			must.Equal(t, s.hosts(), c.hosts, "the called hosts")
		})
	}
}

// The service's management APIs have different hosts and the same objects.
func TestServiceVersionsShareAState(t *testing.T) {
	s := startService(t)
	block := func(v api.Version) map[string]any {
		return map[string]any{"service": "runpod", "api_key": serviceKey, "api_version": string(v)}
	}
	v1, v2 := s.start(t, block(api.V1)), s.start(t, block(api.V2))
	config := map[string]any{"name": "models", "size": 10, "data_center": "EU-RO-1"}
	for _, c := range []struct{ first, second *tfdrive.Provider }{{v1, v2}, {v2, v1}} {
		created := tfdrive.Do(c.first.Apply(c.first.Plan("gpucloud_network_volume", tfdrive.State{}, config)))(t)
		created = tfdrive.Do(c.first.Read(created))(t)
		state := tfdrive.Do(c.second.Read(created))(t)
		plan := c.second.Plan("gpucloud_network_volume", state, config)
		must.Hold(t, plan.Action == "no-op" && len(plan.Diagnostics) == 0, "the other version plans", plan.Action, plan.Diagnostics)
		must.Succeed(t, c.first.Destroy(state).Err())
		gone, diags := c.second.Reconfigure().Read(created)
		must.Hold(t, !gone.Exists() && len(diags) == 0, "whether a deleted volume is read:", gone.Exists(), diags)
	}
}

func TestServiceKey(t *testing.T) {
	s := startService(t)
	for name, c := range map[string]struct {
		block map[string]any
		env   map[string]string
		err   []string // nil: accepted
	}{
		"RUNPOD_API_KEY":                 {map[string]any{"service": "runpod"}, map[string]string{"RUNPOD_API_KEY": serviceKey}, nil},
		"GPUCLOUD_API_KEY wins":          {map[string]any{"service": "runpod"}, map[string]string{"RUNPOD_API_KEY": "wrong", "GPUCLOUD_API_KEY": serviceKey}, nil},
		"the block wins":                 {map[string]any{"service": "runpod", "api_key": serviceKey}, map[string]string{"RUNPOD_API_KEY": "wrong", "GPUCLOUD_API_KEY": "wrong"}, nil},
		"a wrong key":                    {map[string]any{"service": "runpod"}, map[string]string{"RUNPOD_API_KEY": "planted-key"}, []string{"The API key was rejected", "from RUNPOD_API_KEY"}},
		"a malformed key":                {map[string]any{"service": "runpod"}, map[string]string{"RUNPOD_API_KEY": "planted key"}, []string{"api_key:", "RUNPOD_API_KEY has a blank"}},
		"no key":                         {map[string]any{"service": "runpod"}, nil, []string{"api_key:", "GPUCLOUD_API_KEY or RUNPOD_API_KEY"}},
		"only with the service":          {map[string]any{"base_url": "https://example.com"}, map[string]string{"RUNPOD_API_KEY": serviceKey}, []string{"api_key:", "GPUCLOUD_API_KEY in the environment"}},
		"no address":                     {nil, map[string]string{"RUNPOD_API_KEY": serviceKey}, []string{"base_url:", `service = "runpod"`, "GPUCLOUD_SERVICE=runpod", "base_url", "GPUCLOUD_BASE_URL", "jobrunner serve"}},
		"queue_url alone":                {map[string]any{"queue_url": "https://example.com"}, nil, []string{"base_url:", `service = "runpod"`}},
		"another service":                {map[string]any{"service": "Runpod"}, nil, []string{"service:", `"runpod"`}},
		"another service, in a variable": {nil, map[string]string{"GPUCLOUD_SERVICE": "acme"}, []string{"service:", `GPUCLOUD_SERVICE is "acme"`, "runpod"}},
		"an unknown service":             {map[string]any{"service": tfdrive.Unknown}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			clearVariables(t)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			err := s.start(t, c.block).ConfigureDiagnostics.Err()
			must.Require(t, (err == nil) == (c.err == nil), "got", err)
			if err != nil {
				must.Contain(t, err.Error(), c.err...)
				must.Hold(t, !strings.Contains(err.Error(), "planted"), "the key is in", err)
			}
		})
	}
}
