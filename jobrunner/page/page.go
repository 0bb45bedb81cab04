// Package page serves a deployment's page for browsers: endpoints, queues, workers, GPUs, the latest
// jobs and their logs, now and in the last ten minutes, and pods, clusters, network volumes and API
// keys.
//
// The page itself is public and has no data. Every second it requests /ui/snapshot, which requires a
// session (session.go). Its actions are requests to the APIs with the session's key (serveCall), so the
// APIs authorize them. Output of jobs, workers and users is untrusted: it enters the document only as
// text, and the Content-Security-Policy forbids all scripts but the page's own.
package page

import (
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

//go:embed assets
var embedded embed.FS

type Config struct {
	Source Source
	Keys   *apikey.Keys
	Key    string // the deployment's own key, used by browsers that sign in with a code
	Clock  *clock.Clock
	Logger *slog.Logger // for failed reads
	// API answers requests to the job and management APIs. If it is nil, the page can't send any.
	API http.HandlerFunc
	// AskOthers sends a GET request for a path of the page to the deployment's other jobrunners, with the
	// authority of the sender of r. unreachable has the URLs of the jobrunners that don't answer. AskOthers is
	// nil for a single jobrunner. With several jobrunners, each changes jobs, so jobs are counted in the database.
	AskOthers func(r *http.Request, path string) (answers []Answer, unreachable []string)
	Node      string // this jobrunner's URL for the others; "" without AskOthers
	FolderID  string // this jobrunner's id, which is part of its sessions; "" without AskOthers
	Version   string // version of the program
}

// Page serves the page and records the history for its charts. It is safe for concurrent use.
type Page struct {
	Config
	started  time.Time
	sessions *sessions
	history  *history
	gpus     gpuHistory
	costs    cachedValue[Costs]
	objects  cachedValue[Objects]
	files    map[string]httpanswer.File

	stop    context.CancelFunc
	sampler sync.WaitGroup
}

// New starts recording. The caller must call Close.
func New(c Config) *Page {
	p := &Page{Config: c, started: c.Clock.Now(), sessions: &sessions{keys: c.Keys, ownKey: c.Key, now: c.Clock.Now, folderID: c.FolderID}, history: newHistory(c.Clock.Now), files: files()}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.recordCounts(ctx)
	if c.AskOthers != nil || len(c.Source.GPUs().Devices) > 0 {
		p.sampler.Go(func() { p.sample(ctx) })
	}
	return p
}

func (p *Page) Close() {
	p.stop()
	p.sampler.Wait()
}

// NewCode returns a code for a link, /#code=…, that signs one browser in, once, within an hour. NewCode voids earlier codes.
func (p *Page) NewCode() string { return p.sessions.newCode() }

// RecordEvent records a change of a job's state for the charts.
func (p *Page) RecordEvent(e engine.Event) {
	counts := &e.Counts
	if p.AskOthers != nil {
		counts = nil
	}
	p.history.recordEvent(e, counts)
}

// sample records values that change without events, such as GPU load. It uses real time, so that an advance of
// the clock needn't wait for it.
func (p *Page) sample(ctx context.Context) {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		p.gpus.record(p.Clock.Now(), p.Source.GPUs().Devices)
		p.recordCounts(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// recordCounts records the numbers of jobs, because events include neither jobs from before the start nor
// changes by other processes.
func (p *Page) recordCounts(ctx context.Context) {
	endpoints, err := p.Source.Endpoints(ctx)
	active, activeErr := p.Source.Active(ctx) // one query for all endpoints
	if err != nil || activeErr != nil {
		return // retried next time; the page shows the outage
	}
	var total engine.Counts
	for _, e := range endpoints {
		counts := active[e.ID]
		if p.AskOthers != nil {
			p.history.recordCounts(e.ID, counts)
		}
		total.InQueue += counts.InQueue
		total.InProgress += counts.InProgress
	}
	p.history.recordCounts("", total)
}

// contentTypes maps suffixes to content types, because the package mime depends on the system's own mapping.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func files() map[string]httpanswer.File {
	byName := map[string]httpanswer.File{}
	names, err := fs.Glob(embedded, "assets/*")
	for _, name := range names {
		content, readErr := embedded.ReadFile(name)
		err = errors.Join(err, readErr)
		byName[path.Base(name)] = httpanswer.NewFile(contentTypes[path.Ext(name)], content)
	}
	if err != nil {
		panic(err) // never: the files are embedded
	}
	return byName
}

func Owns(path string) bool { return path == "/" || path == "/ui" || strings.HasPrefix(path, "/ui/") }

// policy forbids everything that isn't the page's own, and turning strings into markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

type route struct {
	methods []string
	public  bool // needs no session
	serve   func(*Page, http.ResponseWriter, *http.Request) *httpanswer.Refusal
}

var (
	readMethods = []string{http.MethodGet, http.MethodHead}
	routes      = map[string]route{
		"/ui/session":  {[]string{http.MethodPost, http.MethodDelete}, true, (*Page).serveSession},
		"/ui/snapshot": {readMethods, false, (*Page).serveSnapshot},
		"/ui/job":      {readMethods, false, (*Page).serveJob},
		"/ui/log":      {readMethods, false, (*Page).serveLog},
		"/ui/node":     {readMethods, false, (*Page).serveNode},
		"/ui/call":     {[]string{http.MethodPost}, false, (*Page).serveCall},
	}
)

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      policy,
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	} {
		w.Header().Set(name, value)
	}
	if refusal := p.serve(w, r); refusal != nil {
		httpanswer.ErrorForm.WriteRefusal(w, refusal)
	}
}

