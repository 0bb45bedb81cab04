package provider_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/pluginserver"
)

// clearVariables clears the provider's variables in the developer's environment.
func clearVariables(t *testing.T) {
	for _, name := range []string{"GPUCLOUD_BASE_URL", "GPUCLOUD_QUEUE_URL", "GPUCLOUD_API_VERSION", "GPUCLOUD_API_KEY", "GPUCLOUD_REQUEST_TIMEOUT", "GPUCLOUD_MAX_HOURLY_COST", "GPUCLOUD_SERVICE", "RUNPOD_API_KEY"} {
		t.Setenv(name, "")
	}
}

func start(t *testing.T, block map[string]any) *tfdrive.Provider {
	t.Helper()
	return tfdrive.Start(t, provider.New("test")(), block)
}

// minimalConfigs has a minimal configuration of each type. An endpoint also needs a template.
var minimalConfigs = map[string]map[string]any{
	"gpucloud_cluster":             {"name": "c", "type": "TRAINING", "image": "i", "compute": map[string]any{"gpu_type_id": "NVIDIA H100 80GB HBM3", "gpu_count_per_pod": 8, "pod_count": 2}},
	"gpucloud_endpoint":            {"name": "e"},
	"gpucloud_global_volume":       {"name": "g"},
	"gpucloud_secret":              {"name": "s", "value_wo": "v", "value_wo_version": 1},
	"gpucloud_network_volume":      {"name": "v", "size": 10, "data_center": "EU-RO-1"},
	"gpucloud_pod":                 {"name": "p", "image": "i", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}},
	"gpucloud_registry_auth":       {"name": "r", "username": "u", "password": "p"},
	"gpucloud_registry_delegation": {"resource": "arn:aws:ecr:us-east-2:123456789012:repository/team/app"},
	"gpucloud_ssh_keys":            {"keys": []any{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example.com"}},
	"gpucloud_template":            {"name": "t", "image": "i"},
}

// The framework keeps the context of each call. It must not keep the call's request, or a large plan would need gigabytes.
func TestRequestsAreNotKept(t *testing.T) {
	server, request := pluginserver.New(provider.New("test")()), new(tfprotov6.ValidateProviderConfigRequest)
	kept := weak.Make(request)
	must.Do(server.ValidateProviderConfig(t.Context(), request))(t)
	runtime.GC()
	must.Equal(t, kept.Value(), nil, "the request of a call that has ended")
	runtime.KeepAlive(server)
}

// The schema loads, the provider can be configured, and each type can be planned.
func TestProviderLoads(t *testing.T) {
	configs := maps.Clone(minimalConfigs)
	onlyOnV2 := []string{"gpucloud_cluster", "gpucloud_global_volume", "gpucloud_secret", "gpucloud_registry_delegation", "gpucloud_ssh_keys"}
	d := acctest.Deploy(t)
	template := must.Do(d.Client(t, api.V2).Templates.Create(t.Context(), api.Template{Name: d.Name("t"), Image: "i", Disk: 50, Serverless: true}))(t)
	configs["gpucloud_endpoint"] = map[string]any{"name": "e", "template_id": template.ID}
	for _, v := range acctest.Versions {
		p := start(t, d.Settings(v))
		must.Succeed(t, p.ConfigureDiagnostics.Err())
		for _, typeName := range p.Types() {
			config, ok := configs[typeName]
			must.Require(t, ok, typeName, "has no configuration: add its minimal configuration to minimalConfigs")
			got := p.Plan(typeName, tfdrive.State{}, config)
			if v == api.V1 && slices.Contains(onlyOnV2, typeName) {
				must.ErrorContains(t, got.Diagnostics.Err(), "exists in management API v2 only")
				continue
			}
			must.Hold(t, got.Action == "create" && got.Get("id") == tfdrive.Unknown, typeName, "on", v, "planned to", got.Action, got.Diagnostics)
		}
		must.Equal(t, len(p.Types()), len(configs), "the provider has", p.Types())
	}
}

func TestProviderSettings(t *testing.T) {
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, map[string]string{"/v1/templates": `[]`, "/v2/templates": `{"templates":[]}`}[r.URL.Path])
	}))
	defer answering.Close()
	full := map[string]any{"base_url": answering.URL, "api_key": "k"}
	without := func(name string) map[string]any {
		out := maps.Clone(full)
		delete(out, name)
		return out
	}
	plus := func(name string, value any) map[string]any {
		out := without(name)
		out[name] = value
		return out
	}
	for name, c := range map[string]struct {
		block map[string]any
		env   map[string]string
		err   []string // nil: accepted
		warns string
	}{
		"complete":                      {block: full},
		"all from variables":            {block: nil, env: map[string]string{"GPUCLOUD_BASE_URL": answering.URL, "GPUCLOUD_API_KEY": "k", "GPUCLOUD_API_VERSION": "v2", "GPUCLOUD_QUEUE_URL": "http://127.0.0.1:2"}},
		"no address":                    {block: without("base_url"), err: []string{"base_url:", "set base_url in the provider block, or GPUCLOUD_BASE_URL in the environment", "jobrunner serve"}},
		"no key":                        {block: without("api_key"), err: []string{"api_key:", "set api_key in the provider block, or GPUCLOUD_API_KEY in the environment", "jobrunner serve"}},
		"version in base_url":           {block: plus("base_url", "http://127.0.0.1:1/v2"), err: []string{"base_url:", "remove /v2"}},
		"version and slash in base_url": {block: plus("base_url", "http://127.0.0.1:1/v1/"), err: []string{"base_url:", "remove /v1"}},
		"version in queue_url":          {block: plus("queue_url", "http://127.0.0.1:1/v2"), err: []string{"queue_url:", "remove /v2"}},
		"version in GPUCLOUD_BASE_URL":  {block: nil, env: map[string]string{"GPUCLOUD_BASE_URL": "http://127.0.0.1:1/v2", "GPUCLOUD_API_KEY": "k"}, err: []string{"base_url:", "GPUCLOUD_BASE_URL", "remove /v2"}},
		"version in GPUCLOUD_QUEUE_URL": {block: full, env: map[string]string{"GPUCLOUD_QUEUE_URL": "http://127.0.0.1:1/v2"}, err: []string{"queue_url:", "GPUCLOUD_QUEUE_URL", "remove /v2"}},
		"no scheme":                     {block: plus("base_url", "127.0.0.1:8420"), err: []string{"base_url:"}},
		"key in address":                {block: plus("base_url", "http://u:s3cret@127.0.0.1"), err: []string{"base_url:"}},
		"unknown version":               {block: plus("api_version", "v3"), err: []string{"api_version:", `expected "v2" or "v1"`}},
		"unknown version from env":      {block: full, env: map[string]string{"GPUCLOUD_API_VERSION": "v3"}, err: []string{"api_version:", "GPUCLOUD_API_VERSION", "v2"}},
		"timeout":                       {block: plus("request_timeout", "90s")},
		"timeout without a unit":        {block: plus("request_timeout", "90"), err: []string{"request_timeout:", "90s or 2m"}},
		"timeout of 0s from env":        {block: full, env: map[string]string{"GPUCLOUD_REQUEST_TIMEOUT": "0s"}, err: []string{"request_timeout:", "GPUCLOUD_REQUEST_TIMEOUT", "1s to 1h"}},
		"unknown timeout":               {block: plus("request_timeout", tfdrive.Unknown)},
		"ceiling":                       {block: plus("max_hourly_cost", 0.5)},
		"ceiling below 0":               {block: plus("max_hourly_cost", -0.5), err: []string{"max_hourly_cost:", "expected at least 0, got -0.5"}},
		"ceiling with a unit from env":  {block: full, env: map[string]string{"GPUCLOUD_MAX_HOURLY_COST": "2 USD"}, err: []string{"max_hourly_cost:", "GPUCLOUD_MAX_HOURLY_COST", "2.5"}},
		"infinite ceiling from env":     {block: full, env: map[string]string{"GPUCLOUD_MAX_HOURLY_COST": "Inf"}, err: []string{"max_hourly_cost:"}},
		"ceiling below 0 from env":      {block: full, env: map[string]string{"GPUCLOUD_MAX_HOURLY_COST": "-1"}, err: []string{"max_hourly_cost:", "GPUCLOUD_MAX_HOURLY_COST"}},
		"unknown ceiling":               {block: plus("max_hourly_cost", tfdrive.Unknown)},
		"plan_checks":                   {block: plus("plan_checks", map[string]any{"names": "warning", "stock": "error", "cost": "off"})},
		"invalid level of a check":      {block: plus("plan_checks", map[string]any{"stock": "warn"}), err: []string{"plan_checks.stock:", `expected "error", "warning" or "off", got "warn"`}},
		"empty plan_checks":             {block: plus("plan_checks", map[string]any{}), warns: "plan_checks has none of cost, data_centers, names, stock"},
		"unknown checks":                {block: plus("plan_checks", tfdrive.Unknown)},
		"unknown check":                 {block: plus("plan_checks", map[string]any{"names": tfdrive.Unknown})},
		"v1 is retired":                 {block: plus("api_version", "v1"), warns: "15 November 2026"},
		"v1 from env":                   {block: full, env: map[string]string{"GPUCLOUD_API_VERSION": "v1"}, warns: "15 November 2026"},
		"unknown address":               {block: plus("base_url", tfdrive.Unknown)},
		"unknown key":                   {block: plus("api_key", tfdrive.Unknown)},
	} {
		t.Run(name, func(t *testing.T) {
			clearVariables(t)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			got := start(t, c.block).ConfigureDiagnostics
			switch err := got.Err(); {
			case c.err == nil && err != nil:
				t.Errorf("rejected: %s", err)
			case c.err != nil && err == nil:
				t.Error("accepted")
			case err != nil:
				must.Contain(t, err.Error(), c.err...)
				must.Hold(t, !strings.Contains(err.Error(), "s3cret"), "a secret is in", err)
			}
			w := got.Warnings()
			must.Hold(t, (c.warns == "") == (w == "") && strings.Contains(w, c.warns), "the warnings are", w, "expected", c.warns)
		})
	}
}

