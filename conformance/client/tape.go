package client

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// exchange is one request of the client, and what it was answered.
type exchange struct {
	came, answered time.Time
	request        *http.Request
	body           []byte
	status         int // 0: the connection was dropped
	header         http.Header
	answer         []byte
	// scripted tells that the script answered, and not the deployment.
	scripted bool
	// lostID is the id of the management object that the request made, where the
	// answer with it was dropped.
	lostID string
	// shrinks tells that the request would leave a network volume smaller.
	shrinks bool
}

func (x *exchange) path() string { return x.request.URL.Path }

// same tells whether two requests ask for the same thing, word for word.
func (x *exchange) same(y *exchange) bool {
	return x.request.Method == y.request.Method && x.request.URL.String() == y.request.URL.String() && bytes.Equal(x.body, y.body)
}

// reads tells whether the request changes nothing.
func (x *exchange) reads() bool {
	return x.request.Method == http.MethodGet || x.request.Method == http.MethodHead
}

// makes tells whether the request asks for something new: an object, or a job.
func (x *exchange) makes() bool { return x.request.Method == http.MethodPost && makesAt(x.path()) }

func (x *exchange) success() bool { return x.status >= 200 && x.status < 300 }

// bearer is the key that the request came with, "" for none.
func (x *exchange) bearer() string {
	scheme, key, _ := strings.Cut(x.request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110: in any case
		return ""
	}
	return key
}

// tape is all that a client said in one scenario, as it was answered.
type tape struct {
	mu   sync.Mutex
	list []*exchange
}

func (t *tape) add(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, x)
}

// all are the exchanges so far, in the order in which they came.
func (t *tape) all() []*exchange {
	t.mu.Lock()
	list := slices.Clone(t.list)
	t.mu.Unlock()
	slices.SortStableFunc(list, func(a, b *exchange) int { return a.came.Compare(b.came) })
	return list
}
