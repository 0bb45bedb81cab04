package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Objects that the deployment has from the start.
const (
	endpointID = "conformance-endpoint"
	volumeID   = "conformance-volume"
	volumeSize = 100 // GB
)

// maxBody bounds the bytes that are read of a request: a little more than the contract
// allows for /runsync.
const maxBody = 24 << 20

// deployment answers one client in one scenario: the management API, both
// versions, and the job API, as far as clients need them.
type deployment struct {
	key    string
	script script // nil: none
	states []string

	server    *http.Server
	url       string
	recording recording

	mu      sync.Mutex // one request at a time
	objects map[string][]object
	jobs    map[string]*job
	made    int
	deleted map[string]float64 // sizes of network volumes by name

	hooks sync.WaitGroup
	calls []call // of webhooks; guarded by mu
	// missing are requests to operations that this deployment does not serve; guarded
	// by mu.
	missing []string
}

// script may answer in the deployment's place; nil lets it answer. before are
// the same request's exchanges so far.
type script func(d *deployment, x *exchange, before []*exchange) *reply

// reply is an answer to be sent.
type reply struct {
	status int
	header map[string]string
	body   any
	// dropConnection executes the request and closes the connection without an answer.
	dropConnection bool
	// call is the URL of a webhook to be called about a job.
	call string
	tell object
}

// call is a webhook that was called.
type call struct {
	status int // 0: no answer
	err    error
}

// hookTime bounds the call of a webhook.
const hookTime = 10 * time.Second

func startDeployment(key string, s script, course []string) (*deployment, error) {
	if course == nil {
		course = completes
	}
	volume := func(center string) []object {
		return []object{{"id": volumeID, "name": volumeID, "size": volumeSize, center: "EU-RO-1"}}
	}
	d := &deployment{key: key, script: s, states: course, jobs: map[string]*job{}, deleted: map[string]float64{}, objects: map[string][]object{
		"/v2/network-volumes": volume("dataCenter"), "/v1/networkvolumes": volume("dataCenterId"),
	}}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the scripted deployment can't listen: %w", err)
	}
	d.url = "http://" + listener.Addr().String()
	d.server = &http.Server{Handler: http.HandlerFunc(d.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = d.server.Serve(listener) }() // ends by close
	return d, nil
}

// closeTime is how long answers in flight have to complete at shutdown.
const closeTime = 200 * time.Millisecond

// close ends the deployment; webhook calls in flight complete.
func (d *deployment) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if d.server.Shutdown(ctx) != nil {
		_ = d.server.Close() // what the client still holds open is of no interest
	}
	d.hooks.Wait()
}

func (d *deployment) serve(w http.ResponseWriter, r *http.Request) {
	x := &exchange{received: time.Now(), request: r}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client broke off
	}
	x.body = body
	answer := d.answer(x)
	if answer.dropConnection {
		x.answered = time.Now()
		d.recording.add(x)
		panic(http.ErrAbortHandler) // net/http's way to break a connection off
	}
	if answer.body != nil {
		x.answer, _ = json.Marshal(answer.body) // of our own making
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range answer.header {
		w.Header().Set(name, value)
	}
	x.status, x.header, x.answered = answer.status, w.Header().Clone(), time.Now()
	d.recording.add(x)
	w.WriteHeader(answer.status)
	if _, err := io.Copy(w, bytes.NewReader(x.answer)); err != nil {
		return // the client closed the connection: the answer is recorded
	}
	if answer.call != "" {
		d.hooks.Go(func() { d.callWebhook(answer.call, answer.tell) })
	}
}

// answer returns the answer to a request; requests are answered one at a time.
func (d *deployment) answer(x *exchange) *reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x.bearer() != d.key {
		return d.refusal(x, http.StatusUnauthorized, "the key is missing or wrong: it is sent as Authorization: Bearer")
	}
	if d.script != nil {
		var before []*exchange
		for _, y := range d.recording.all() {
			if x.sameAs(y) {
				before = append(before, y)
			}
		}
		if r := d.script(d, x, before); r != nil {
			x.scripted = true
			return r
		}
	}
	return d.route(x)
}

// route answers a request without a script.
func (d *deployment) route(x *exchange) *reply {
	path := x.path()
	if k, id, ok := kindAt(path); ok {
		return d.management(k, id, x)
	}
	if name, id, ok := parseJobPath(path); ok {
		return d.jobAPI(name, id, x)
	}
	if body, ok := catalogAnswer(path); ok && x.request.Method == http.MethodGet {
		return &reply{status: http.StatusOK, body: body}
	}
	if what := requestLine(x); !slices.Contains(d.missing, what) {
		d.missing = append(d.missing, what)
	}
	return d.refusal(x, http.StatusNotFound, "there is nothing at "+path)
}

// unservedRequests returns requests to operations that this deployment does not serve.
func (d *deployment) unservedRequests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missing
}

// refusal is an error in the form of the API version: RFC 9457 in version 2,
// an object with a message in version 1, and with an error in the job API.
func (d *deployment) refusal(x *exchange, status int, detail string) *reply {
	r := &reply{status: status, header: map[string]string{}}
	switch _, _, isJob := parseJobPath(x.path()); {
	case strings.HasPrefix(x.path(), "/v1/"):
		r.body = object{"message": detail}
	case isJob:
		r.body = object{"error": detail}
	default:
		r.header["Content-Type"] = "application/problem+json"
		r.body = object{"title": http.StatusText(status), "status": status, "detail": detail}
	}
	return r
}

// callWebhook calls a webhook about a job, once.
func (d *deployment) callWebhook(url string, told object) {
	ctx, cancel := context.WithTimeout(context.Background(), hookTime)
	defer cancel()
	var c call
	body, _ := json.Marshal(told) // of our own making
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err == nil {
		request.Header.Set("Content-Type", "application/json")
		var answer *http.Response
		if answer, err = hookClient.Do(request); err == nil {
			c.status = answer.StatusCode
			err = answer.Body.Close()
		}
	}
	c.err = err
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
}

var hookClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}

var errRedirect = errors.New("it redirects: a receiver answers 200 itself")

// webhookCalls returns the webhook calls that were made.
func (d *deployment) webhookCalls() []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}