// A plan succeeds while settings are unknown. An apply reports them. Of several reads, only the first fails.
func TestProviderUnknownSettings(t *testing.T) {
	clearVariables(t)
	p := start(t, map[string]any{"base_url": tfdrive.Unknown, "api_key": "k"})
	planned := p.Plan("gpucloud_network_volume", tfdrive.State{}, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"})
	must.Require(t, planned.Action == "create", "planned to", planned.Action, planned.Diagnostics)
	must.ErrorContains(t, tfdrive.Err(p.Apply(planned)), "settings are not known yet")
	must.ErrorContains(t, tfdrive.Err(p.Read(planned.State)), "settings are not known yet")
	state, second := p.Read(planned.State)
	must.Hold(t, second.Err() == nil && state.Exists(), "the next read reports", second)
	must.Contain(t, second.Warnings(), "Not tried, for the same reason")
	d := acctest.Deploy(t)
	template := must.Do(d.Client(t, api.V2).Templates.Create(t.Context(), api.Template{Name: d.Name("t"), Image: "i", Disk: 50, Serverless: true}))(t)
	for _, v := range acctest.Versions { // the final plan has the values of its version
		queue := map[string]any{"name": "e", "template_id": template.ID, "scaling": map[string]any{"type": "REQUEST_COUNT"}}
		known := start(t, d.Settings(v))
		state := tfdrive.Do(known.Apply(known.Resolve(p.Plan("gpucloud_endpoint", tfdrive.State{}, queue), queue)))(t)
		must.Equal(t, p.Plan("gpucloud_endpoint", state, queue).Action, "no-op", "the plan without a change")
		queue["name"] = "f" // which changes need a replacement depends on the version
		p = start(t, map[string]any{"base_url": tfdrive.Unknown, "api_key": "k"})
		must.ErrorContains(t, p.Plan("gpucloud_endpoint", state, queue).Diagnostics.Err(), "settings are not known yet")
	}
}

// If the key may not read a kind, only the first object of the kind draws an error.
func TestForbiddenReads(t *testing.T) {
	clearVariables(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
		}
		w.Write([]byte(`{"title":"Forbidden","status":403,"id":"a","name":"v","size":10,"dataCenter":"EU-RO-1","type":"STANDARD"}`))
	}))
	defer server.Close()
	p := start(t, map[string]any{"base_url": server.URL, "api_key": "k"})
	volume := tfdrive.Do(p.Apply(p.Plan("gpucloud_network_volume", tfdrive.State{}, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"})))(t)
	must.ErrorContains(t, tfdrive.Err(p.Read(volume)), "403 Forbidden")
	state, second := p.Read(volume)
	must.Hold(t, second.Err() == nil && state.Exists(), "the next read reports", second)
	must.Contain(t, second.Warnings(), "The first error about a network volume says why")
}

// An error of the API has the method, address, detail and request id, names its attribute, and contains no secret.
func TestProviderErrors(t *testing.T) {
	clearVariables(t)
	for name, c := range map[string]struct {
		version api.Version
		status  int
		body    string
		expect  []string
	}{
		"v2 problem":      {api.V2, 422, `{"title":"Unprocessable","status":422,"detail":"validation failed","errors":["$.dataCenter: no such place"]}`, []string{"data_center: Could not create the network volume", "POST", "/v2/network-volumes", "422", "no such place", "req-1"}},
		"v1 message":      {api.V1, 400, `{"message":"no such place"}`, []string{"POST", "/v1/networkvolumes", "400", "no such place", "req-1"}},
		"key rejected":    {api.V2, 401, `{"title":"Unauthorized","status":401,"detail":"key planted-key is bad"}`, []string{"401", "the api_key attribute of the provider block", "req-1"}},
		"access rejected": {api.V2, 403, `{"title":"Forbidden","status":403,"detail":"not yours"}`, []string{"403", "the api_key attribute of the provider block", "not yours"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-Id", "req-1")
				if list := map[string]string{"/v2/network-volumes": `{"networkVolumes":[]}`, "/v1/networkvolumes": `[]`}[r.URL.Path]; r.Method == http.MethodGet && list != "" {
					w.Write([]byte(list))
					return
				}
				w.WriteHeader(c.status)
				w.Write([]byte(c.body))
			}))
			defer server.Close()
			p := start(t, map[string]any{"base_url": server.URL, "api_key": "planted-key", "api_version": string(c.version)})
			_, diags := p.Apply(p.Plan("gpucloud_network_volume", tfdrive.State{}, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}))
			text := diags.String()
			must.Contain(t, text, c.expect...)
			must.Hold(t, !strings.Contains(text, "planted-key"), "the key is in", text)
		})
	}
}

