// Package balancer forwards the requests of load-balancing endpoints, HTTP and WebSocket, to
// the ready worker with the fewest open requests. It doesn't retry requests, and holds one only
// until a worker is ready (service description, What the service does, 4).
package balancer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// Workers has the workers of load-balancing endpoints.
type Workers interface {
	// Pick returns the address, host:port, of the ready worker with the fewest open requests. It counts an
	// open request for the worker until done is called. It waits for a ready worker until ctx ends. Any
	// error but ctx's means that this node no longer runs the endpoint.
	Pick(ctx context.Context, endpoint string) (address string, done func(), err error)
}

type Config struct {
	Workers Workers
	Keys    *apikey.Keys
	Clock   *clock.Clock
	Logger  *slog.Logger
}

const (
	// readyTimeout is how long a request waits for a worker to be ready.
	readyTimeout = 2 * time.Minute
	// responseTimeout is how long a worker may take until its response begins.
	responseTimeout = 5*time.Minute + 30*time.Second
)

// statusTimeout is the status if the worker times out. It has no name in net/http.
const statusTimeout = 524

type balancer struct {
	Config
	proxy *httputil.ReverseProxy
}

// New returns a handler of /v2/{endpoint_id}/…. The caller must check that the endpoint is a load-balancing one.
func New(c Config) http.Handler {
	b := &balancer{Config: c}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		// net/http may retry a request on a reused connection.
		DisableKeepAlives:     true,
		ResponseHeaderTimeout: responseTimeout,
		DisableCompression:    true, // forward bodies unchanged
	}
	b.proxy = &httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     transport,
		FlushInterval: -1, // forward streams without buffering
		ModifyResponse: func(resp *http.Response) error {
			// nginx in front of the jobrunner buffers responses by default.
			if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && resp.Header.Get("X-Accel-Buffering") == "" {
				resp.Header.Set("X-Accel-Buffering", "no")
			}
			return nil
		},
		ErrorHandler: b.answerError,
		ErrorLog:     slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	return b
}

// target is the worker's address and path of a request.
type target struct{ address, path, rawPath string }

type targetKey struct{}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := b.Keys.Authorize(r)
	if err != nil {
		refuse(w, http.StatusUnauthorized, "%s", err)
		return
	}
	endpoint, t := split(r.URL)
	scope := apikey.All
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		scope = apikey.Read
	}
	if !caller.MayUse(endpoint, scope) {
		refuse(w, http.StatusForbidden, "%s", caller.Refusal(endpoint))
		return
	}
	address, done, err := b.pick(r.Context(), endpoint)
	if err != nil {
		switch {
		case httplimit.ServerStops(r.Context()):
			httpanswer.ErrorForm.Fail(w, r, b.Logger, err)
		case r.Context().Err() != nil:
			abortConnection()
		case errors.Is(err, context.Canceled):
			w.Header().Set("Retry-After", httplimit.RetryAfter)
			refuse(w, http.StatusBadRequest, "no worker of endpoint %s is ready, after %s: its workers and their logs say why", endpoint, readyTimeout)
		default:
			w.Header().Set("Retry-After", httplimit.RetryAfter)
			refuse(w, http.StatusServiceUnavailable, "endpoint %s was deleted, or moved to another node: send the request again", endpoint)
		}
		return
	}
	defer done()
	t.address = address
	httplimit.AllowPauses(r)
	b.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, t)))
}

// split returns the endpoint of a URL, and a target with the worker's path.
func split(u *url.URL) (endpoint string, t target) {
	cutEndpoint := func(path string) (id, rest string) {
		id, rest, _ = strings.Cut(strings.TrimPrefix(path, "/v2/"), "/")
		return id, "/" + rest
	}
	endpoint, t.path = cutEndpoint(u.Path)
	if u.RawPath != "" {
		_, t.rawPath = cutEndpoint(u.RawPath)
	}
	return endpoint, t
}

// pick waits for a worker for up to readyTimeout on the deployment's clock.
func (b *balancer) pick(ctx context.Context, endpoint string) (address string, done func(), err error) {
	waitCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_ = b.Clock.Sleep(waitCtx, readyTimeout)
		stop()
	}()
	return b.Workers.Pick(waitCtx, endpoint)
}

// rewrite sends a request to its worker, without the API key, which the worker must not see.
func rewrite(p *httputil.ProxyRequest) {
	t, _ := p.In.Context().Value(targetKey{}).(target)
	p.Out.URL.Scheme, p.Out.URL.Host = "http", t.address
	// ReverseProxy drops parameters that net/url can't parse, such as a=1;2.
	p.Out.URL.Path, p.Out.URL.RawPath, p.Out.URL.RawQuery = t.path, t.rawPath, p.In.URL.RawQuery
	p.Out.Host = p.In.Host
	p.Out.Header.Del("Authorization")
	p.Out.Header.Del("Expect")                                       // the body follows at once, and the client has got its 100 from this server
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"] // SetXForwarded appends to it
	p.SetXForwarded()
	if httpanswer.UsesTLS(p.In) {
		p.Out.Header.Set("X-Forwarded-Proto", "https")
	}
}

func (b *balancer) answerError(w http.ResponseWriter, r *http.Request, err error) {
	if httplimit.ServerStops(r.Context()) {
		w.Header().Set("Retry-After", httplimit.RetryAfter)
		refuse(w, http.StatusServiceUnavailable, "the deployment stopped before the worker answered. The request was sent once")
		return
	}
	if r.Context().Err() != nil {
		abortConnection()
	}
	b.Logger.WarnContext(r.Context(), "a worker did not answer a request", "path", r.URL.Path, "error", err)
	netErr, _ := errors.AsType[net.Error](err)
	dialErr, _ := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, httplimit.ErrSlowBody):
		refuse(w, http.StatusRequestTimeout, "%s", err)
	case dialErr != nil && dialErr.Op == "dial":
		refuse(w, http.StatusBadGateway, "the worker can't be reached: its log may say why. The request was not sent")
	case netErr != nil && netErr.Timeout():
		refuse(w, statusTimeout, "the worker did not begin to answer within %s", responseTimeout)
	default:
		refuse(w, http.StatusBadGateway, "the worker broke off before it answered: its log may say why. The request was sent once")
	}
}

// abortConnection closes the connection of a client that is gone. If the handler just
// returned, a client that has only closed its side for writing would receive a 200.
func abortConnection() { panic(http.ErrAbortHandler) }

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	httpanswer.ErrorForm.WriteRefusal(w, httpanswer.Refuse(status, format, args...))
}
