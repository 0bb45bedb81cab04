package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
)

// front is a proxy between the client and the jobrunner of one scenario. It applies the
// faults of the scenario, and records the exchanges and the calls of webhooks.
type front struct {
	jobrunner        *local.Deployment
	key              string
	endpoint, volume string // ids of existing objects
	url              string
	server           *httptest.Server
	faultHandler     http.Handler

	mu            sync.Mutex
	exchanges     []*exchange
	expectedCalls int           // webhooks of all submitted jobs
	calls         []call        // of webhooks
	callsChanged  chan struct{} // has a value if calls has changed
}

type call struct {
	status int // 0 if there was no answer
	err    error
}

// volumeSize is the size of the existing network volume in GB.
const volumeSize = 100

// Bodies that create the existing objects.
const (
	endpointBody = `{"name":"conformance-endpoint","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"min":0,"max":3}}`
	volumeBody   = `{"name":"conformance-volume","dataCenter":"EU-RO-1","size":100}`
)

// maxBody is the size in bytes to which a request is cut: a little more than /runsync accepts.
const maxBody = 24 << 20

// webhookPath is the path at which the jobrunner calls webhooks. The query is the client's own URL.
const webhookPath = "/conformance-webhook"

// webhookTime is how long close waits for webhooks.
const webhookTime = 10 * time.Second

func startFront(ctx context.Context, binary string, faults []*wirefault.Fault) (f *front, err error) {
	d, err := local.Start(ctx, local.Config{Binary: binary, OneKey: true, RealClock: true})
	if err != nil {
		return nil, err
	}
	f = &front{jobrunner: d, key: d.Target.Key, callsChanged: make(chan struct{}, 1)}
	f.endpoint, err = f.create(ctx, "/v2/serverless", endpointBody)
	if err == nil {
		f.volume, err = f.create(ctx, "/v2/network-volumes", volumeBody)
	}
	backend, parseErr := url.Parse(d.Target.BaseURL)
	if err = errors.Join(err, parseErr); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	proxy := httputil.NewSingleHostReverseProxy(backend)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.url = "http://" + f.server.Listener.Addr().String()
	webhooks := &wirefault.Fault{Method: http.MethodPost, Path: jobCreation, BodyWith: `"webhook"`, Request: wirefault.Edit{Affix: map[string][2]string{"webhook": {f.url + webhookPath + "?", ""}}}}
	f.faultHandler = wirefault.Handler(recordResponse(proxy), wirefault.Deployment{Key: f.key}, append(slices.Clone(faults), webhooks)...)
	f.server.Start()
	return f, nil
}

func (f *front) create(ctx context.Context, path, body string) (id string, err error) {
	x := wire.Do(ctx, http.DefaultClient, wire.NewRequest(http.MethodPost, f.jobrunner.Target.BaseURL+path, f.key, body), time.Now)
	var created struct{ ID string }
	if x.Err == nil && (json.Unmarshal(x.Body, &created) != nil || created.ID == "") {
		x.Err = fmt.Errorf("%d %s", x.Status, x.Body)
	}
	if x.Err != nil {
		return "", fmt.Errorf("creating an object at the jobrunner: POST %s: %w", path, x.Err)
	}
	return created.ID, nil
}

type exchangeKey struct{}

// recordResponse records the deployment's answer in the exchange, since a fault may replace it.
func recordResponse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r.WithContext(context.WithoutCancel(r.Context())))
		if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
			x.servedStatus, x.served = recorder.Code, recorder.Body.Bytes()
		}
		send(w, recorder.Code, recorder.Header(), recorder.Body.Bytes())
	})
}

func send(w http.ResponseWriter, status int, header http.Header, body []byte) {
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

func (f *front) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == webhookPath {
		f.webhookForwarder().ServeHTTP(w, r)
		return
	}
	x := &exchange{Exchange: wire.Exchange{Sent: time.Now(), Request: wire.Request{Method: r.Method, URL: r.URL.String(), Header: r.Header.Clone()}}, path: r.URL.Path}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client has disconnected
	}
	x.Request.Body, r.Body = body, io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	func() {
		defer f.record(x) // also if a fault drops the connection, by a panic
		x.Err = errors.New("the scenario dropped the connection")
		f.faultHandler.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
		x.Status, x.Header, x.Body, x.Err = answer.Code, answer.Header().Clone(), answer.Body.Bytes(), nil
	}()
	send(w, x.Status, answer.Header(), x.Body)
}

