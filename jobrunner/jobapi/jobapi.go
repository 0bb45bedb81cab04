// Package jobapi is the job API of a deployment: HTTP in front of the engine
// (service description, section B). Handlers hold no state.
package jobapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/fault"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/unavailable"
)

// Config is what the API stands on.
type Config struct {
	Engine *engine.Engine
	// Endpoint answers ErrNoEndpoint where there is none with a queue.
	Endpoint func(ctx context.Context, id string) (Endpoint, error)
	Workers  func(endpoint string) Workers
	Queued   func(endpoint string) // a job was put into the queue
	// Failure says in a line why no worker of an endpoint can work; "": one can, or
	// may yet. nil: nobody knows.
	Failure func(endpoint string) string
	// Webhook says why a webhook may not be called; nil allows every one.
	Webhook func(*url.URL) error
	Clock   *clock.Clock
	Keys    *apikey.Keys
	// Bodies is the memory of the bodies that are being read, Answers of those that
	// are being written; nil: without a bound.
	Bodies, Answers *httplimit.Memory
	NoLimits        bool // of rates, open requests and the queue's length: for benchmarks
	Logger          *slog.Logger
}

// Endpoint is what the API needs to know of an endpoint.
type Endpoint struct{ WorkersMax int }

// Workers counts an endpoint's workers by what they do (field notes: health).
// Ready counts the idle ones too.
type Workers struct {
	Idle         int `json:"idle"`
	Initializing int `json:"initializing"`
	Ready        int `json:"ready"`
	Running      int `json:"running"`
	Throttled    int `json:"throttled"`
	Unhealthy    int `json:"unhealthy"`
}

// ErrNoEndpoint says that there is no such endpoint.
var ErrNoEndpoint = errors.New("no such endpoint")

// operation is what a path below /v2/{endpoint_id} does.
type operation struct {
	methods []string         // none: it is not served at the described door
	live    []string         // the methods at the live door
	limit   limits.Operation // what it counts as
	path    path
	serve   func(*api, http.ResponseWriter, *http.Request, target) error
}

// path is what follows the name of an operation.
type path int

const (
	nothing path = iota
	jobID
	anyRoute // that the handler knows
)

// target is what a request is about, and by which door it came: the described
// one, /v2/…, or that of the public SDKs, /live/v2/….
type target struct {
	owner    string // of the key
	endpoint string
	job      string
	route    string
	live     bool
}

var (
	get       = []string{http.MethodGet}
	post      = []string{http.MethodPost}
	getOrPost = []string{http.MethodGet, http.MethodPost}
)

var operations = map[string]operation{
	"run":         {post, post, limits.Run, nothing, (*api).run},
	"runsync":     {post, post, limits.RunSync, nothing, (*api).runSync},
	"status":      {get, getOrPost, limits.Status, jobID, (*api).status},
	"status-sync": {nil, getOrPost, limits.Status, jobID, (*api).statusSync},
	"stream":      {get, getOrPost, limits.Stream, jobID, (*api).stream},
	"cancel":      {post, post, limits.Cancel, jobID, (*api).cancel},
	"retry":       {post, post, limits.None, jobID, (*api).retry},
	"purge-queue": {post, post, limits.PurgeQueue, nothing, (*api).purgeQueue},
	"health":      {get, get, limits.None, nothing, (*api).health},
	"requests":    {get, get, limits.Requests, nothing, (*api).requests},
	"openai":      {getOrPost, getOrPost, limits.OpenAI, anyRoute, (*api).openAI},
}

type api struct {
	Config
	limiter   *limits.Limiter
	explained sync.Map // endpoints whose SDKs were told of where streams are
}

// New serves /v2/{endpoint_id}/… and /live/v2/{endpoint_id}/….
func New(c Config) http.Handler {
	return &api{Config: c, limiter: limits.New(c.Clock)}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := a.route(w, r); err != nil {
		a.fail(w, r, err)
	}
}