// Each reason why the provider can't use the deployment has its own title.
func TestProviderTitles(t *testing.T) {
	clearVariables(t)
	d := acctest.DeployLocal(t, "the responses are the test's own")
	var waits atomic.Bool
	requested, release := make(chan struct{}), make(chan struct{})
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if waits.CompareAndSwap(true, false) {
			close(requested)
			<-release
		}
		w.Write([]byte("<html>sign in</html>"))
	}))
	defer page.Close()
	defer close(release)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for title, block := range map[string]map[string]any{
		"The API key was rejected":                       {"base_url": d.URL, "api_key": "another-key-of-twenty-characters"},
		"The deployment can't be reached":                {"base_url": closed.URL, "api_key": "k"},
		"The management API does not answer as expected": {"base_url": page.URL, "api_key": "k"},
	} {
		err := tfdrive.Start(t, provider.New("test")(), block).ConfigureDiagnostics.Err()
		must.Hold(t, err != nil && strings.HasPrefix(err.Error(), ": "+title+": "), "expected the title", title, err)
	}
	p := tfdrive.Start(t, provider.New("test")(), map[string]any{"base_url": page.URL, "api_key": "k"})
	waits.Store(true)
	go func() {
		<-requested
		p.Stop()
	}()
	err := p.Reconfigure().ConfigureDiagnostics.Err()
	must.Hold(t, err != nil && strings.HasPrefix(err.Error(), ": The run was interrupted: "), "interrupted", err)
}

