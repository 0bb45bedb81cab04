// Package workerapi serves the worker protocol of a deployment: the HTTP API with
// which a process, such as a program on the public Python worker SDK, takes jobs
// and reports their results. Handlers hold no state.
package workerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httproute"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type Config struct {
	// Authorize returns the protocol of an authorized worker, worker.ErrNoWorker or worker.ErrKey.
	Authorize func(endpoint, worker, key string) (worker.Protocol, error)
	Bodies    *httplimit.Memory // memory of the bodies that are being read
	Logger    *slog.Logger
}

type operation struct {
	// delaysRefusal is true for a poll that a worker repeats at once after a failure.
	delaysRefusal bool
	serve         func(*api, http.ResponseWriter, *http.Request, target) error
}

type target struct {
	worker.Protocol       // nil before the worker is authorized
	endpoint, worker, job string
	query                 url.Values
}

// routes are the paths of the protocol. A ping with status=unhealthy reports an unhealthy worker.
var routes = func() (t httproute.Table[operation]) {
	t.Add("GET", "/v2/{endpoint_id}/job-take/{worker_id}", operation{true, (*api).take})
	t.Add("GET", "/v2/{endpoint_id}/job-take-batch/{worker_id}", operation{true, (*api).takeBatch})
	t.Add("GET", "/v2/{endpoint_id}/job-stop/{worker_id}", operation{false, (*api).stops})
	t.Add("POST", "/v2/{endpoint_id}/job-stream/{worker_id}/{job_id}", operation{false, (*api).stream})
	t.Add("POST", "/v2/{endpoint_id}/job-done/{worker_id}/{job_id}", operation{false, (*api).done})
	t.Add("GET", "/v2/{endpoint_id}/ping/{worker_id}", operation{false, (*api).ping})
	return t
}()

// isFrequent has all operations. The value is true if a worker requests the operation continually, or
// for each chunk of an output.
var isFrequent = map[string]bool{"job-take": true, "job-take-batch": true, "job-stop": true, "job-stream": true, "job-done": false, "ping": true}

// Owns reports whether a path belongs to the worker protocol.
func Owns(path string) bool {
	_, ok := isFrequent[operationName(path)]
	return ok
}

// IsFrequent reports whether a worker requests a path continually, or for each chunk of an output.
func IsFrequent(path string) bool { return isFrequent[operationName(path)] }

// operationName returns the operation of a path below /v2/{endpoint_id}, or "" for other paths.
func operationName(path string) string {
	path, ok := strings.CutPrefix(path, "/v2/")
	_, path, _ = strings.Cut(path, "/")
	name, _, hasMore := strings.Cut(path, "/")
	if !ok || !hasMore {
		return ""
	}
	return name
}

type api struct{ Config }

func New(c Config) http.Handler { return &api{c} }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := a.route(w, r); err != nil {
		a.fail(w, r, err)
	}
}

// route answers 404 for an unknown path, 405 for a method that the path doesn't allow, 401 without a key,
// 404 for an unknown worker, and 401 for a key of another worker.
func (a *api) route(w http.ResponseWriter, r *http.Request) error {
	op, t, err := findOperation(r)
	if err != nil {
		return err
	}
	if err = a.authorize(r, &t); err == nil {
		err = op.serve(a, w, r, t)
	}
	if err != nil && op.delaysRefusal {
		_ = clock.RealSleep(r.Context(), refusalDelay) // a worker's time-outs use real time
	}
	return err
}

// findOperation finds a request's operation and target. Some workers append &name=value to a path that has no query.
func findOperation(r *http.Request) (operation, target, error) {
	path, appendedQuery, _ := strings.Cut(r.URL.Path, "&")
	match := routes.Find(r.Method, path)
	switch {
	case match.Allow == nil:
		return operation{}, target{}, httpanswer.Refuse(http.StatusNotFound, "there is nothing at %s: the worker protocol is /v2/{endpoint_id}/job-take/{worker_id}, …", path)
	case match.Pattern == "":
		return operation{}, target{}, httpanswer.NotAllowed(r, match.Allow...)
	}
	r.Pattern = match.Pattern
	return match.Operation, target{nil, match.Values[0], match.Values[1], match.Values[2], parseQueries(r.URL.RawQuery, appendedQuery)}, nil
}

// parseQueries merges the parameters of several query strings.
func parseQueries(raws ...string) url.Values {
	merged := url.Values{}
	for _, raw := range raws {
		values, _ := url.ParseQuery(raw) // after an error it still returns the valid parameters
		for name, v := range values {
			merged[name] = append(merged[name], v...)
		}
	}
	return merged
}