// route answers 401 before anything else, then 404 for the path, 405 for the
// method, 404 for the endpoint, 403 for a key that is not for it, and 429.
func (a *api) route(w http.ResponseWriter, r *http.Request) error {
	user, err := a.Keys.Authorize(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return refuse(http.StatusUnauthorized, "%s", err)
	}
	op, t, err := find(w, r)
	if err != nil {
		return err
	}
	t.owner = user.Owner
	endpoint, err := a.Endpoint(r.Context(), t.endpoint)
	if err != nil {
		return err
	}
	if !user.MayUse(t.endpoint) {
		return refuse(http.StatusForbidden, "this API key is not for endpoint %s: ask for one that is", t.endpoint)
	}
	done, err := a.admit(w, user, op, t, endpoint)
	if err != nil {
		fault.Acts("refused-"+limits.Table[op.limit].Name, r, func(w http.ResponseWriter, r *http.Request) { _ = op.serve(a, w, r, t) })
		if r.ContentLength != 0 { // else net/http reads the body before it answers, however slowly that comes
			w.Header().Set("Connection", "close")
		}
		return err
	}
	defer done()
	return op.serve(a, w, r, t)
}

// find tells what a path and its method mean.
func find(w http.ResponseWriter, r *http.Request) (op operation, t target, err error) {
	rest := strings.TrimPrefix(r.URL.Path, "/")
	if below, ok := strings.CutPrefix(rest, "live/"); ok {
		rest, t.live = below, true
	}
	segments := strings.SplitN(rest, "/", 4)
	if len(segments) < 3 || segments[0] != "v2" {
		return op, t, refuse(http.StatusNotFound, "no such path: the job API is /v2/{endpoint_id}/run, /runsync, /status/{job_id}, …")
	}
	t.endpoint = segments[1]
	name, tail := segments[2], strings.Join(segments[3:], "")
	op, ok := operations[name]
	methods := op.methods
	if t.live {
		methods = op.live
	}
	switch {
	case !ok, len(methods) == 0, (op.path == nothing) != (len(segments) == 3), op.path == jobID && strings.Contains(tail, "/"), op.path != nothing && tail == "":
		return op, t, refuse(http.StatusNotFound, "no such operation on an endpoint: %s", strings.Join(segments[2:], "/"))
	case !slices.Contains(methods, r.Method):
		return op, t, wrongMethod(w, r, name, methods)
	case op.path == jobID:
		t.job = tail
	case op.path == anyRoute:
		t.route = "/" + tail
	}
	r.Pattern = op.path.pattern(r.Method, name, t.live)
	return op, t, nil
}

// pattern is the path as a template, for those who count requests.
func (p path) pattern(method, name string, live bool) string {
	door := "/v2"
	if live {
		door = "/live/v2"
	}
	rest := map[path]string{jobID: "/{job_id}", anyRoute: "/{route}"}[p]
	return method + " " + door + "/{endpoint_id}/" + name + rest
}

func wrongMethod(w http.ResponseWriter, r *http.Request, name string, methods []string) error {
	allow := strings.Join(methods, ", ")
	w.Header().Set("Allow", allow)
	return refuse(http.StatusMethodNotAllowed, "%s takes %s, not %s", name, allow, r.Method)
}

// fail answers an error as {"error": text}.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusInternalServerError, "the deployment failed to answer: its log says why"
	scarce, reason := unavailable.Answer(r.Context(), w.Header(), err)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		status, text = refused.status, refused.text
	case errors.Is(err, ErrNoEndpoint), errors.Is(err, engine.ErrNotFound):
		status, text = http.StatusNotFound, err.Error()
	case scarce != 0:
		status, text = scarce, reason
	case r.Context().Err() != nil: // nobody is there to read
	default:
		a.Logger.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(errorBody(text))
}

func errorBody(text string) []byte {
	body, _ := json.Marshal(map[string]string{"error": text}) // strings always can be
	return body
}
