package node

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/front"
)

// Gather adds the workers of the other nodes to the pods of management API v1, if a request
// asks for workers. Each node answers for its own.
func (n *Node) Gather(next http.Handler) http.Handler {
	if !n.DB.Shared() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, one := strings.CutPrefix(r.URL.Path, "/v1/pods/")
		wanted := r.Method == http.MethodGet && (one && !strings.Contains(id, "/") || r.URL.Path == "/v1/pods") && r.URL.Query().Get("includeWorkers") == "true"
		if !wanted || r.Header.Get(forwarded) != "" {
			next.ServeHTTP(w, r)
			return
		}
		own := &heldAnswer{header: w.Header()}
		next.ServeHTTP(own, r)
		if expected := map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[one]; own.status != expected {
			own.send(w)
			return
		}
		others, err := n.askAll(r)
		if err != nil {
			n.Logger.DebugContext(r.Context(), "a jobrunner does not say which workers it has", "error", err)
			w.Header().Del("Content-Length")
			refuseMoving(w, r)
			return
		}
		if one {
			own.takeFound(others)
		} else if err := own.merge(others); err != nil {
			front.FormOf(r.URL.Path).Fail(w, r, n.Logger, err)
			return
		}
		own.send(w)
	})
}

// askAll sends a request to all other nodes. A node that doesn't answer is an error:
// its objects would be missing.
func (n *Node) askAll(r *http.Request) ([]otherAnswer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), forwardAnswer)
	defer cancel()
	all := n.askOthers(ctx, r.Header, r.URL.RequestURI())
	for _, one := range all {
		if one.err != nil {
			return nil, one.err
		}
	}
	return all, nil
}

// heldAnswer is an answer that is not sent yet.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *heldAnswer) Header() http.Header { return a.header }

func (a *heldAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *heldAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

func (a *heldAnswer) send(w http.ResponseWriter) {
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // fails if the client is gone
}

// takeFound takes the answer of the one that has the object.
func (a *heldAnswer) takeFound(others []otherAnswer) {
	for _, other := range others {
		if other.status == http.StatusOK {
			a.setBody(other.body)
			a.status = other.status
			a.header.Set("Content-Type", "application/json")
			return
		}
	}
}

// merge adds the objects of other answers that this one does not have.
func (a *heldAnswer) merge(others []otherAnswer) error {
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

func (a *heldAnswer) setBody(body []byte) {
	a.body.Reset()
	a.body.Write(body)
	a.header.Del("Content-Length")
}

func idOf(object json.RawMessage) string {
	var o struct{ ID string }
	_ = json.Unmarshal(object, &o) // jobrunners write objects with ids
	return o.ID
}
