// Package workerapi is the worker protocol of a deployment: the HTTP by which a
// process, such as one of the public Python worker SDK, takes jobs and tells
// what comes of them. Handlers hold no state.
package workerapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/unavailable"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Workers are those that the deployment has started.
type Workers interface {
	// Authorize answers worker.ErrNoWorker or worker.ErrKey where the key is not
	// that of the worker.
	Authorize(endpoint, worker, key string) error
	// Take answers at most max jobs. It waits for the first until ctx ends, or
	// the worker is to take no more: then there are none, and no error.
	Take(ctx context.Context, endpoint, worker string, max int) ([]engine.Taken, error)
	// Stops answers the ids of jobs that the worker should stop. It waits for the
	// first as Take does.
	Stops(ctx context.Context, endpoint, worker string) ([]string, error)
	// Report says what came of a job. One that the worker does not hold changes
	// nothing and is no error. With replace a fresh worker takes this one's place
	// after the job.
	Report(ctx context.Context, endpoint, worker, job string, r engine.Report, replace bool) error
	// Posting says that a result of the job may be on its way, until done is
	// called: Stops does not name it.
	Posting(endpoint, worker, job string) (done func())
	// Idle says that the worker asks for jobs and has none in its hands. What it
	// held until now is lost: it began anew, or a result did not get through.
	Idle(ctx context.Context, endpoint, worker string) error
	// Ping says that a process of the worker lives, and what it believes to run: a
	// moment ago, and perhaps for ever where the worker itself has crashed.
	Ping(ctx context.Context, endpoint, worker string, jobs []string) error
	// SDK says on which release of the public SDK the worker is built.
	SDK(endpoint, worker, release string)
	// Unhealthy says that the worker found itself unfit, and why.
	Unhealthy(ctx context.Context, endpoint, worker, reason string) error
}

// Config is what the protocol stands on.
type Config struct {
	Workers Workers
	// Bodies is the memory of the bodies that are being read; nil: without a bound.
	Bodies *httplimit.Memory
	Logger *slog.Logger
}

// route is what a path below /v2/{endpoint_id} does.
type route struct {
	method string
	job    bool // the path ends with the id of a job
	// held is for a poll that a worker repeats at once when it fails.
	held  bool
	serve func(*api, http.ResponseWriter, *http.Request, target) error
}

// target is what a request is about.
type target struct {
	endpoint, worker, job string
	query                 url.Values
}

// A ping with status=unhealthy makes the seventh route.
var routes = map[string]route{
	"job-take":       {http.MethodGet, false, true, (*api).take},
	"job-take-batch": {http.MethodGet, false, true, (*api).takeBatch},
	"job-stop":       {http.MethodGet, false, false, (*api).stops},
	"job-stream":     {http.MethodPost, true, false, (*api).stream},
	"job-done":       {http.MethodPost, true, false, (*api).done},
	"ping":           {http.MethodGet, false, false, (*api).ping},
}

// Owns tells whether a path is one of the worker protocol.
func Owns(path string) bool {
	_, ok := routes[operation(path)]
	return ok
}

// Polls tells whether a path is of a request that a worker repeats all the time,
// or at each chunk of an output: a result of a job is none of them.
func Polls(path string) bool { return Owns(path) && operation(path) != "job-done" }

// operation is what a path below /v2/{endpoint_id} names, "" for any other path.
func operation(path string) string {
	segments := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 4)
	if len(segments) < 4 || segments[0] != "v2" {
		return ""
	}
	return segments[2]
}

type api struct{ Config }

// New serves /v2/{endpoint_id}/job-take/{worker_id} and the other routes.
func New(c Config) http.Handler { return &api{c} }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := a.route(w, r); err != nil {
		a.fail(w, r, err)
	}
}

// route answers 404 for the path, 405 for the method, 401 without a key, 404
// for a worker that is not there, and 401 for a key that is not the worker's.
func (a *api) route(w http.ResponseWriter, r *http.Request) error {
	route, t, err := find(w, r)
	if err != nil {
		return err
	}
	if err = a.authorize(r, t); err == nil {
		err = route.serve(a, w, r, t)
	}
	if err != nil && route.held {
		pause(r.Context(), refusalHeld)
	}
	return err
}

// find tells what a path and its method mean. Some workers append parameters
// with & to a path that has no query.
func find(w http.ResponseWriter, r *http.Request) (route, target, error) {
	path, more, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "&")
	segments := strings.Split(path, "/")
	if len(segments) < 4 || segments[0] != "v2" {
		return route{}, target{}, refuse(http.StatusNotFound, "no such path: the worker protocol is /v2/{endpoint_id}/job-take/{worker_id}, …")
	}
	found, ok := routes[segments[2]]
	t := target{endpoint: segments[1], worker: segments[3], query: query(r.URL.RawQuery, more)}
	switch {
	case !ok, t.worker == "", found.job != (len(segments) == 5), !found.job && len(segments) != 4:
		return route{}, target{}, refuse(http.StatusNotFound, "no such operation of a worker: %s", strings.Join(segments[2:], "/"))
	case r.Method != found.method:
		w.Header().Set("Allow", found.method)
		return route{}, target{}, refuse(http.StatusMethodNotAllowed, "%s takes %s, not %s", segments[2], found.method, r.Method)
	case found.job:
		t.job = segments[4]
	}
	r.Pattern = found.pattern(segments[2])
	return found, t, nil
}

// query reads parameters from wherever a worker put them.
func query(raws ...string) url.Values {
	all := url.Values{}
	for _, raw := range raws {
		values, _ := url.ParseQuery(raw) // an error leaves those that could be read
		for name, v := range values {
			all[name] = append(all[name], v...)
		}
	}
	return all
}

// pattern is the path as a template, for those who count requests.
func (r route) pattern(name string) string {
	p := r.method + " /v2/{endpoint_id}/" + name + "/{worker_id}"
	if r.job {
		p += "/{job_id}"
	}
	return p
}

var errNoKey = errors.New("the worker's key is missing: send it as Authorization, bare or as Bearer <key>")

func (a *api) authorize(r *http.Request, t target) error {
	key := strings.TrimSpace(r.Header.Get("Authorization"))
	if scheme, rest, ok := strings.Cut(key, " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(rest)
	}
	if key == "" {
		return errNoKey
	}
	return a.Workers.Authorize(t.endpoint, t.worker, key)
}

// refusal is an answer that says what is wrong with a request.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// fail answers an error as {"error": text}. A worker tries 5xx again.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusInternalServerError, "the deployment failed to answer: its log says why"
	scarce, reason := unavailable.Answer(r.Context(), w.Header(), err)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		status, text = refused.status, refused.text
	case errors.Is(err, worker.ErrNoWorker):
		status, text = http.StatusNotFound, err.Error()
	case errors.Is(err, worker.ErrKey), errors.Is(err, errNoKey):
		status, text = http.StatusUnauthorized, err.Error()
		w.Header().Set("WWW-Authenticate", "Bearer")
	case scarce != 0:
		status, text = scarce, reason
	case r.Context().Err() != nil: // nobody is there to read
	default:
		a.Logger.ErrorContext(r.Context(), "a worker's request failed", "request", r.Pattern, "error", err)
	}
	answer(w, status, map[string]string{"error": text})
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, body any) {
	text, _ := json.Marshal(body) // maps and lists of strings always can be
	write(w, status, text)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // some clients read no chunks
	w.WriteHeader(status)
	_, _ = w.Write(body) // a worker that is gone needs no answer
}

// pause waits in real time, which is a worker's: its deployment's clock may be
// advanced, its own time-outs may not.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
