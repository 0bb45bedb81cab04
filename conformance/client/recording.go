package client

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// exchange is one request of the client, and its answer.
type exchange struct {
	received, answered time.Time
	request            *http.Request
	body               []byte
	status             int // 0: the connection was dropped
	header             http.Header
	answer             []byte
	// scripted says that the script answered, and not the deployment.
	scripted bool
	// createdID is the id of the management object that the request created; it is set
	// only where the script dropped the answer.
	createdID string
	// shrinks says that the request would shrink a network volume.
	shrinks bool
}

func (x *exchange) path() string { return x.request.URL.Path }

// sameAs tells whether two requests are equal.
func (x *exchange) sameAs(y *exchange) bool {
	return x.request.Method == y.request.Method && x.request.URL.String() == y.request.URL.String() && bytes.Equal(x.body, y.body)
}

// isRead tells whether the request changes nothing.
func (x *exchange) isRead() bool {
	return x.request.Method == http.MethodGet || x.request.Method == http.MethodHead
}

// isCreation tells whether the request creates an object or a job.
func (x *exchange) isCreation() bool {
	return x.request.Method == http.MethodPost && createsAt(x.path())
}

func (x *exchange) succeeded() bool { return x.status >= 200 && x.status < 300 }

// bearer returns the key of the request, "" for none.
func (x *exchange) bearer() string {
	scheme, key, _ := strings.Cut(x.request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110: in any case
		return ""
	}
	return key
}

// recording records the exchanges of a client in one scenario.
type recording struct {
	mu   sync.Mutex
	list []*exchange
}

func (t *recording) add(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, x)
}

// all returns the exchanges so far, in order.
func (t *recording) all() []*exchange {
	t.mu.Lock()
	list := slices.Clone(t.list)
	t.mu.Unlock()
	slices.SortStableFunc(list, func(a, b *exchange) int { return a.received.Compare(b.received) })
	return list
}
