// Package mgmt serves the management API of the jobrunner, versions 1 and 2, on
// one store: what one version makes, the other shows and changes.
//
// A handler decodes, validates, calls the store and encodes, and holds no
// state. The service description rules; docs/contract.md has the choices made
// where it is silent.
package mgmt

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Config is what the management API needs. Store, Keys and Clock are required.
type Config struct {
	Store  *store.Store
	Keys   *apikey.Keys
	Clock  *clock.Clock
	Logger *slog.Logger // of failures that are the deployment's; nil: none

	// QueueURL is the address before /v2 that endpoints' job APIs are said to
	// have. Empty is the address that the caller used.
	QueueURL string
	// Limits enforces the rate limits of version 2. Without it nothing is counted,
	// and answers always show whole quotas.
	Limits bool
	// Workers are those of the endpoints; nil: there are none.
	Workers Workers
	// Sample tells how a worker's GPU does; nil: nobody can.
	Sample func(uuid string) (gpu.Sample, error)
	// Bodies is the memory of the bodies that are being read; nil: without a bound.
	Bodies *httplimit.Memory
	// Stock says which GPU types the machine has now; nil is none.
	Stock func() map[string]catalog.Stock
}

// New serves /v1/… and the paths of /v2/… whose first segment is one of
// store.Reserved.
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Stock == nil {
		c.Stock = func() map[string]catalog.Stock { return nil }
	}
	if c.Workers == nil {
		c.Workers = noWorkers{}
	}
	c.QueueURL = strings.TrimRight(c.QueueURL, "/")
	return &server{Config: c, store: c.Store}
}

type server struct {
	Config
	store    *store.Store
	limiters sync.Map // of each owner of a key, its *limiter
}

// call is one request on its way.
type call struct {
	http    *http.Request
	writer  http.ResponseWriter
	version int    // 1 or 2
	id      string // the path's parameter
	worker  string // its second one
	owner   string // of the key
	bodies  *httplimit.Memory
}

func (c *call) ctx() context.Context { return c.http.Context() }

// ServeHTTP answers in the form of the version that the path names: first who
// asks, then how often, then whether they may, then what. So each answer of
// version 2 to a known key has the state of its quotas, a 403 too.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{http: r, writer: w, version: 2, bodies: s.Bodies}
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
	httpanswer.JSON(w, status, body)
}

func (s *server) serve(c *call) (status int, body any, err error) {
	user, err := s.Keys.Authorize(c.http)
	if err != nil {
		return 0, nil, httpanswer.Refuse(http.StatusUnauthorized, "%s", err)
	}
	c.owner = user.Owner
	if c.version == 2 {
		if err := s.limit(user.Owner, c.writer.Header()); err != nil {
			return 0, nil, err
		}
	}
	if user.Restricted() { // what this API shows and changes is all the user's
		return 0, nil, httpanswer.Refuse(http.StatusForbidden, "this API key is for the job API of certain endpoints only: the management API needs one without that restriction")
	}
	op, err := find(c)
	if err != nil {
		return 0, nil, err
	}
	body, err = op.handle(s, c)
	return op.success, body, err
}