// Only a 404 of the API removes an object from the state. Any other failure of a refresh keeps it.
func TestProviderOnly404IsAbsent(t *testing.T) {
	clearVariables(t)
	healthy := start(t, acctest.Deploy(t).Settings(api.V2))
	planned := healthy.Plan("gpucloud_network_volume", tfdrive.State{}, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"})
	state := tfdrive.Do(healthy.Apply(planned))(t)
	for _, lists := range []bool{true, false} {
		for _, status := range []int{400, 401, 403, 404, 409, 410, 418, 501} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if lists && r.URL.Path == "/v2/network-volumes" {
					w.Write([]byte(`{"networkVolumes":[]}`))
					return
				}
				w.WriteHeader(status)
				json.NewEncoder(w).Encode(map[string]any{"title": "no", "status": status, "detail": "no"})
			}))
			p := start(t, map[string]any{"base_url": server.URL, "api_key": "k"})
			read, diags := p.Read(state)
			gone := lists && status == 404
			must.Equal(t, diags.Err() == nil && !read.Exists(), gone, "whether a read that is answered", status, "removes the object, with a list:", lists, diags)
			must.Hold(t, gone || read.Value.Equal(state.Value), "a read that was answered", status, "changed the state, with a list:", lists)
			err := p.Destroy(state).Err()
			must.Hold(t, (err == nil) == gone, "a delete that was answered", status, "ended with", err, "with a list:", lists)
			server.Close()
		}
	}
}