func (p *Page) serve(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	rt, ok := routes[r.URL.Path]
	if !ok {
		return p.serveFile(w, r)
	}
	r.Pattern = r.URL.Path
	if !slices.Contains(rt.methods, r.Method) {
		return httpanswer.NotAllowed(r, rt.methods...)
	}
	if isCrossSite(r) {
		return httpanswer.Refuse(http.StatusForbidden, "The page's data is only for the page.")
	}
	if !rt.public {
		authorization, refusal := p.sessions.authorize(r)
		if refusal != nil {
			return refusal
		}
		r.Header.Set("Authorization", authorization)
	}
	return rt.serve(p, w, r)
}

func (p *Page) serveFile(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	name := strings.TrimPrefix(r.URL.Path, "/ui/")
	if r.URL.Path == "/" {
		name = "index.html"
	}
	f, ok := p.files[name]
	switch {
	case !ok:
		return httpanswer.Refuse(http.StatusNotFound, "There is nothing here. The page is at /.")
	case !slices.Contains(readMethods, r.Method):
		return httpanswer.NotAllowed(r, readMethods...)
	}
	r.Pattern = "GET /ui/{file}"
	f.ServeHTTP(w, r)
	return nil
}

// idForm matches ids that can't change which path a call reaches.
var idForm = regexp.MustCompile(`^[\w-]{1,100}$`)

// operation is a request to an API. serveCall replaces {endpoint} and {id}, and passes on the call's body if
// body is empty.
type operation struct{ method, path, body string }

// callOperations are all operations that the page can perform. An endpoint is stopped as a client
// would stop it: without workers, its jobs wait.
var callOperations = map[string]operation{
	"run":         {http.MethodPost, "/live/v2/{endpoint}/run", ""},
	"runsync":     {http.MethodPost, "/live/v2/{endpoint}/runsync", ""},
	"purge-queue": {http.MethodPost, "/live/v2/{endpoint}/purge-queue", ""},
	"cancel":      {http.MethodPost, "/live/v2/{endpoint}/cancel/{id}", ""},
	"retry":       {http.MethodPost, "/live/v2/{endpoint}/retry/{id}", ""},
	"status":      {http.MethodGet, "/live/v2/{endpoint}/status/{id}", ""},
	"stream":      {http.MethodGet, "/live/v2/{endpoint}/stream/{id}", ""},

	"cancel-batch": {http.MethodPost, "/v2/{endpoint}/batch/{id}/cancel", ""},

	"stop-endpoint": {http.MethodPatch, "/v2/serverless/{endpoint}", `{"workers":{"min":0,"max":0}}`},

	"start-pod":   {http.MethodPost, "/v2/pods/{id}/action", `{"action":"start"}`},
	"stop-pod":    {http.MethodPost, "/v2/pods/{id}/action", `{"action":"stop"}`},
	"restart-pod": {http.MethodPost, "/v2/pods/{id}/action", `{"action":"restart"}`},
}

// fits reports whether a call's value fits the path: an id if the path has the placeholder, otherwise nothing.
func (o operation) fits(placeholder, value string) bool {
	return strings.Contains(o.path, placeholder) && idForm.MatchString(value) || !strings.Contains(o.path, placeholder) && value == ""
}

