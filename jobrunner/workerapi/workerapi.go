// Package workerapi is the worker protocol of a deployment: the HTTP by which a
// process, such as one of the public Python worker SDK, takes jobs and tells
// what comes of them. Handlers hold no state.
package workerapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httproute"
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

// operation is what a path below /v2/{endpoint_id} does.
type operation struct {
	// delaysRefusal is for a poll that a worker repeats at once when it fails.
	delaysRefusal bool
	serve         func(*api, http.ResponseWriter, *http.Request, target) error
}

// target is what a request is about.
type target struct {
	endpoint, worker, job string
	query                 url.Values
}

// routes are the paths of the protocol. A ping with status=unhealthy makes the
// seventh.
var routes = func() (t httproute.Table[operation]) {
	t.Add("GET", "/v2/{endpoint_id}/job-take/{worker_id}", operation{true, (*api).take})
	t.Add("GET", "/v2/{endpoint_id}/job-take-batch/{worker_id}", operation{true, (*api).takeBatch})
	t.Add("GET", "/v2/{endpoint_id}/job-stop/{worker_id}", operation{false, (*api).stops})
	t.Add("POST", "/v2/{endpoint_id}/job-stream/{worker_id}/{job_id}", operation{false, (*api).stream})
	t.Add("POST", "/v2/{endpoint_id}/job-done/{worker_id}/{job_id}", operation{false, (*api).done})
	t.Add("GET", "/v2/{endpoint_id}/ping/{worker_id}", operation{false, (*api).ping})
	return t
}()

// repeated tells of each operation whether a worker repeats it all the time, or
// at each chunk of an output.
var repeated = map[string]bool{"job-take": true, "job-take-batch": true, "job-stop": true, "job-stream": true, "job-done": false, "ping": true}

// Owns tells whether a path is one of the worker protocol.
func Owns(path string) bool {
	_, ok := repeated[operationOf(path)]
	return ok
}

// Polls tells whether a path is of a request that a worker repeats all the time,
// or at each chunk of an output: a result of a job is none of them.
func Polls(path string) bool { return repeated[operationOf(path)] }

// operationOf is what a path below /v2/{endpoint_id} names, "" for any other path.
func operationOf(path string) string {
	path, ok := strings.CutPrefix(path, "/v2/")
	_, path, _ = strings.Cut(path, "/")
	name, _, more := strings.Cut(path, "/")
	if !ok || !more {
		return ""
	}
	return name
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
	op, t, err := find(r)
	if err != nil {
		return err
	}
	if err = a.authorize(r, t); err == nil {
		err = op.serve(a, w, r, t)
	}
	if err != nil && op.delaysRefusal {
		pause(r.Context(), refusalDelay)
	}
	return err
}

// find tells what a path and its method mean. Some workers append parameters
// with & to a path that has no query.
func find(r *http.Request) (operation, target, error) {
	path, more, _ := strings.Cut(r.URL.Path, "&")
	found := routes.Find(r.Method, path)
	switch {
	case found.Allow == nil:
		return operation{}, target{}, httpanswer.Refuse(http.StatusNotFound, "there is nothing at %s: the worker protocol is /v2/{endpoint_id}/job-take/{worker_id}, …", path)
	case found.Pattern == "":
		return operation{}, target{}, httpanswer.NotAllowed(r, found.Allow...)
	}
	r.Pattern = found.Pattern
	return found.Does, target{found.Values[0], found.Values[1], found.Values[2], query(r.URL.RawQuery, more)}, nil
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

func (a *api) authorize(r *http.Request, t target) error {
	key := strings.TrimSpace(r.Header.Get("Authorization"))
	if scheme, rest, ok := strings.Cut(key, " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(rest)
	}
	if key == "" {
		return httpanswer.Refuse(http.StatusUnauthorized, "the worker's key is missing: send it as Authorization, bare or as Bearer <key>")
	}
	return a.Workers.Authorize(t.endpoint, t.worker, key)
}

// fail answers an error as {"error": text}. A worker tries 5xx again.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, worker.ErrNoWorker):
		err = httpanswer.Refuse(http.StatusNotFound, "%s", err)
	case errors.Is(err, worker.ErrKey):
		err = httpanswer.Refuse(http.StatusUnauthorized, "%s", err)
	}
	httpanswer.Error.Fail(w, r, a.Logger, err)
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
