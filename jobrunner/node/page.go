package node

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// pageWait limits how long a page waits for the other nodes. The page is drawn every second.
const pageWait = time.Second

// AskPages requests a path of the page from all other nodes, with the key of r, which must be
// valid at all nodes. silent has the URLs of the nodes that don't answer.
func (n *Node) AskPages(r *http.Request, path string) (answers []page.Answer, silent []string) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWait)
	defer cancel()
	for _, response := range n.askOthers(ctx, http.Header{"Authorization": r.Header["Authorization"]}, path) {
		if response.err != nil {
			silent = append(silent, response.node.URL)
			continue
		}
		answers = append(answers, page.Answer{Node: response.node.URL, Body: response.body})
	}
	return answers, silent
}

// ForwardPage forwards a browser's requests to the node where it signed in: a load balancer may send them to any node.
func (n *Node) ForwardPage(next http.Handler) http.Handler {
	if !n.DB.Shared() {
		return next
	}
	forwarder := n.newForwarder(&http.Transport{ResponseHeaderTimeout: forwardTimeout})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		folderID := page.SignedInAt(r)
		if folderID == "" || folderID == n.FolderID || isForwarded(r) {
			next.ServeHTTP(w, r)
			return
		}
		url, alive := n.urlOf(folderID)
		switch {
		case !alive:
			next.ServeHTTP(w, r) // the node and its session are gone
		case forwarder.send(w, r, url) != answered:
			refuseUnreachable(w, r)
		}
	})
}
