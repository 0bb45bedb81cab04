package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// scene is a jobrunner with the objects that requests need.
type scene struct {
	url  string
	http *http.Client
	// keys by kind: ownKey and userKey have all rights, scopedKey has only the job API of one endpoint.
	keys map[string]string
	sent atomic.Int64

	ids      *strings.Replacer // replaces %name% in bodies by the id of an object
	endpoint string            // id of an endpoint with a worker
	worker   string
}

const buildID = "build-1" // the build of every endpoint

const (
	ownKey    = "own"
	userKey   = "user"
	scopedKey = "scoped"
)

func newScene(t *testing.T, configure func(*jobrunner.Config)) *scene {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	gpus := must.Do(gpu.Simulate("h200x8", log))(t)
	t.Cleanup(gpus.Close)
	dir := t.TempDir()
	s := &scene{keys: map[string]string{ownKey: "the-key-of-the-deployment"}}
	for name, endpoints := range map[string][]string{userKey: nil, scopedKey: {"some-endpoint"}} {
		s.keys[name] = must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: name, Endpoints: endpoints}))(t)
	}
	config := jobrunner.Config{APIKey: s.keys[ownKey], KeyDir: dir, GPUs: gpus, Logger: log, Catalog: catalogOfBuilds(t, dir)}
	if configure != nil {
		configure(&config)
	}
	j := must.Do(jobrunner.New(t.Context(), config))(t)
	server := httptest.NewUnstartedServer(j.Handler())
	listener := httplimit.Listen(server.Listener, httplimit.Config{}) // a refused client may still send its body
	server.Listener, server.Config.ConnContext, server.Config.ConnState = listener, listener.ConnContext, listener.ConnState
	server.Start()
	t.Cleanup(func() {
		server.Close()
		must.Succeed(t, j.Close())
	})
	s.url, s.http = server.URL, server.Client()
	return s
}

// catalogOfBuilds writes a catalog file with a build of every endpoint.
func catalogOfBuilds(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "catalog.yaml")
	must.Succeed(t, os.WriteFile(path, []byte("builds: [{endpoint: \"*\", id: "+buildID+", status: COMPLETED, commit_hash: 0123abc, commit_message: all, branch: main, image_name: i}]\n"), 0o600))
	return path
}

// furnish creates the objects that bodies refer to, and a worker.
func (s *scene) furnish(t *testing.T) {
	t.Helper()
	s.ids = strings.NewReplacer(
		"%template%", s.create(t, "/v1/templates", `{"name":"for workers","imageName":"i","isServerless":true}`),
		"%registry%", s.create(t, "/v2/registries", `{"name":"r","username":"u","password":"p"}`),
		"%volume%", s.create(t, "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"EU-RO-1"}`),
	)
	s.endpoint = s.create(t, "/v2/serverless", `{"name":"with a worker","image":"builtin/echo","type":"QUEUE","scaling":{"type":"QUEUE_DELAY","queueDelay":4},"gpu":{"pools":["HOPPER_141"]},"workers":{"min":1,"max":1}}`)
	for s.worker == "" {
		var list struct{ Workers []struct{ ID string } }
		a := s.send(t, request{method: "GET", path: "/v2/serverless/" + s.endpoint + "/workers"})
		err := json.Unmarshal(a.body, &list)
		must.Require(t, err == nil && a.success(), "the list of workers was answered with", a.status, string(a.body))
		if len(list.Workers) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		s.worker = list.Workers[0].ID
	}
}

// request is a request to the jobrunner.
type request struct {
	part       string // the part of the request that may be invalid
	name       string // name of the case
	method     string
	path       string
	query      url.Values
	header     http.Header
	body       string
	key        string // kind of key; default ownKey
	invalid    bool   // it must be rejected, although no schema says so
	oneFinding bool   // one finding says that it is invalid, instead of a finding for each fault
}

func (r request) String() string {
	body := r.body
	if len(body) > 300 {
		body = body[:300] + "…"
	}
	return fmt.Sprintf("%s %s: %s %s?%s %s %v, key %q", r.part, r.name, r.method, r.path, r.query.Encode(), body, r.header, r.key)
}

// newRequest returns the request as an http.Request.
func (s *scene) newRequest(t *testing.T, r request) *http.Request {
	t.Helper()
	address := s.url + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	out := must.Do(http.NewRequestWithContext(t.Context(), r.method, address, strings.NewReader(r.body)))(t)
	if r.body != "" {
		out.Header.Set("Content-Type", "application/json")
	}
	if len(r.body) > 1<<16 {
		out.Header.Set("Expect", "100-continue") // so that an error doesn't wait for the body
	}
	for name, values := range r.header {
		out.Header[name] = values
	}
	return out
}

// prepared replaces the placeholders for ids and for a unique text.
func (s *scene) prepared(r request) request {
	n := fmt.Sprint(s.sent.Add(1))
	r.body = strings.ReplaceAll(r.body, "%N%", n)
	if s.ids != nil {
		r.body = s.ids.Replace(r.body)
	}
	return r
}

// send also checks the answer's members against the contract.
func (s *scene) send(t *testing.T, r request) answer {
	t.Helper()
	out := s.newRequest(t, r)
	switch key := s.keys[r.key]; {
	case r.key == "none":
	case r.key == "wrong":
		out.Header.Set("Authorization", "Bearer not-a-key")
	case key == "":
		out.Header.Set("Authorization", "Bearer "+s.keys[ownKey])
	default:
		out.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := s.http.Do(out)
	must.Succeed(t, err, r)
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return a // the body doesn't end
	}
	a.body, err = io.ReadAll(resp.Body)
	must.Succeed(t, err, r)
	version, path, _ := strings.Cut(strings.TrimPrefix(r.path, "/"), "/")
	faults := bodyFaults(contract.API(version), "error", contract.Read, a.body)
	if a.success() {
		faults = tableFaults(contract.API(version), r.method, "/"+path, a.body)
	}
	for _, fault := range faults {
		t.Errorf("the answer and the contract's table differ: %s", fault)
	}
	return a
}

// create creates an object and returns its id.
func (s *scene) create(t *testing.T, path, body string) string {
	t.Helper()
	r := s.prepared(request{name: "create", method: "POST", path: path, body: body})
	a := s.send(t, r)
	var response struct{ ID string }
	err := json.Unmarshal(a.body, &response)
	must.Require(t, err == nil && a.success() && response.ID != "", r, "created no object:", a.status, string(a.body))
	return response.ID
}

func (s *scene) awaitRunning(t *testing.T, id string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if a := s.send(t, request{method: "GET", path: "/v2/pods/" + id}); bytes.Contains(a.body, []byte(`"status":"RUNNING"`)) {
			return
		}
	}
	t.Fatalf("the pod %s doesn't run", id)
}
