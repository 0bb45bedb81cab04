package front_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/front"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
)

// If a handler panics, the answer is 500 in the API's form, and a line of the log has the request's id.
func TestPanicIsAnswered500(t *testing.T) {
	for path, c := range map[string]struct{ contentType, member string }{
		"/v2/ep/run":           {"application/json", "error"},
		"/live/v2/ep/run":      {"application/json", "error"},
		"/ui/snapshot":         {"application/json", "error"},
		"/v1/templates":        {"application/json", "message"},
		"/v2/templates":        {"application/problem+json", "detail"},
		"/v2/serverless/ep":    {"application/problem+json", "detail"},
		"/v2/catalog/gpus/rtx": {"application/problem+json", "detail"},
	} {
		var log bytes.Buffer
		server := httptest.NewServer(front.Observe(slog.New(slog.NewTextHandler(&log, nil)), metrics.New(metrics.Config{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic("planted")
		})))
		resp := must.Do(http.Get(server.URL + path))(t)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		server.Close()
		var decoded map[string]any
		err := json.Unmarshal(body, &decoded)
		must.Hold(t, err == nil && resp.StatusCode == 500 && resp.Header.Get("Content-Type") == c.contentType && decoded[c.member] != nil &&
			!strings.Contains(string(body), "planted"), path, "answered", resp.StatusCode, resp.Header.Get("Content-Type"), string(body))
		status := decoded["status"]
		must.Hold(t, c.member != "detail" || status == 500.0, path, "answered with the status", status, "in the body, want 500")
		id := resp.Header.Get("X-Request-Id")
		must.Hold(t, id != "" && strings.Contains(log.String(), "planted") && strings.Contains(log.String(), id), path, "answered with the request id", id, "and the log is", &log)
	}
}

// If a handler panics during its answer, the client doesn't take the part for the whole. A worker's request id replaces the jobrunner's.
func TestPanicAbortsAnswer(t *testing.T) {
	server := httptest.NewServer(front.Observe(slog.New(slog.DiscardHandler), metrics.New(metrics.Config{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-Request-Id", "the worker's")
		_, _ = io.WriteString(w, "a part")
		must.Succeed(t, http.NewResponseController(w).Flush())
		panic("planted")
	})))
	defer server.Close()
	resp := must.Do(http.Get(server.URL))(t)
	defer resp.Body.Close()
	must.ErrorIs(t, must.Err(io.ReadAll(resp.Body)), io.ErrUnexpectedEOF)
	must.Equal(t, resp.Header["X-Request-Id"], []string{"the worker's"}, "the request ids")
}

// A request that ends because its client has disconnected isn't logged and counted as a fault.
func TestDisconnectedClient(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	disconnect()
	observe := func(aborts bool, handler http.HandlerFunc) {
		var log bytes.Buffer
		defer func() {
			must.Hold(t, (recover() != nil) == aborts && strings.Contains(log.String(), "status=499"), "the log is", &log)
		}()
		front.Observe(slog.New(slog.NewTextHandler(&log, nil)), metrics.New(metrics.Config{}), handler).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/v2/ep/x", nil))
	}
	observe(true, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	observe(false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }) // of a node to which the request was forwarded
}

// hijackable is a response writer that implements http.Hijacker.
type hijackable struct {
	http.ResponseWriter
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// A WebSocket is logged and counted with the status 101, not as a failed request.
func TestSwitchedProtocol(t *testing.T) {
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	var log bytes.Buffer
	front.Observe(slog.New(slog.NewTextHandler(&log, nil)), metrics.New(metrics.Config{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		must.Succeed(t, err)
	})).ServeHTTP(hijackable{httptest.NewRecorder(), conn}, httptest.NewRequest(http.MethodGet, "/v2/ep/socket", nil))
	must.Hold(t, strings.Contains(log.String(), "status=101"), "the log of a WebSocket is", &log)
}

// An informational status isn't the status of the answer that follows, which still has the request id.
func TestEarlyHints(t *testing.T) {
	var log bytes.Buffer
	w := httptest.NewRecorder()
	front.Observe(slog.New(slog.NewTextHandler(&log, nil)), metrics.New(metrics.Config{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header()) // as httputil.ReverseProxy does
		w.WriteHeader(http.StatusTeapot)
	})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v2/ep/hints", nil))
	must.Contain(t, log.String(), "status=418", "request="+cmp.Or(w.Header().Get("X-Request-Id"), "the id"))
}
