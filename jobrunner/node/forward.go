package node

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/front"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// forwardedHeader has the nodes that have forwarded a request.
const forwardedHeader = "X-Gpucloud-Forwarded"

// forwardedRoute is the route of a request in the metrics of the node that forwards it.
const forwardedRoute = "forwarded"

const (
	// leaderWait is how long a request waits for a leader. Another node takes over within six seconds.
	leaderWait = 10 * time.Second
	leaderPoll = 50 * time.Millisecond
	// maxHops limits how often a request is forwarded. The second hop is needed if the first node has just
	// released the endpoint.
	maxHops = 2
)

// Forward forwards the requests that only an endpoint's leader can answer to the leader, and the GET requests
// of a pod to the node that runs it. It answers 503 if that node can't be reached. If the pod's node is gone, this node answers.
func (n *Node) Forward(next http.Handler) http.Handler {
	if !n.DB.Shared() {
		return next
	}
	toLeader, toPod := n.forwardToLeader(next), n.newForwarder(&http.Transport{ResponseHeaderTimeout: forwardTimeout})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint, pod := subjectOf(r)
		if endpoint != "" {
			toLeader(w, r, endpoint)
			return
		}
		n.places.mu.Lock()
		folderID := n.places.pods[pod]
		n.places.mu.Unlock()
		url, alive := n.urlOf(folderID)
		switch {
		case folderID == n.FolderID || !alive: // PodReason says that the pod's node is gone
			next.ServeHTTP(w, r)
		case isForwarded(r) || toPod.send(w, r, url) != answered:
			refuseUnreachable(w, r)
		}
	})
}

func isForwarded(r *http.Request) bool { return r.Header.Get(forwardedHeader) != "" }

// subjectOf returns the endpoint or pod of a request, which determines the node that answers it.
// Any node can answer a request without either.
func subjectOf(r *http.Request) (endpoint, pod string) {
	path := r.URL.Path
	if queue, _ := front.EndpointOf(strings.TrimPrefix(path, "/live")); queue != "" {
		return engine.EndpointOf(queue), ""
	}
	for _, prefix := range []string{"/v1/endpoints/", "/v2/serverless/"} {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		id, operation, _ := strings.Cut(rest, "/")
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead // a change invalidates the leader's cache of the endpoint
		if changes || operation == "releases" || operation == "workers" || strings.HasPrefix(operation, "workers/") {
			return id, ""
		}
	}
	for _, prefix := range []string{"/v1/pods/", "/v2/pods/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && r.Method == http.MethodGet {
			id, _, _ := strings.Cut(rest, "/")
			return "", id
		}
	}
	return "", ""
}

// forwardToLeader returns a function that serves a request at the leader of its endpoint: here or at
// another node. While the endpoint has no leader, the request waits.
func (n *Node) forwardToLeader(next http.Handler) func(w http.ResponseWriter, r *http.Request, endpoint string) {
	toQueue := n.newForwarder(new(http.Transport))
	toBalancer := n.newForwarder(&http.Transport{DisableKeepAlives: true}) // a new connection: net/http never repeats its request
	toBalancer.proxy.FlushInterval = -1                                    // flush each write, also of a body whose length is known
	return func(w http.ResponseWriter, r *http.Request, endpoint string) {
		start, silentProcess := time.Now(), "" // silentProcess is the process of a leader that didn't respond
		for {
			leader, err := n.leader(r.Context(), endpoint)
			switch {
			case errors.Is(err, store.ErrNotFound) || err == nil && leader.Own:
				serveLocally(w, r, next)
				return
			case err != nil:
				front.FormOf(r.URL.Path).Fail(w, r, n.Logger, err)
				return
			case time.Since(start) > leaderWait || r.Context().Err() != nil:
				refuseUnreachable(w, r)
				return
			}
			if leader.URL != "" && leader.Process != silentProcess && len(r.Header[forwardedHeader]) < maxHops {
				forwarder := toQueue
				if leader.balanced {
					forwarder = toBalancer
				}
				switch result := forwarder.send(w, r, leader.URL); {
				case result == answered:
					return
				case result == unanswered && (leader.balanced || r.Method != http.MethodGet || r.ContentLength != 0):
					refuseUnreachable(w, r) // the request may have taken effect, so it isn't repeated
					return
				case result == unanswered:
					start, silentProcess = time.Now(), leader.Process
				}
			}
			notify.Signal(n.takeover)
			select {
			case <-time.After(leaderPoll):
			case <-r.Context().Done():
			}
		}
	}
}

// leader returns the place of an endpoint, or store.ErrNotFound.
func (n *Node) leader(ctx context.Context, endpoint string) (place, error) {
	if leader, known := n.places.endpoint(endpoint); known {
		return leader, nil
	}
	if _, err := n.Store.Endpoint(ctx, endpoint); err != nil {
		return place{}, err
	}
	// The store has the endpoint, but n.places doesn't: another node has just created it.
	n.syncMu.Lock()
	defer n.syncMu.Unlock()
	if _, known := n.places.endpoint(endpoint); !known {
		n.sync(context.WithoutCancel(ctx), endpoint)
	}
	leader, _ := n.places.endpoint(endpoint)
	return leader, nil
}

// serveLocally serves a request at this node. If another node forwarded the request and now stops,
// the response is sent before the wait for a job is over.
func serveLocally(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !isForwarded(r) {
		next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(httplimit.ErrStopping) })()
	inner := r.WithContext(ctx)
	next.ServeHTTP(w, inner)
	r.Pattern = inner.Pattern // for the metrics
}

// refuseUnreachable answers 503 to a request that its node can't answer now.
func refuseUnreachable(w http.ResponseWriter, r *http.Request) {
	front.FormOf(r.URL.Path).WriteRefusal(w, newUnreachable())
}

func newUnreachable() *httpanswer.Refusal {
	const text = "the jobrunner that has this endpoint, worker or pod can't be reached, or another one is taking over: try again in a few seconds"
	return &httpanswer.Refusal{Status: http.StatusServiceUnavailable, Text: text, RetryAfter: sqldb.RetryAfter}
}