// serveCall serves POST /ui/call?op=OPERATION&endpoint=ID&id=ID: a request to an API with the authority of
// the signed-in user. The answer is the API's; for the job API in the form that the public SDKs expect.
func (p *Page) serveCall(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	query := r.URL.Query()
	endpoint, id := query.Get("endpoint"), query.Get("id")
	op, ok := callOperations[query.Get("op")]
	if p.API == nil || !ok || !op.fits("{endpoint}", endpoint) || !op.fits("{id}", id) {
		return httpanswer.Refuse(http.StatusNotFound, "The operation is unknown, or it needs other ids: run, runsync, purge-queue and stop-endpoint need endpoint; status, stream, cancel, retry and cancel-batch endpoint and id; start-pod, stop-pod and restart-pod id.")
	}
	apiRequest := r // so that it's logged and counted as a request to the API
	switch {
	case op.method == http.MethodGet: // the page repeats it every second
		apiRequest = r.Clone(r.Context())
		apiRequest.Body, apiRequest.ContentLength = http.NoBody, 0
	case op.body != "":
		apiRequest.Body, apiRequest.ContentLength = io.NopCloser(strings.NewReader(op.body)), int64(len(op.body))
	}
	apiRequest.Method, apiRequest.URL.RawPath, apiRequest.URL.RawQuery = op.method, "", ""
	apiRequest.URL.Path = strings.NewReplacer("{endpoint}", endpoint, "{id}", id).Replace(op.path)
	apiRequest.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {r.Header.Get("Authorization")}}
	p.API(w, apiRequest)
	p.objects.drop() // so that the user sees the result
	return nil
}

// cachedValue is a value that all readers share for a moment, because each reads it every second.
type cachedValue[T any] struct {
	mu     sync.Mutex
	readAt time.Time // zero if never read, or dropped
	value  T
}

// get returns the value. If it's older than age in real time, it is read again.
func (c *cachedValue[T]) get(age time.Duration, read func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.readAt) < age {
		return c.value, nil
	}
	value, err := read()
	if err == nil {
		c.value, c.readAt = value, now
	}
	return value, err
}

func (c *cachedValue[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readAt = time.Time{}
}

// Source reads the current state of a deployment.
type Source interface {
	Endpoints(ctx context.Context) ([]store.Endpoint, error)
	// States counts an endpoint's workers on this jobrunner by state.
	States(endpoint string) map[string]int
	// Counts counts an endpoint's jobs. It is called often.
	Counts(endpoint string) engine.Counts
	// Active counts the waiting and running jobs of all endpoints that have any.
	Active(ctx context.Context) (map[string]engine.Counts, error)
	// Newest returns the newest n jobs of an endpoint, or of all for "", the newest first, without
	// outputs of more than maxOutput bytes.
	Newest(ctx context.Context, endpoint string, n, maxOutput int) ([]engine.Job, error)
	// GetUpTo returns a job without an output of more than maxOutput bytes, or engine.ErrNotFound.
	GetUpTo(ctx context.Context, endpoint, id string, maxOutput int) (engine.Job, error)
	Workers(endpoint string) []Worker
	// Log returns the lines of a worker's log, the oldest first, or false if the worker doesn't exist.
	Log(endpoint, worker string) ([]run.Line, bool)
	PodLog(pod string) ([]run.Line, bool)
	Objects(ctx context.Context) (Objects, error)
	// Releases returns the releases of an endpoint, the newest first.
	Releases(ctx context.Context, endpoint string) ([]store.Release, error)
	// Batches returns a page of the batches of an endpoint, the newest first, and how many it has.
	Batches(ctx context.Context, endpoint string, offset, limit int) (list []engine.Batch, total int, err error)
	GPUs() GPUs
	// Costs returns today's costs, the most expensive endpoint first.
	Costs(ctx context.Context) (Costs, error)
}

// The types below are also the page's JSON.

type Worker struct {
	Node     string `json:"node"` // its jobrunner, if there are several
	Endpoint string `json:"endpoint"`
	worker.Info
}

type GPUs struct {
	gpu.Driver
	Simulated bool  `json:"simulated"` // no real devices
	Devices   []GPU `json:"devices"`
}

type GPU struct {
	Node string `json:"node"`
	gpu.DeviceState
	Past []int32 `json:"past"` // recent utilization
}

// Costs are the deployment's costs today, in dollars, at the catalog's prices.
type Costs struct {
	Endpoints []EndpointCost `json:"endpoints"`
	Volumes   catalog.USD    `json:"volumes"`
	Pods      catalog.USD    `json:"pods"`
	Clusters  catalog.USD    `json:"clusters"`
	Total     catalog.USD    `json:"total"`
}

// EndpointCost is the cost of an endpoint, even of a deleted one.
type EndpointCost struct {
	Endpoint string      `json:"endpoint"` // id
	Time     int64       `json:"time"`     // time of its workers, in milliseconds
	Compute  catalog.USD `json:"compute"`
	Disk     catalog.USD `json:"disk"`
	Total    catalog.USD `json:"total"`
}

// costsAge is the maximum age of the shown costs, because each sum reads all usage of the day.
const costsAge = 3 * time.Second
