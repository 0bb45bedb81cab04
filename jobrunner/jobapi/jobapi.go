// Package jobapi serves the job API: HTTP in front of the engine (service description, section B).
package jobapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httproute"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type Config struct {
	Engine *engine.Engine
	// Endpoint returns ErrNoEndpoint if there is no such endpoint with a queue.
	Endpoint func(ctx context.Context, id string) (Endpoint, error)
	Workers  func(endpoint string) worker.Counts
	OnQueued func(endpoint string) // is called when a job was queued
	// Failure returns a line that says why no worker of an endpoint works, or "".
	Failure func(endpoint string) string
	Webhook func(*url.URL) error // returns an error if a webhook's URL is not allowed
	Clock   *clock.Clock
	Keys    *apikey.Keys
	// Bodies limits the memory of bodies that are being read, Answers the memory of answers being written.
	Bodies, Answers *httplimit.Memory
	Limiter         *limits.Limiter
	NoLimits        bool // no limits of rates, open requests and the queue's length; for benchmarks
	Logger          *slog.Logger
}

// Endpoint has the settings of an endpoint that the API needs.
type Endpoint struct{ WorkersMax int }

var ErrNoEndpoint = errors.New("no such endpoint")

// operation has the handler, the limits and the required scope of a route.
type operation struct {
	limit limits.Operation // kind of request for the limits
	live  bool             // in the SDK dialect
	scope apikey.Scope
	serve func(*api, http.ResponseWriter, *http.Request, target) error
}

// target identifies the object of a request, and its dialect: the service description's at /v2/…, or the public
// SDKs' at /live/v2/….
type target struct {
	owner    string // of the key
	endpoint string
	job      string // id of the job or batch
	request  string // id of a request of the batch
	route    string // of /openai
	live     bool   // in the SDK dialect
}

var (
	get       = []string{http.MethodGet}
	post      = []string{http.MethodPost}
	put       = []string{http.MethodPut}
	remove    = []string{http.MethodDelete}
	getOrPost = []string{http.MethodGet, http.MethodPost}
)

// operations are the operations of both dialects. A dialect lacks an operation that has no methods for it.
var operations = []struct {
	path     string   // below the endpoint
	v2, live []string // methods
	limit    limits.Operation
	scope    apikey.Scope // scope that the key needs: All for streams, because reading one removes chunks
	serve    func(*api, http.ResponseWriter, *http.Request, target) error
}{
	{"/run", post, post, limits.Run, apikey.All, (*api).run},
	{"/runsync", post, post, limits.RunSync, apikey.All, (*api).runSync},
	{"/status/{job_id}", get, getOrPost, limits.Status, apikey.Read, (*api).status},
	{"/status-sync/{job_id}", nil, getOrPost, limits.Status, apikey.Read, (*api).statusSync},
	{"/stream/{job_id}", get, getOrPost, limits.Stream, apikey.All, (*api).stream},
	{"/cancel/{job_id}", post, post, limits.Cancel, apikey.All, (*api).cancel},
	{"/retry/{job_id}", post, post, limits.Unlimited, apikey.All, (*api).retry},
	{"/purge-queue", post, post, limits.PurgeQueue, apikey.All, (*api).purgeQueue},
	{"/health", get, get, limits.Unlimited, apikey.Read, (*api).health},
	{"/requests", get, get, limits.Requests, apikey.Read, (*api).requests},
	{"/batch", post, nil, limits.Unlimited, apikey.All, (*api).createBatch},
	{"/batch", get, nil, limits.Unlimited, apikey.Read, (*api).batches},
	{"/batch/{id}", get, nil, limits.Unlimited, apikey.Read, batchHandler((*engine.Engine).Batch)},
	{"/batch/{id}", put, nil, limits.Unlimited, apikey.All, (*api).renameBatch},
	{"/batch/{id}/requests", post, nil, limits.Unlimited, apikey.All, (*api).addRequests},
	{"/batch/{id}/requests", get, nil, limits.Unlimited, apikey.Read, (*api).batchResults},
	{"/batch/{id}/requests/{requestId}", remove, nil, limits.Unlimited, apikey.All, (*api).removeRequest},
	{"/batch/{id}/finalize", post, nil, limits.Unlimited, apikey.All, batchHandler((*engine.Engine).FinalizeBatch)},
	{"/batch/{id}/cancel", post, nil, limits.Unlimited, apikey.All, batchHandler((*engine.Engine).CancelBatch)},
	{"/openai/{route...}", getOrPost, getOrPost, limits.OpenAI, apikey.All, (*api).openAI}, // the handler decides which routes exist
}

