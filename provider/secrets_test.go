package provider_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

const planted = "Pl4nted0a1b2c3d" // a part of most secrets in these tests

// faultTransport sends requests to the deployment, unless a test replaces the response.
type faultTransport struct {
	mu    sync.Mutex
	fault func(r *http.Request, body []byte) (status int, contentType, response string) // status 0: the deployment answers
}

func (w *faultTransport) set(fault func(*http.Request, []byte) (int, string, string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func (w *faultTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	if fault != nil {
		if status, contentType, response := fault(r, body); status != 0 {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}, "X-Request-Id": {"id-1"}}, Body: io.NopCloser(strings.NewReader(response)), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// log collects the output of several loggers.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// expectClean expects no secret in the log, and empties it.
func (l *log) expectClean(t *testing.T, when string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, planted) {
			t.Errorf("%s: the log has a secret: %s", when, line)
			break
		}
	}
	l.text.Reset()
}

func expectClean(t *testing.T, when string, diags tfdrive.Diagnostics) {
	t.Helper()
	for _, d := range diags {
		text := d.Summary + "\n" + d.Detail
		must.Hold(t, !strings.Contains(text, planted) && !strings.ContainsRune(text, '\x1b'), when, "a diagnostic has a secret or an escape", text)
	}
}

// secretValue returns a value with the secret in every text, or nil for a type without text.
func secretValue(ty tftypes.Type, secret string) any {
	switch {
	case ty.Is(tftypes.String):
		return secret
	case ty.Equal(tftypes.Map{ElementType: tftypes.String}):
		return map[string]any{"TOKEN": secret}
	case ty.Equal(tftypes.List{ElementType: tftypes.String}), ty.Equal(tftypes.Set{ElementType: tftypes.String}):
		return []any{secret}
	}
	return nil
}

func brokenValues(ty tftypes.Type) []any {
	switch {
	case ty.Equal(tftypes.String):
		return []any{"", "no such\x00 value"}
	case ty.Equal(tftypes.Number):
		return []any{-1, 1e18}
	case ty.Equal(tftypes.Bool):
		return []any{true}
	case ty.Equal(tftypes.Map{ElementType: tftypes.String}):
		return []any{map[string]any{"": "x", "A=B": nil}}
	case ty.Equal(tftypes.List{ElementType: tftypes.String}), ty.Equal(tftypes.Set{ElementType: tftypes.String}):
		return []any{[]any{"nope", nil}}
	case ty.Is(tftypes.Object{}):
		return []any{map[string]any{}}
	}
	return nil
}

func brokenSecrets(ty tftypes.Type) (out []any) {
	for _, secret := range []string{planted, planted + "\x00", "'" + planted, planted + "\n" + planted, `{"` + planted + `":`} {
		out = append(out, secretValue(ty, secret))
	}
	if ty.Equal(tftypes.Map{ElementType: tftypes.String}) {
		out = append(out, map[string]any{"": planted}, map[string]any{"A=B": planted}, map[string]any{"A": planted, "B": nil})
	}
	return out
}

// requiredWith has the attributes that a secret attribute requires, and nil for excluded ones.
var requiredWith = map[string]map[string]any{
	"env_wo":      {"env_wo_version": 1},
	"password_wo": {"password_wo_version": 1, "password": nil},
}

// secretConfigs returns a minimal configuration for each attribute that may contain a secret.
func secretConfigs(schema *tfprotov6.Schema, minimal map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, a := range schema.Block.Attributes {
		value := secretValue(a.ValueType(), planted+"-"+a.Name)
		if value == nil || !redact.IsSecret(a.Name) || !a.Optional && !a.Required {
			continue
		}
		config := maps.Clone(minimal)
		config[a.Name] = value
		maps.Copy(config, requiredWith[a.Name])
		out[a.Name] = config
	}
	return out
}

// redact.IsSecret is true for every attribute that a schema marks as sensitive or write-only.
func TestSensitiveAttributesAreSecrets(t *testing.T) {
	clearVariables(t)
	p := start(t, map[string]any{"base_url": "http://127.0.0.1:1", "api_key": "k"})
	for _, typeName := range p.Types() {
		for _, a := range p.Schema(typeName).Block.Attributes {
			must.Hold(t, !a.Sensitive && !a.WriteOnly || redact.IsSecret(a.Name), typeName, a.Name, "is sensitive: add it to secretNames in package redact")
		}
	}
}

// failures returns responses that reject a request, and repeat the request and the object's secret.
func failures(secret string) map[string]func(r *http.Request, body []byte) (int, string, string) {
	return map[string]func(r *http.Request, body []byte) (int, string, string){
		"400 that repeats the request": func(r *http.Request, body []byte) (int, string, string) {
			text, _ := json.Marshal(fmt.Sprintf("\x1b[31mrefused: %s %s %s", r.Header.Get("Authorization"), body, secret))
			return 400, "application/problem+json", fmt.Sprintf(`{"title":%s,"status":400,"detail":%[1]s,"message":%[1]s,"errors":[%[1]s]}`, text)
		},
		"403 in plain text": func(_ *http.Request, body []byte) (int, string, string) {
			return 403, "text/plain", string(body) + secret
		},
	}
}

// No diagnostic and no TRACE log has a secret. The test plants one in each attribute that may have it, and causes
// errors by invalid values, the other API version, and failing requests in every step.
func TestNoDiagnosticHasASecret(t *testing.T) {
	acctest.LeaveToCI(t, "TestForeignTextIsRedacted and the tests of redact test its parts")
	clearVariables(t)
	for _, v := range acctest.Versions {
		d := acctest.Deploy(t)
		template := must.Do(d.Client(t, api.V2).Templates.Create(t.Context(), api.Template{Name: d.Name("t"), Image: "i", Disk: 50, Serverless: true}))(t)
		transport, logged := new(faultTransport), new(log)
		p := tfdrive.Start(t, provider.NewWithTransport("test", transport)(), d.Settings(v)).LogTo(logged).Reconfigure()
		for _, typeName := range p.Types() {
			minimal := maps.Clone(minimalConfigs[typeName])
			if typeName == "gpucloud_endpoint" {
				minimal["template_id"] = template.ID
			}
			schema := p.Schema(typeName)
			for attribute, config := range secretConfigs(schema, minimal) {
				name := fmt.Sprintf("%s %s.%s", v, typeName, attribute)
				for _, a := range schema.Block.Attributes {
					values := brokenValues(a.ValueType())
					if a.Name == attribute {
						values = brokenSecrets(a.ValueType())
					}
					for _, value := range values {
						if !a.Optional && !a.Required {
							continue
						}
						changed := maps.Clone(config)
						changed[a.Name] = value
						expectClean(t, fmt.Sprintf("%s, planned with %s = %.40v", name, a.Name, value), p.Plan(typeName, tfdrive.State{}, changed).Diagnostics)
					}
				}
				testLifecycle(t, p, transport, name, typeName, config, attribute)
				logged.expectClean(t, name)
			}
		}
	}
}

// testLifecycle creates, reads, updates and deletes an object. Each step first fails in several ways.
func testLifecycle(t *testing.T, p *tfdrive.Provider, transport *faultTransport, name, typeName string, config map[string]any, attribute string) {
	planned := p.Plan(typeName, tfdrive.State{}, config)
	expectClean(t, name+", planned", planned.Diagnostics)
	if planned.Diagnostics.Err() != nil {
		return
	}
	secret := planted + "-" + attribute // the object's secret
	expectCleanFailures := func(step string, do func() tfdrive.Diagnostics) {
		for kind, response := range failures(secret) {
			p.Reconfigure() // without the lists that the previous step has cached
			transport.set(response)
			expectClean(t, name+", "+step+" with "+kind, do())
			transport.set(nil)
		}
		p.Reconfigure()
	}
	expectCleanFailures("create", func() tfdrive.Diagnostics { _, diags := p.Apply(planned); return diags })
	state, diags := p.Apply(planned)
	expectClean(t, name+", created", diags)
	must.Require(t, diags.Err() == nil, name, diags)
	if strings.Contains(attribute, "_wo") {
		secret = "" // the provider doesn't know it any more, so it can't redact it
	}
	expectCleanFailures("read", func() tfdrive.Diagnostics { _, diags := p.Read(state); return diags })
	state, diags = p.Read(state)
	must.Hold(t, diags.Err() == nil, name, diags)
	changed := maps.Clone(config)
	for _, a := range p.Schema(typeName).Block.Attributes {
		if a.Name == attribute {
			changed[attribute] = secretValue(a.ValueType(), planted+"-again")
		}
	}
	if version := attribute + "_version"; config[version] != nil {
		changed[version] = 2
	}
	update := p.Plan(typeName, state, changed)
	expectClean(t, name+", planned again", update.Diagnostics)
	if update.Diagnostics.Err() == nil && update.Action == "update" {
		expectCleanFailures("update", func() tfdrive.Diagnostics { _, diags := p.Apply(update); return diags })
		after, diags := p.Apply(update)
		expectClean(t, name+", updated", diags)
		if diags.Err() == nil {
			state = after
		}
	}
	if state.Contains(planted + "-again") {
		secret = planted + "-again"
	}
	expectCleanFailures("delete", func() tfdrive.Diagnostics { return p.Destroy(state) })
	expectClean(t, name+", deleted", p.Destroy(state))
}

// The log has each request with its outcome, and bodies at TRACE.
func TestRequestsAreLogged(t *testing.T) {
	clearVariables(t)
	d := acctest.Deploy(t)
	transport, logged := new(faultTransport), new(log)
	p := tfdrive.Start(t, provider.NewWithTransport("test", transport)(), d.Settings(api.V2)).LogTo(logged).Reconfigure()
	logged.text.Reset()
	rejections := 1
	transport.set(func(r *http.Request, _ []byte) (int, string, string) {
		if r.Method == http.MethodPost && rejections > 0 {
			rejections--
			return 429, "application/problem+json", `{"title":"Too Many Requests","status":429}`
		}
		return 0, "", ""
	})
	config := map[string]any{"name": "logged", "image": "visible-image", "env": map[string]any{"TOKEN": planted}}
	state := tfdrive.Do(p.Apply(p.Plan("gpucloud_template", tfdrive.State{}, config)))(t)
	defer p.Destroy(state)
	var requests, bodies []map[string]any
	for line := range strings.Lines(logged.text.String()) {
		var entry map[string]any
		must.Succeed(t, json.Unmarshal([]byte(line), &entry))
		switch {
		case entry["method"] != "POST":
		case entry["@message"] == "request":
			requests = append(requests, entry)
		default:
			bodies = append(bodies, entry)
		}
	}
	must.Require(t, len(requests) == 2, "the tries of the POST", requests)
	for i, want := range []map[string]any{{"status": 429.0, "attempt": 1.0}, {"status": 201.0, "attempt": 2.0}} {
		got := requests[i]
		_, timed := got["duration_ms"].(float64)
		must.Hold(t, timed && got["@level"] == "debug" && got["status"] == want["status"] && got["attempt"] == want["attempt"] && got["url"] == d.URL+"/v2/templates" && (i != 1 || got["request_id"] != ""), "try", i+1, got)
	}
	if !slices.ContainsFunc(bodies, func(e map[string]any) bool {
		body, _ := e["body"].(string)
		return e["@level"] == "trace" && e["@message"] == "request body" && strings.Contains(body, "visible-image") && strings.Contains(body, `"TOKEN":"[redacted]"`)
	}) {
		t.Errorf("no body of a request at trace level: %v", bodies)
	}
	logged.expectClean(t, "a create")
}

// Workers, pods and jobs may print the variables of env, env_wo and the template, a key line by line, and
// terminal escapes. States and diagnostics contain only the rest of the text.
func TestForeignTextIsRedacted(t *testing.T) {
	clearVariables(t)
	key := []string{"-----BEGIN PRIVATE KEY-----", planted + "AAAABBBBCCCC", planted + "DDDDEEEEFFFF", "-----END PRIVATE KEY-----"}
	env := map[string]any{"KEY": strings.Join(key, "\n"), "SHORT": "hunter2", "LEVEL": "info", "LETTER": "a"}
	lines := append(slices.Clone(key), "\x1b[31minfo: a model is not there\x1b[0m", "login with hunter2, "+planted+"-template", "\x1b]0;"+planted+"\x07written "+planted+"-written")
	text, _ := json.Marshal(strings.Join(lines, "\n"))
	expectRedacted := func(t *testing.T, what, got string) {
		t.Helper()
		must.Hold(t, !strings.Contains(got, planted) && !strings.Contains(got, "hunter2") && !strings.ContainsRune(got, '\x1b') && strings.Contains(got, "info: a model is not there"),
			what, got)
	}

	d := acctest.Deploy(t)
	c := d.Client(t, api.V2)
	written := map[string]string{"KEY": strings.Join(key, "\n"), "SHORT": "hunter2", "T": planted + "-template", "W": planted + "-written", "LETTER": "a", "LEVEL": "info"}
	template := must.Do(c.Templates.Create(t.Context(), api.Template{Name: d.Name("t"), Image: "i", Disk: 50, Serverless: true, Env: map[string]string{"T": planted + "-template"}}))(t)
	endpoint := must.Do(c.Endpoints.Create(t.Context(), api.Endpoint{Name: "e", Type: "QUEUE", Workers: api.Workers{Max: 1}, Container: &api.Container{Image: new("i"), Env: written}}))(t)
	podEnv, _ := json.Marshal(written)
	pod := fmt.Sprintf(`{"id":"p1","name":"p","image":"i","args":"","disk":5,"env":%s,"ports":[],"mounts":{},"cloud":"SECURE","locked":false,"status":"EXITED","reason":%s}`, podEnv, text)
	var events strings.Builder
	for _, line := range lines {
		quoted, _ := json.Marshal(line)
		fmt.Fprintf(&events, "data: {\"ts\":\"2026-01-01T00:00:00Z\",\"source\":\"container\",\"line\":%s}\n\n", quoted)
	}
	transport := &faultTransport{fault: func(r *http.Request, _ []byte) (int, string, string) {
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/logs"):
			return 200, "text/event-stream", events.String()
		case strings.HasSuffix(path, "/workers"):
			return 200, "application/json", fmt.Sprintf(`{"workers":[{"id":"w1","status":"UNHEALTHY","reason":%s}],"summary":{"unhealthy":1,"total":1}}`, text)
		case path == "/v2/pods":
			return 403, "application/problem+json", `{"title":"Forbidden","status":403}`
		case path == "/v2/pods/p1":
			return 200, "application/json", pod
		case path == "/v2/clusters/c1/pods":
			return 200, "application/json", `{"pods":[` + pod + `]}`
		case strings.Contains(path, "/status/"):
			return 200, "application/json", fmt.Sprintf(`{"id":"j1","status":"FAILED","error":%s}`, text)
		}
		return 0, "", ""
	}}
	p := tfdrive.Start(t, provider.NewWithTransport("test", transport)(), d.Settings(api.V2))
	for typeName, config := range map[string]map[string]any{
		"gpucloud_endpoint_workers": {"endpoint_id": endpoint.ID},
		"gpucloud_worker_logs":      {"endpoint_id": endpoint.ID, "worker_id": "w1"},
		"gpucloud_pod_logs":         {"pod_id": "p1"},
		"gpucloud_cluster_pods":     {"cluster_id": "c1"},
		"gpucloud_job":              {"endpoint_id": endpoint.ID, "id": "j1"},
	} {
		got := tfdrive.Do(p.Reconfigure().Data(typeName, config))(t)
		encoded, _ := json.Marshal(got.All())
		expectRedacted(t, typeName, strings.ReplaceAll(string(encoded), `\u001b`, "\x1b"))
	}
	waiting := map[string]any{"name": "w", "template_id": template.ID, "env": env, "env_wo": map[string]any{"W": planted + "-written"}, "env_wo_version": 1,
		"workers": map[string]any{"min": 1, "max": 1}, "wait_for": map[string]any{"worker": true}, "timeouts": map[string]any{"create": "300ms"}}
	state, diags := p.Reconfigure().Apply(p.Plan("gpucloud_endpoint", tfdrive.State{}, waiting))
	must.Require(t, diags.Err() != nil, "the wait succeeded")
	expectRedacted(t, "wait_for", fmt.Sprint(diags.Err()))
	p.Destroy(state)
}
