package fire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wire is the way from one provider process to the deployment.
type wire struct {
	deployment *deployment
	schedule   *schedule
	stop       func() // SIGINT
	fault      fault  // of the harness, on purpose

	mu   sync.Mutex
	dead bool // kill -9
}

var errDropped = errors.New("read: connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readAll(req.Body)
	if err != nil {
		return nil, err
	}
	operation := operation(req)
	if w.killed() {
		return nil, errDropped
	}
	f, takes := w.schedule.next(operation)
	if f != passes {
		w.schedule.tell("  %s: %s", operation, f)
	}
	// The deployment does its part whether or not somebody waits for the answer.
	send := func() *http.Response { return w.deployment.do(req, w.fault.change(operation, body)) }
	switch f {
	case droppedBefore:
		return nil, errDropped
	case refused500, refused502, refused503, wait503, tooMany, tooManyWait:
		return refusal(req, f), nil
	case stoppedBefore:
		w.stop()
		return nil, errDropped
	case killedBefore:
		w.kill()
		return nil, errDropped
	}
	if f == notFoundYet && w.deployment.wasJustCreated(req) {
		return answer(req, http.StatusNotFound, nil, `{"status":404,"title":"Not found","detail":"there is no such object"}`), nil
	}
	time.Sleep(takes)
	resp := send()
	time.Sleep(takes)
	if w.fault == hides && req.Method == http.MethodGet {
		resp = w.deployment.withoutRecent(req, resp)
	}
	if w.fault.repeats(operation) && (f == droppedAfter || f == done500 || f == done502 || f == done503) {
		return send(), nil
	}
	switch f {
	case droppedAfter:
		return nil, errDropped
	case done500, done502, done503:
		return refusal(req, f), nil
	case slow:
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	case truncated:
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 10), truncatedBody{}))
	case reordered:
		return w.schedule.shuffle(req, resp), nil
	case stoppedAfter:
		w.stop()
	case killedAfter:
		w.kill()
		return nil, errDropped
	case late:
		time.Sleep(3 * time.Second)
	case drips:
		resp.Body = io.NopCloser(&slowBody{req.Context(), resp.Body, time.Second / 20})
	case hangs:
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 10), &slowBody{req.Context(), resp.Body, time.Hour}))
	}
	return resp, nil
}

func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

func (w *wire) killed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// operation is the method and the path, with * for an id.
func operation(req *http.Request) string {
	parts := pathParts(req)
	if i := idAt(parts); len(parts) > i && parts[1] != "catalog" && parts[2] != "ssh-keys" {
		parts[i] = "*"
	}
	return req.Method + " " + strings.Join(parts[1:], "/")
}

func TestOperationHasNoID(t *testing.T) {
	for target, want := range map[string]string{
		"GET /v2/account/secrets":              "GET account/secrets",
		"PATCH /v2/account/secrets/a1":         "PATCH account/secrets/*",
		"PUT /v2/account/ssh-keys":             "PUT account/ssh-keys",
		"GET /v2/catalog/gpus":                 "GET catalog/gpus",
		"DELETE /v2/registries/delegations/a1": "DELETE registries/delegations/*",
		"GET /v2/registries/a1":                "GET registries/*",
		"GET /v2/clusters/a1/pods":             "GET clusters/*/pods",
		"POST /v1/containerregistryauth":       "POST containerregistryauth",
		"DELETE /v1/containerregistryauth/a1":  "DELETE containerregistryauth/*",
	} {
		method, path, _ := strings.Cut(target, " ")
		if got := operation(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("the operation of %s is %q, want %q", target, got, want)
		}
	}
}

func pathParts(req *http.Request) []string {
	return strings.Split(strings.Trim(req.URL.Path, "/"), "/")
}

// idAt is where a path has its id, if it has one.
func idAt(parts []string) int {
	if len(parts) > 2 && (parts[2] == "delegations" || parts[2] == "secrets") {
		return 3
	}
	return 2
}

