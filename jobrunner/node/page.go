package node

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// pageWait limits how long a page waits for the other nodes. The page is drawn every second.
const pageWait = time.Second

// AskPages returns a function that requests a path of the page from all other nodes. A request
// without a key comes from a browser that signed in with the printed link. It is sent with key,
// the deployment's own key, which all nodes share.
func (n *Node) AskPages(key string) func(*http.Request, string) ([]page.Answer, []string) {
	return func(r *http.Request, path string) (answers []page.Answer, silent []string) {
		ctx, cancel := context.WithTimeout(r.Context(), pageWait)
		defer cancel()
		authorization := r.Header.Get("Authorization")
		if authorization == "" {
			authorization = "Bearer " + key
		}
		for _, one := range n.askOthers(ctx, http.Header{"Authorization": {authorization}}, path) {
			switch {
			case one.err != nil:
				silent = append(silent, one.node.URL)
			case one.status == http.StatusNotFound:
				answers = append(answers, page.Answer{Node: one.node.URL})
			default:
				answers = append(answers, page.Answer{Node: one.node.URL, Body: one.body})
			}
		}
		return answers, silent
	}
}

// ForwardPage forwards a browser's requests to the node at which it has signed in, because a
// load balancer sends them to any node.
func (n *Node) ForwardPage(next http.Handler) http.Handler {
	if !n.DB.Shared() {
		return next
	}
	forwarder := n.newForwarder(&http.Transport{ResponseHeaderTimeout: forwardTimeout})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := page.SignedInAt(r)
		if at == "" || at == n.Machine || isForwarded(r) {
			next.ServeHTTP(w, r)
			return
		}
		to, alive := n.urlOf(at)
		switch {
		case !alive:
			next.ServeHTTP(w, r) // the node and its session are gone
		case forwarder.send(w, r, to) != answered:
			refuseUnreachable(w, r)
		}
	})
}
