package node

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

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/front"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// forwardedHeader marks a forwarded request, which must not be forwarded again.
const forwardedHeader = "X-Gpucloud-Forwarded"

// Timeouts of forwarded requests.
const (
	forwardDialTimeout = 2 * time.Second
	forwardTimeout     = 5 * time.Second // waiting for a response
)

type forwardKey struct{}

// Forward forwards requests to the node that runs their workers or pod. It answers 503 if
// that node can't be reached, or if a load-balancing endpoint has no leader yet.
func (n *Node) Forward(next http.Handler) http.Handler {
	if !n.DB.Shared() {
		return next
	}
	stateProxy, balancedProxy := n.forwarder(forwardTimeout, false), n.forwarder(0, true)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := subjectOf(r)
		to, elsewhere, err := n.locate(r.Context(), subject)
		switch {
		case err != nil:
			front.FormOf(r.URL.Path).Fail(w, r, n.Logger, err)
		case !elsewhere:
			next.ServeHTTP(w, r)
		case to == "" || r.Header.Get(forwardedHeader) != "":
			refuseUnreachable(w, r)
		default:
			r = r.WithContext(context.WithValue(r.Context(), forwardKey{}, to))
			if subject.needsWorkers {
				stateProxy.ServeHTTP(w, r)
				return
			}
			httplimit.AllowPauses(r)
			balancedProxy.ServeHTTP(w, r)
		}
	})
}

// subject is the endpoint or pod of a request, which determines the node that answers it.
type subject struct {
	endpoint     string
	pod          string
	needsWorkers bool // the response needs the state of workers or of a pod, not only the database
}

func subjectOf(r *http.Request) subject {
	path := r.URL.Path
	if endpoint, below := front.EndpointOf(strings.TrimPrefix(path, "/live")); below {
		_, operation, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/live"), "/v2/"), "/")
		return subject{endpoint: endpoint, needsWorkers: operation == "health"}
	}
	if rest, ok := strings.CutPrefix(path, "/v2/serverless/"); ok {
		id, operation, _ := strings.Cut(rest, "/")
		if operation == "workers" || operation == "releases" && r.Method == http.MethodGet || strings.HasPrefix(operation, "workers/") {
			return subject{endpoint: id, needsWorkers: true}
		}
	}
	if id, ok := strings.CutPrefix(path, "/v1/endpoints/"); ok && r.Method == http.MethodGet && r.URL.Query().Get("includeWorkers") == "true" {
		return subject{endpoint: id, needsWorkers: true}
	}
	for _, prefix := range []string{"/v1/pods/", "/v2/pods/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && r.Method == http.MethodGet {
			id, _, _ := strings.Cut(rest, "/")
			return subject{pod: id, needsWorkers: true}
		}
	}
	return subject{}
}

// locate reports whether another node must answer a request, and returns its URL, or "" if
// it isn't known yet.
func (n *Node) locate(ctx context.Context, s subject) (url string, elsewhere bool, err error) {
	switch {
	case s.endpoint != "":
		at, known := n.places.endpoint(s.endpoint)
		if !known && s.needsWorkers { // the endpoint is new or doesn't exist
			leaders, err := n.Engine.Leaders(ctx)
			if err != nil {
				return "", false, err
			}
			at.Leader, known = leaders[s.endpoint], true
		}
		if !known || !s.needsWorkers && !at.balanced || at.Own {
			return "", false, nil
		}
		// This node can answer for an endpoint without a leader, because it has no workers.
		return at.URL, at.Process != "" || at.balanced, nil
	case s.pod != "":
		n.places.mu.Lock()
		machine := n.places.pods[s.pod]
		n.places.mu.Unlock()
		if machine == "" || machine == n.Machine {
			return "", false, nil
		}
		url, elsewhere = n.urlOf(machine)
		return url, elsewhere, nil
	}
	return "", false, nil
}

// forwarder returns a proxy to the URL in a request's context. It waits at most timeout for the
// response's header, or without limit if timeout is 0. With noRetry, it sends a request only once.
func (n *Node) forwarder(timeout time.Duration, noRetry bool) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			to, err := url.Parse(p.In.Context().Value(forwardKey{}).(string))
			if err != nil {
				to = &url.URL{} // the transport rejects it
			}
			p.Out.URL.Scheme, p.Out.URL.Host = to.Scheme, to.Host
			p.Out.Header.Set(forwardedHeader, n.Machine)
			p.Out.Header["X-Forwarded-Proto"] = p.In.Header["X-Forwarded-Proto"]
			p.Out.Host = p.In.Host
		},
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: forwardDialTimeout}).DialContext,
			ResponseHeaderTimeout: timeout,
			DisableKeepAlives:     noRetry, // net/http may retry a request on a reused connection
			DisableCompression:    true,
			MaxIdleConnsPerHost:   8,
			IdleConnTimeout:       time.Minute,
		},
		FlushInterval: -1, // forward streams without buffering
		ErrorLog:      slog.NewLogLogger(n.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil || errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler)
			}
			n.Logger.DebugContext(r.Context(), "the jobrunner that has the workers does not answer", "path", r.URL.Path, "error", err)
			refuseUnreachable(w, r)
		},
	}
}

// refuseUnreachable answers 503 to a request whose workers can't be reached now.
func refuseUnreachable(w http.ResponseWriter, r *http.Request) {
	refusal := httpanswer.Refuse(http.StatusServiceUnavailable, "the jobrunner that has these workers can't be reached, or another one is taking over: try again in a few seconds")
	refusal.RetryAfter = engine.RetryAfter
	front.FormOf(r.URL.Path).Refuse(w, refusal)
}