func refusal(req *http.Request, f fate) *http.Response {
	status := map[fate]int{
		refused500: 500, refused502: 502, refused503: 503, wait503: 503, done500: 500, done502: 502, done503: 503, tooMany: 429, tooManyWait: 429,
	}[f]
	header := http.Header{}
	if f == wait503 || f == tooManyWait {
		header.Set("Retry-After", "2")
	}
	return answer(req, status, header, `<html>upstream</html>`)
}

func answer(req *http.Request, status int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

// shuffle puts the elements of a list in another order.
func (s *schedule) shuffle(req *http.Request, resp *http.Response) *http.Response {
	return rewriteList(req, resp, func(list []json.RawMessage) []json.RawMessage {
		rand.New(rand.NewPCG(s.seed, uint64(len(list)))).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	})
}

// rewriteList has another list, where the answer is one: an array, or an object
// with an array.
func rewriteList(req *http.Request, resp *http.Response, change func([]json.RawMessage) []json.RawMessage) *http.Response {
	text, _ := io.ReadAll(resp.Body)
	var list []json.RawMessage
	var object map[string]json.RawMessage
	member := ""
	if json.Unmarshal(text, &list) != nil && json.Unmarshal(text, &object) == nil {
		for name, value := range object {
			if value[0] == '[' && json.Unmarshal(value, &list) == nil {
				member = name
				break
			}
		}
	}
	switch changed, _ := json.Marshal(change(list)); {
	case member != "":
		object[member] = changed
		text, _ = json.Marshal(object)
	case object == nil && list != nil:
		text = changed
	}
	return answer(req, resp.StatusCode, resp.Header, string(text))
}

// truncatedBody is the rest of a body whose connection breaks.
type truncatedBody struct{}

func (truncatedBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// slowBody is a body that is read a few bytes at a time.
type slowBody struct {
	ctx   context.Context
	rest  io.Reader
	pause time.Duration
}

func (s *slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		return s.rest.Read(p[:min(len(p), 32)])
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
}

func readAll(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	defer body.Close()
	return io.ReadAll(body)
}

// deployment is a jobrunner, asked without a network.
type deployment struct {
	handler http.Handler

	mu   sync.Mutex
	born map[string]time.Time
}

// do is a request as the jobrunner gets it, and its answer. Who asked may be
// gone by then.
func (d *deployment) do(req *http.Request, body []byte) *http.Response {
	in := httptest.NewRequestWithContext(context.WithoutCancel(req.Context()), req.Method, req.URL.String(), bytes.NewReader(body))
	in.Header = req.Header.Clone()
	in.RemoteAddr = "127.0.0.1:1"
	recorder := httptest.NewRecorder()
	d.handler.ServeHTTP(recorder, in)
	resp := recorder.Result()
	resp.Request = req
	if parts := pathParts(req); req.Method == http.MethodPost && resp.StatusCode/100 == 2 && len(parts) == idAt(parts) {
		var made struct{ ID string }
		if json.Unmarshal(recorder.Body.Bytes(), &made) == nil && made.ID != "" {
			d.mu.Lock()
			d.born[made.ID] = time.Now()
			d.mu.Unlock()
		}
	}
	return resp
}

// lag is how long after its create an object may not be found by its id.
const lag = time.Second

// wasJustCreated tells whether a request reads a recently created object by its id.
func (d *deployment) wasJustCreated(req *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.born[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]]
	return ok && req.Method == http.MethodGet && time.Since(at) < lag
}

// withoutRecent hides what was made within the last minute from a list.
func (d *deployment) withoutRecent(req *http.Request, resp *http.Response) *http.Response {
	if parts := pathParts(req); len(parts) != idAt(parts) { // not a list
		return resp
	}
	return rewriteList(req, resp, func(list []json.RawMessage) []json.RawMessage {
		return slices.DeleteFunc(list, func(e json.RawMessage) bool {
			var o struct{ ID string }
			_ = json.Unmarshal(e, &o) // what has no id stays
			d.mu.Lock()
			defer d.mu.Unlock()
			at, ok := d.born[o.ID]
			return ok && time.Since(at) < time.Minute
		})
	})
}
