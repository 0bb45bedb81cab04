package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// AskPods sends GET /v1/pods?includeWorkers=true with the header of r to the other nodes, and returns
// their answers. It returns none if r was forwarded, because its sender asks each node itself.
func (n *Node) AskPods(r *http.Request) (answers [][]byte, err error) {
	if !n.DB.Shared() || isForwarded(r) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
	defer cancel()
	for _, response := range n.askOthers(ctx, r.Header, "/v1/pods?includeWorkers=true") {
		if response.err != nil { // without its workers the list would be incomplete
			n.Logger.DebugContext(r.Context(), "a jobrunner does not say which workers it has", "error", response.err)
			return nil, newUnreachable()
		}
		answers = append(answers, response.body)
	}
	return answers, nil
}

// maxPeerResponse limits the body of another node's response, in bytes.
const maxPeerResponse = 64 << 20

type peerResponse struct {
	node   engine.Node
	status int    // 0 without a response
	body   []byte // of a response with status 200
	err    error  // of a failed request, or of a status other than 200 and 404
}

// askOthers sends a GET request to all other nodes, and waits for their responses until ctx ends.
func (n *Node) askOthers(ctx context.Context, header http.Header, target string) []peerResponse {
	nodes := n.Engine.Nodes()
	out := make([]peerResponse, len(nodes))
	var requests sync.WaitGroup
	for i, to := range nodes {
		requests.Go(func() { out[i] = n.askOther(ctx, header, to, target) })
	}
	requests.Wait()
	return out
}

// checkOthers warns of nodes that can't be reached, or have this node's address, another API key, or a copy of its data folder.
func (n *Node) checkOthers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	for _, other := range n.askOthers(ctx, http.Header{"Authorization": {"Bearer " + n.Key}}, "/ui/node") {
		problem := ""
		switch sameURL, sameFolder := other.node.URL == n.URL, other.node.FolderID == n.FolderID; {
		case sameURL && sameFolder: // this node's own record from before a crash
		case sameURL:
			problem = "has this one's address, so they can't reach each other: set --node-url of both"
		case other.status == 0:
			problem = "can't be reached, and requests for the endpoints that it leads fail: check its --node-url"
		case other.status == http.StatusUnauthorized:
			problem = "rejects this one's API key: start all with the same key"
		case other.status == http.StatusOK && sameFolder:
			problem = "has a copy of this one's data folder, so both run the same pods: stop it, remove the file " + FolderIDFile + " from its folder and start it"
		}
		if problem != "" {
			n.Logger.WarnContext(ctx, "another jobrunner on this database "+problem, "url", other.node.URL)
		}
	}
}

// othersClient uses no proxy, and neither does a forwarder: a proxy may not reach the other nodes, and would get the API key.
var othersClient = http.Client{Transport: &http.Transport{
	DialContext: (&net.Dialer{Timeout: forwardDialTimeout}).DialContext, IdleConnTimeout: forwardTimeout,
}}

func (n *Node) askOther(ctx context.Context, header http.Header, node engine.Node, target string) peerResponse {
	a := peerResponse{node: node}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(node.URL, "/")+target, nil)
	if err != nil {
		a.err = err
		return a
	}
	req.Header = header.Clone()
	req.Header.Set(forwardedHeader, n.FolderID)
	req.Header.Del("Accept-Encoding") // net/http decompresses only what it has requested itself
	resp, err := othersClient.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	switch a.status = resp.StatusCode; a.status {
	case http.StatusOK:
		if a.body, a.err = io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxPeerResponse)); a.err != nil {
			a.err = fmt.Errorf("reading the answer of the jobrunner at %s to GET %s: %w", node.URL, target, a.err)
		}
	case http.StatusNotFound:
	default:
		a.err = fmt.Errorf("the jobrunner at %s answered GET %s with %s", node.URL, target, resp.Status)
	}
	return a
}