func (a *api) authorize(r *http.Request, t *target) (err error) {
	key := apikey.FromRequest(r)
	if key == "" {
		return httpanswer.Refuse(http.StatusUnauthorized, "missing worker key: send it in the Authorization header, as <key> or Bearer <key>")
	}
	t.Protocol, err = a.Authorize(t.endpoint, t.worker, key)
	return err
}

// fail writes an error as {"error": text}. A worker repeats a request after a 5xx.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, worker.ErrNoWorker):
		err = httpanswer.Refuse(http.StatusNotFound, "%s", err)
	case errors.Is(err, worker.ErrKey):
		err = httpanswer.Refuse(http.StatusUnauthorized, "%s", err)
	}
	httpanswer.ErrorForm.Fail(w, r, a.Logger, err)
}

const (
	// pollTimeout ends a poll without a result, before the public SDK (90 s) or a common proxy (60 s) times out.
	pollTimeout = 50 * time.Second
	// refusalDelay delays the answer to a failed poll for jobs, because the SDK repeats the poll at once.
	refusalDelay = time.Second
)

const (
	// maxBatch limits the number of jobs in one answer.
	maxBatch = 100
	// maxBody limits a posted body, in bytes. The contract has no limit for outputs; the public
	// service rejects bodies above about this size with 400.
	maxBody = 20 << 20
	// maxDiscarded limits how much of a body that is too large is read and discarded,
	// in bytes. A worker reads the answer only if it can finish its post.
	maxDiscarded = 256 << 20
	// maxReason limits the reason of an unhealthy worker, in bytes.
	maxReason = 1000
	// maxRelease limits the name of a release of the SDK, in bytes.
	maxRelease = 40
)

// take responds with one job as an object, or with 204.
func (a *api) take(w http.ResponseWriter, r *http.Request, t target) error {
	jobs, err := a.waitForJobs(w, r, t, 1)
	if err != nil || len(jobs) == 0 {
		return err
	}
	httpanswer.Bytes(w, http.StatusOK, appendJob(nil, jobs[0]))
	return nil
}

// takeBatch responds with an array of at most batch_size jobs, or 204. An invalid size counts as 1: a worker
// would treat an error as an empty queue, and poll again at once.
func (a *api) takeBatch(w http.ResponseWriter, r *http.Request, t target) error {
	size, err := strconv.Atoi(t.query.Get("batch_size"))
	if err != nil {
		size = 1
	}
	jobs, err := a.waitForJobs(w, r, t, min(max(size, 1), maxBatch))
	if err != nil || len(jobs) == 0 {
		return err
	}
	body := []byte{'['}
	for i, job := range jobs {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendJob(body, job)
	}
	httpanswer.Bytes(w, http.StatusOK, append(body, ']'))
	return nil
}

// waitForJobs holds a poll for jobs, and answers 204 if it ends without a job. If the worker has disconnected
// meanwhile, the taken jobs return to the queue: they didn't run, so no retry is counted.
func (a *api) waitForJobs(w http.ResponseWriter, r *http.Request, t target, limit int) ([]engine.Taken, error) {
	if t.query.Get("job_in_progress") == "0" {
		if err := t.ReportIdle(r.Context()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), pollTimeout)
	defer cancel()
	jobs, err := t.Take(ctx, limit)
	if err == nil && r.Context().Err() != nil {
		for _, job := range jobs {
			err = errors.Join(err, t.Report(context.WithoutCancel(ctx), job.ID, engine.Returned(), false))
		}
		jobs = nil
	}
	if err == nil && len(jobs) == 0 {
		w.WriteHeader(http.StatusNoContent)
	}
	return jobs, err
}

// appendJob appends a job in the form of the protocol: id, input, and the other
// members of the submission, as the bytes that were submitted. The public SDK
// drops a job without input.
func appendJob(b []byte, job engine.Taken) []byte {
	id, _ := json.Marshal(job.ID) // never fails for a string
	b = append(append(b, `{"id":`...), id...)
	input := job.Input
	if len(bytes.TrimSpace(input)) == 0 {
		input = []byte("{}")
	}
	b = append(append(b, `,"input":`...), input...)
	members := bytes.TrimSpace(job.Rest)
	if len(members) > len("{}") && members[0] == '{' {
		b = append(append(b, ','), members[1:len(members)-1]...)
	}
	return append(b, '}')
}

// stops responds with the jobs that the worker should stop, or with 204.
func (a *api) stops(w http.ResponseWriter, r *http.Request, t target) error {
	ctx, cancel := context.WithTimeout(r.Context(), pollTimeout)
	defer cancel()
	ids := t.WaitForStops(ctx)
	if len(ids) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	body, _ := json.Marshal(map[string][]string{"jobsToStop": ids}) // never fails for strings
	httpanswer.Bytes(w, http.StatusOK, body)
	return nil
}
