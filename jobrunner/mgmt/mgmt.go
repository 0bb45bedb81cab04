// Package mgmt serves versions 1 and 2 of the jobrunner's management API on one store: each version
// shows and changes the objects that the other created.
//
// Handlers decode, validate, call the store and encode; they hold no state. The service description
// takes precedence; docs/reference/contract.md lists the decisions that it leaves open.
package mgmt

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type Config struct {
	DB     *sqldb.DB
	Store  *store.Store
	Keys   *apikey.Keys
	Clock  *clock.Clock
	Logger *slog.Logger // logs internal errors

	// Limits enforces the rate limits of version 2. If it is false, answers always show full quotas.
	// The nodes on a shared database have common limits.
	Limits   bool
	Workers  *worker.Pools
	Pods     *pod.Pods
	FolderID string // id of the data folder of this node, which runs the pods that it creates
	// PodReason returns a human-readable text: why a pod waits, how it ended, or that its state is unknown.
	PodReason func(store.Pod) string
	// AskOtherNodes returns the lists of pods and workers of the other nodes on a shared database, as JSON.
	AskOtherNodes func(*http.Request) ([][]byte, error)
	PodPrice      func(store.Pod) float64               // per hour now
	Sample        func(uuid string) (gpu.Sample, error) // measures a worker's GPU
	Bodies        *httplimit.Memory                     // memory of the bodies that are being read
	Catalog       *catalog.Source                       // nil for the built-in catalog
	Meter         *billing.Meter
	Stock         func() map[string]catalog.Stock // the machine's GPU types and how many are free
}

// New returns the handler of /v1/… and of the paths of /v2/… whose first segment is in store.Reserved.
func New(ctx context.Context, c Config) (http.Handler, error) {
	s := &server{Config: c, documents: sync.OnceValue(describeAPI)}
	if c.Limits && c.DB.Shared() {
		s.quotas = &sharedQuotas{c.DB, c.Clock}
		return s, c.DB.Migrate(ctx, "management quotas", quotasSchema)
	}
	return s, nil
}

type server struct {
	Config
	quotas    *sharedQuotas       // nil: this process counts its own requests
	limiters  sync.Map            // *limiter by the owner of a key
	documents func() apiDocuments // generated on the first call
}

// call is a request to the management API.
type call struct {
	*server
	http    *http.Request
	writer  http.ResponseWriter
	version int            // 1 or 2
	id      string         // first parameter of the path
	subID   string         // second parameter of the path
	owner   string         // owner of the API key
	body    map[string]any // as sent; nil before it is decoded
	// declared has the parameters that were read; nil if they aren't recorded.
	declared *[]openapi.Parameter
}

func (c *call) ctx() context.Context { return c.http.Context() }

// ServeHTTP answers in the form of the version in the path. It checks the limit of the operation's body,
// authenticates, counts the request against the quotas, authorizes it and then serves it. So in version 2 even
// a 403 shows the key's quotas, but a 413 of the first check doesn't. For a read-only key, a method that the
// path doesn't have is 405 rather than 403.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{server: s, http: r, writer: w, version: 2}
	if r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/") {
		c.version = 1
	}
	httpanswer.SetRequestID(w.Header())
	status, body, err := s.serve(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	if stream, ok := body.(http.Handler); ok {
		stream.ServeHTTP(w, r)
		return
	}
	if _, empty := body.(noContent); empty || status == http.StatusNoContent {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	httpanswer.JSON(w, status, body)
}

func (s *server) serve(c *call) (status int, body any, err error) {
	op, pattern, routeErr := findOperation(c)
	if err := checkBodySize(c, op.handle.maxBody); err != nil {
		return 0, nil, err
	}
	if op.handle.public {
		c.http.Pattern = pattern
		body, err := op.handle.serve(c)
		return op.success, body, err
	}
	user, err := s.Keys.Authorize(c.http)
	if err != nil {
		return 0, nil, httpanswer.Refuse(http.StatusUnauthorized, "%s", err)
	}
	c.owner = user.Owner
	if c.version == 2 {
		if err := s.countAgainstQuotas(c.http.Context(), user.Owner, c.writer.Header()); err != nil {
			return 0, nil, err
		}
	}
	if !user.MayRead() {
		return 0, nil, httpanswer.Refuse(http.StatusForbidden, "this API key is not for the management API: use a key with --management read or all")
	}
	if routeErr != nil {
		return 0, nil, routeErr
	}
	c.http.Pattern = pattern
	if reads := c.http.Method == http.MethodGet || c.http.Method == http.MethodHead; !reads && !user.MayManage() {
		return 0, nil, httpanswer.Refuse(http.StatusForbidden, "this API key may only read from the management API: use a key with --management all")
	}
	body, err = op.handle.serve(c)
	return op.success, body, err
}

// validationError returns the error for a request that violates its schema.
func validationError(faults ...string) error {
	return &httpanswer.Refusal{Status: http.StatusUnprocessableEntity, Text: "the request is not valid", Faults: faults}
}

func (s *server) fail(c *call, err error) {
	form := httpanswer.ProblemForm
	if c.version == 1 {
		form = httpanswer.MessageForm
	}
	var refusal store.Refusal
	var conflict store.Conflict
	var key store.KeyError
	switch {
	case errors.As(err, &conflict):
		err = httpanswer.Refuse(http.StatusConflict, "%s", conflict)
	case errors.As(err, &key):
		err = httpanswer.Refuse(http.StatusServiceUnavailable, "%s", key)
	case errors.As(err, &refusal):
		err = httpanswer.Refuse(http.StatusBadRequest, "%s", refusal)
	case errors.Is(err, store.ErrNotFound):
		status := http.StatusNotFound
		if c.version == 1 && c.http.Method == http.MethodDelete { // service description, Endpoints A
			status = http.StatusBadRequest
		}
		err = httpanswer.Refuse(status, "%s", err)
	}
	form.Fail(c.writer, c.http, s.Logger, err)
}