var routes = func() (t httproute.Table[*operation]) {
	for _, o := range operations {
		for _, method := range o.v2 {
			t.Add(method, "/v2/{endpoint_id}"+o.path, &operation{o.limit, false, o.scope, o.serve})
		}
		for _, method := range o.live {
			t.Add(method, "/live/v2/{endpoint_id}"+o.path, &operation{o.limit, true, o.scope, o.serve})
		}
	}
	return t
}()

type api struct {
	Config
	explainedStreams sync.Map // endpoints for which explainStream has logged
}

// New serves /v2/{endpoint_id}/… and /live/v2/{endpoint_id}/….
func New(c Config) http.Handler { return &api{Config: c} }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := a.route(w, r); err != nil {
		a.fail(w, r, err)
	}
}

// route answers 401 before anything else, then 404 for the path, 405 for the method, 404 for the
// endpoint, 400 for a malformed query, 403 for a key without the right, and 429.
func (a *api) route(w http.ResponseWriter, r *http.Request) error {
	user, err := a.Keys.Authorize(r)
	if err != nil {
		return httpanswer.Refuse(http.StatusUnauthorized, "%s", err)
	}
	op, t, err := findOperation(r)
	if err != nil {
		return err
	}
	t.owner = user.Owner
	endpoint, err := a.Endpoint(r.Context(), t.endpoint)
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return httpanswer.Refuse(http.StatusBadRequest, "the query is malformed: %s", err)
	}
	scope := op.scope
	if strings.HasSuffix(r.Pattern, "/status/{job_id}") && query.Get("ttl") != "" { // sets the job's ttl
		scope = apikey.All
	}
	if !user.MayUse(t.endpoint, scope) {
		return httpanswer.Refuse(http.StatusForbidden, "%s", user.Refusal(t.endpoint))
	}
	done, err := a.admit(user, op, t, endpoint)
	if err != nil {
		return err
	}
	defer done()
	return op.serve(a, w, r, t)
}

func findOperation(r *http.Request) (*operation, target, error) {
	match := routes.Find(r.Method, r.URL.Path)
	switch {
	case match.Allow == nil:
		return nil, target{}, httpanswer.Refuse(http.StatusNotFound, "there is nothing at %s: the job API is /v2/{endpoint_id}/run, /runsync, /status/{job_id}, …", r.URL.Path)
	case match.Pattern == "":
		return nil, target{}, httpanswer.NotAllowed(r, match.Allow...)
	}
	r.Pattern = match.Pattern
	op, t := match.Operation, target{endpoint: match.Values[0], live: match.Operation.live}
	if op.limit == limits.OpenAI {
		t.route = "/" + match.Values[1]
	} else {
		t.job, t.request = match.Values[1], match.Values[2]
	}
	return op, t, nil
}

// fail responds with an error as {"error": text}, or as OpenAI does.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	if batchErr, ok := errors.AsType[*engine.BatchRefused](err); ok {
		status := http.StatusBadRequest
		if batchErr.TooManyActive {
			status = http.StatusTooManyRequests // without Retry-After, because the end of a batch can't be predicted
		}
		err = httpanswer.Refuse(status, "%s", batchErr)
	}
	if refusal := new(httpanswer.Refusal); !errors.As(err, &refusal) && (errors.Is(err, ErrNoEndpoint) || errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrNoBatch) || errors.Is(err, engine.ErrNoRequest)) {
		err = httpanswer.Refuse(http.StatusNotFound, "%s", err)
	}
	httpanswer.JobForm(r.URL.Path).Fail(w, r, a.Logger, err)
}

// admit counts a request as open until done is called, or rejects it with 429 and the time to retry (service
// description, Limits; field notes, 429). It must be called before the body is read.
func (a *api) admit(user apikey.Identity, op *operation, t target, e Endpoint) (done func(), err error) {
	if a.NoLimits {
		return func() {}, nil
	}
	if limits.Table[op.limit].Queues {
		if waiting := a.Engine.Counts(t.endpoint).InQueue; limits.QueueFull(waiting, e.WorkersMax) {
			return nil, rateLimited(time.Second, "the queue of this endpoint is full: %d jobs wait for at most %d workers", waiting, e.WorkersMax)
		}
	}
	done, err = a.Limiter.Admit(limits.Key{User: user.Owner, Endpoint: t.endpoint, Operation: op.limit},
		func() int { return a.Workers(t.endpoint).Running })
	if exceeded, ok := errors.AsType[*limits.Exceeded](err); ok {
		err = rateLimited(exceeded.RetryAfter, "%s", exceeded)
	}
	return done, err
}

func rateLimited(after time.Duration, format string, args ...any) error {
	seconds := max(1, int64((after+time.Second-1)/time.Second))
	refusal := httpanswer.Refuse(http.StatusTooManyRequests, format, args...)
	refusal.RetryAfter = strconv.FormatInt(seconds, 10)
	return refusal
}