// The guide on cost ceilings shows examples/costs and their plans at the prices of its catalog.
func TestCostsGuide(t *testing.T) {
	guide := string(must.ReadFile(t, "../docs/guides/costs.md"))
	cli := must.Do(tfcli.Default(t.Context()))(t)
	d := acctest.DeployWith(t, func(c *jobrunner.Config) { c.Catalog = "../examples/costs/catalog.yaml" })
	if d.Remote {
		t.Skip("only the example has these prices")
	}
	blocks := strings.Count(guide, "```terraform\n")
	files, err := filepath.Glob("../examples/costs/*/main.tf")
	must.Require(t, err == nil && len(files) != 0 && blocks == len(files),
		blocks, "configurations in the guide", len(files), "in examples/costs", err)
	for _, file := range files {
		text := string(must.ReadFile(t, file))
		must.Hold(t, strings.Contains(guide, "```terraform\n"+text+"```"), "the guide doesn't show", file)
		w := d.Workspace(t, cli, api.V2)
		w.Write("main.tf", text)
		writes := d.Writes()
		plan := squeeze(w.MustRun("plan", "-no-color"))
		switch filepath.Base(filepath.Dir(file)) {
		case "ceiling":
			expect(t, plan, "1 to add")
			out, err := w.Run("plan", "-no-color", "-var=workers=5")
			quoted := squeeze(strings.ReplaceAll(regexp.MustCompile(`(?m)(^> .*\n)+`).FindString(guide), "> ", ""))
			must.Hold(t, err != nil && strings.Contains(squeeze(out), strings.TrimSpace(quoted)), "the plan of 5 workers", err, out, "the guide says", quoted)
		case "exception":
			expect(t, plan, "2 to add")
		case "checks":
			expect(t, plan, "1 to add")
			expect(t, plan, "Warning: Above the cost ceiling")
		}
		must.Equal(t, d.Writes(), writes, file, "a plan sent a write")
	}
}

// squeeze removes the line breaks and frames of diagnostics.
func squeeze(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
}