func (f *front) record(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.Received = time.Now()
	f.exchanges = append(f.exchanges, x)
	if x.posts(jobCreation) && x.succeeded() && textIn(x.Request.Body, "webhook") != "" {
		f.expectedCalls++
	}
}

// webhookForwarder forwards calls of webhooks to the client.
func (f *front) webhookForwarder() http.Handler {
	return &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			if target, err := url.Parse(r.In.URL.RawQuery); err == nil {
				r.Out.URL, r.Out.Host = target, ""
			}
		},
		ModifyResponse: func(answer *http.Response) error {
			f.recordCall(call{status: answer.StatusCode})
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			f.recordCall(call{err: err})
			w.WriteHeader(http.StatusBadGateway)
		},
	}
}

func (f *front) recordCall(c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
	select {
	case f.callsChanged <- struct{}{}:
	default:
	}
}

// close waits for the webhooks of jobs, and stops the jobrunner and the front. It returns
// the exchanges in order, and the calls of webhooks.
func (f *front) close(ctx context.Context) ([]*exchange, []call, error) {
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
	defer cancel()
	for f.awaitsWebhook() && ctx.Err() == nil {
		select {
		case <-f.callsChanged:
		case <-ctx.Done():
		}
	}
	err := f.jobrunner.Stop()
	f.server.CloseClientConnections()
	f.server.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.exchanges, func(a, b *exchange) int { return a.Sent.Compare(b.Sent) })
	return f.exchanges, f.calls, err
}

func (f *front) awaitsWebhook() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls) < f.expectedCalls
}

// exchange is a request of the client, with the answers of the deployment and of the front.
type exchange struct {
	wire.Exchange // Sent is when the request arrived; Status is 0 if the connection was dropped
	path          string
	// served is the deployment's answer, which a fault may have replaced.
	servedStatus int // 0 if the deployment got no request
	served       []byte
}

const (
	jobCreation = `^/v2/[^/]+/(run|runsync|openai/.+)$`
	creation    = `^/v[12]/[^/]+$|^/v2/(registries/delegations|account/secrets|[^/]+/batch)$|` + jobCreation
	jobReads    = `^/v2/[^/]+/(status|stream)/` // clients poll these to wait for a job
	uniqueNames = `^/v2/(templates|registries)$|^/v1/(templates|containerregistryauth)$`
)

// The last group of volumePath and jobPath is the id.
var (
	volumePath  = regexp.MustCompile(`^/(?:v2/network-volumes|v1/networkvolumes)(?:/([^/]+))?(?:/update)?$`)
	jobPath     = regexp.MustCompile(`^/v2/[^/]+/(?:status|stream)/([^/]+)$`)
	jobListPath = regexp.MustCompile(`^/v2/[^/]+/requests$`)
)

// sameAs reports whether two requests are equal.
func (x *exchange) sameAs(y *exchange) bool {
	return x.Request.Method == y.Request.Method && x.Request.URL == y.Request.URL && bytes.Equal(x.Request.Body, y.Request.Body)
}

// createdID returns the id of the management object that the request created.
func (x *exchange) createdID() string {
	if x.posts(jobCreation) {
		return ""
	}
	return textIn(x.served, "id")
}

// jobID returns the id of the job whose status or stream the request reads, or "".
func (x *exchange) jobID() string {
	if match := jobPath.FindStringSubmatch(x.path); match != nil {
		return match[1]
	}
	return ""
}

// isRead reports whether the request changes nothing.
func (x *exchange) isRead() bool {
	return x.Request.Method == http.MethodGet || x.Request.Method == http.MethodHead
}

// posts reports whether the request is a POST to a path that matches a pattern.
func (x *exchange) posts(pattern string) bool {
	return x.Request.Method == http.MethodPost && regexp.MustCompile(pattern).MatchString(x.path)
}

func (x *exchange) succeeded() bool { return x.Status >= 200 && x.Status < 300 }

func (x *exchange) bearer() string {
	scheme, key, _ := strings.Cut(x.Request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110: the scheme is case-insensitive
		return ""
	}
	return key
}

func (x *exchange) line() string { return x.Request.Method + " " + x.path }

// textIn returns a string member of a JSON object, or "" if it doesn't exist.
func textIn(body []byte, member string) string {
	var o map[string]any
	_ = json.Unmarshal(body, &o) // a body that isn't an object has no members
	text, _ := o[member].(string)
	return text
}
