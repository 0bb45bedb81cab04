package node

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

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
		if !includeWorkers || r.Header.Get(forwardedHeader) != "" {
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
