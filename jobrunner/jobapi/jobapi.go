// Package jobapi is the job API of a deployment: HTTP in front of the engine
// (service description, section B). Handlers hold no state.
package jobapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Config is what the API stands on.
type Config struct {
	Engine *engine.Engine
	// Endpoint answers ErrNoEndpoint where there is none with a queue.
	Endpoint func(ctx context.Context, id string) (Endpoint, error)
	Workers  func(endpoint string) Workers
	Queued   func(endpoint string) // a job was put into the queue
	Clock    *clock.Clock
	Keys     *apikey.Keys
	NoLimits bool // of rates, open requests and the queue's length: for benchmarks
	Logger   *slog.Logger
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

// operation is one method on one path below /v2/{endpoint_id}.
type operation struct {
	method string
	limit  limits.Operation // what it counts as
	job    bool             // the path ends in the id of a job
	serve  func(*api, http.ResponseWriter, *http.Request, target) error
}

// target is what a request is about.
type target struct {
	endpoint string
	job      string
}

var operations = map[string]operation{
	"run":     {http.MethodPost, limits.Run, false, (*api).run},
	"runsync": {http.MethodPost, limits.RunSync, false, (*api).runSync},
	"status":  {http.MethodGet, limits.Status, true, (*api).status},
	"cancel":  {http.MethodPost, limits.Cancel, true, (*api).cancel},
	"health":  {http.MethodGet, limits.None, false, (*api).health},
}

type api struct {
	Config
	limiter *limits.Limiter
}

// New serves /v2/{endpoint_id}/….
func New(c Config) http.Handler {
	return &api{c, limits.New(c.Clock)}
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
	segments := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if len(segments) < 3 || segments[0] != "v2" {
		return refuse(http.StatusNotFound, "no such path: the job API is /v2/{endpoint_id}/run, /runsync, /status/{job_id}, …")
	}
	op, ok := operations[segments[2]]
	t := target{endpoint: segments[1]}
	switch {
	case !ok, op.job != (len(segments) == 4), len(segments) > 4:
		return refuse(http.StatusNotFound, "no such operation on an endpoint: %s", strings.Join(segments[2:], "/"))
	case r.Method != op.method:
		w.Header().Set("Allow", op.method)
		return refuse(http.StatusMethodNotAllowed, "%s takes %s, not %s", segments[2], op.method, r.Method)
	case op.job:
		t.job = segments[3]
	}
	endpoint, err := a.Endpoint(r.Context(), t.endpoint)
	if err != nil {
		return err
	}
	if !user.MayUse(t.endpoint) {
		return refuse(http.StatusForbidden, "this API key is not for endpoint %s: ask for one that is", t.endpoint)
	}
	done, err := a.admit(w, user, op, t, endpoint)
	if err != nil {
		return err
	}
	defer done()
	return op.serve(a, w, r, t)
}

// fail answers an error as {"error": text}.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusInternalServerError, "the deployment failed to answer: its log says why"
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		status, text = refused.status, refused.text
	case errors.Is(err, ErrNoEndpoint), errors.Is(err, engine.ErrNotFound):
		status, text = http.StatusNotFound, err.Error()
	case errors.Is(err, sqldb.ErrFull):
		status, text = http.StatusInsufficientStorage, err.Error()
		a.Logger.ErrorContext(r.Context(), "a job was refused", "error", err)
	case r.Context().Err() != nil: // nobody is there to read
	default:
		a.Logger.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "error", err)
	}
	body, _ := json.Marshal(map[string]string{"error": text})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
