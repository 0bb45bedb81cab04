package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/front"
)

// Gather adds the workers of other nodes to the pods of management API v1, if a request asks
// for workers.
func (n *Node) Gather(next http.Handler) http.Handler {
	if !n.DB.Shared() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, one := strings.CutPrefix(r.URL.Path, "/v1/pods/")
		includeWorkers := r.Method == http.MethodGet && (one && !strings.Contains(id, "/") || r.URL.Path == "/v1/pods") && r.URL.Query().Get("includeWorkers") == "true"
		if !includeWorkers || isForwarded(r) {
			next.ServeHTTP(w, r)
			return
		}
		own := &bufferedResponse{header: w.Header()}
		next.ServeHTTP(own, r)
		if expected := map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[one]; own.status != expected {
			own.send(w)
			return
		}
		others, err := n.askAll(r)
		if err != nil {
			n.Logger.DebugContext(r.Context(), "a jobrunner does not say which workers it has", "error", err)
			w.Header().Del("Content-Length")
			refuseUnreachable(w, r)
			return
		}
		if one {
			own.useFirstFound(others)
		} else if err := own.merge(others); err != nil {
			front.FormOf(r.URL.Path).Fail(w, r, n.Logger, err)
			return
		}
		own.send(w)
	})
}

// askAll sends a request to all other nodes. It returns an error if a node doesn't respond,
// because the merged response would lack that node's objects.
func (n *Node) askAll(r *http.Request) ([]peerResponse, error) {
	ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
	defer cancel()
	all := n.askOthers(ctx, r.Header, r.URL.RequestURI())
	for _, one := range all {
		if one.err != nil {
			return nil, one.err
		}
	}
	return all, nil
}

// bufferedResponse buffers a response.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *bufferedResponse) Header() http.Header { return a.header }

func (a *bufferedResponse) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *bufferedResponse) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

func (a *bufferedResponse) send(w http.ResponseWriter) {
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // fails if the client is gone
}

// useFirstFound replaces the response with another node's response, if that node has the object.
func (a *bufferedResponse) useFirstFound(others []peerResponse) {
	for _, other := range others {
		if other.status == http.StatusOK {
			a.setBody(other.body)
			a.status = other.status
			a.header.Set("Content-Type", "application/json")
			return
		}
	}
}

// merge adds the objects of other responses that this one lacks.
func (a *bufferedResponse) merge(others []peerResponse) error {
	var list []json.RawMessage
	if err := json.Unmarshal(a.body.Bytes(), &list); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, object := range list {
		known[idOf(object)] = true
	}
	for _, other := range others {
		var more []json.RawMessage
		if err := json.Unmarshal(other.body, &more); err != nil {
			return err
		}
		for _, object := range more {
			if id := idOf(object); !known[id] {
				known[id] = true
				list = append(list, object)
			}
		}
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	a.setBody(body)
	return nil
}

func (a *bufferedResponse) setBody(body []byte) {
	a.body.Reset()
	a.body.Write(body)
	a.header.Del("Content-Length")
}

func idOf(object json.RawMessage) string {
	var o struct{ ID string }
	_ = json.Unmarshal(object, &o) // jobrunners write objects with ids
	return o.ID
}

// maxPeerResponse limits the body of another node's response, in bytes.
const maxPeerResponse = 64 << 20

// peerResponse is another node's response.
type peerResponse struct {
	node   engine.Node
	status int // 200 or 404; 0 without a response
	body   []byte
	err    error
}

// askOthers sends a GET request with these headers to all other nodes, and waits for their
// responses until ctx ends.
func (n *Node) askOthers(ctx context.Context, header http.Header, target string) []peerResponse {
	nodes := n.Engine.Nodes()
	out := make([]peerResponse, len(nodes))
	var all sync.WaitGroup
	for i, to := range nodes {
		all.Go(func() { out[i] = n.askOther(ctx, header, to, target) })
	}
	all.Wait()
	return out
}

// checkOthers warns of nodes with this node's address, another API key, or a copy of its data folder.
func (n *Node) checkOthers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	for _, other := range n.askOthers(ctx, http.Header{"Authorization": {"Bearer " + n.Key}}, "/ui/node") {
		problem := ""
		switch sameURL, sameFolder := other.node.URL == n.URL, other.node.Machine == n.Machine; {
		case sameURL && sameFolder: // it is this node before a crash
		case sameURL:
			problem = "has this one's address, so they can't reach each other: set --node-url of both"
		case other.status == 0:
			problem = "can't be reached, and requests for the endpoints that it leads fail: check its --node-url"
		case other.status == http.StatusUnauthorized:
			problem = "rejects this one's API key: start all with the same key"
		case other.status == http.StatusOK && sameFolder:
			problem = "has a copy of this one's data folder, so both run the same pods: stop it, remove the file " + MachineFile + " from its folder and start it"
		}
		if problem != "" {
			n.Logger.WarnContext(ctx, "another jobrunner on this database "+problem, "url", other.node.URL)
		}
	}
}

func (n *Node) askOther(ctx context.Context, header http.Header, node engine.Node, target string) peerResponse {
	a := peerResponse{node: node}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(node.URL, "/")+target, nil)
	if err != nil {
		a.err = err
		return a
	}
	req.Header = header.Clone()
	req.Header.Set(forwardedHeader, n.Machine)
	req.Header.Del("Accept-Encoding") // net/http decompresses only what it has requested itself
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	if a.status = resp.StatusCode; a.status != http.StatusOK && a.status != http.StatusNotFound {
		a.err = fmt.Errorf("the jobrunner at %s answered GET %s with %s", node.URL, target, resp.Status)
		return a
	}
	a.body, a.err = io.ReadAll(io.LimitReader(resp.Body, maxPeerResponse))
	return a
}
