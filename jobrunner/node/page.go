package node

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// pageWait bounds how long a page waits for the other nodes: it is drawn every second.
const pageWait = time.Second

// AskPages asks the other nodes for what only they have. A browser that used the printed
// link has the rights of key, the deployment's own key, which all nodes share.
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

// ForwardPage passes the requests of a browser on to the node at which it signed in: behind
// a load balancer they arrive at any node.
func (n *Node) ForwardPage(next http.Handler) http.Handler {
	if !n.DB.Shared() {
		return next
	}
	pass := n.forwarder(forwardAnswer, false)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := page.SignedInAt(r)
		if at == "" || at == n.Machine || r.Header.Get(forwarded) != "" {
			next.ServeHTTP(w, r)
			return
		}
		for _, to := range n.Engine.Nodes() {
			if to.Machine == at {
				pass.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardKey{}, to.URL)))
				return
			}
		}
		next.ServeHTTP(w, r) // that one is gone, and with it the session
	})
}
