package selftest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
)

// dull are servers that do nothing, and answer all requests alike.
var dull = map[string]http.HandlerFunc{
	"200 {}":   always(200, "application/json", "{}"),
	"200 []":   always(200, "application/json", "[]"),
	"202":      always(202, "application/json", "{}"),
	"204":      always(204, "", ""),
	"401":      always(401, "application/json", `{"error":"who are you?"}`),
	"404":      always(404, "application/json", `{"error":"there is nothing here"}`),
	"500":      always(500, "application/json", `{"error":"broken"}`),
	"200 HTML": always(200, "text/html; charset=utf-8", "<!doctype html><title>Welcome</title><p>It works!"),
	"echo": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	},
	"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"hangs up": func(w http.ResponseWriter, _ *http.Request) {
		if connection, _, err := w.(http.Hijacker).Hijack(); err == nil {
			connection.Close()
		}
	},
	// Those that know a word of it.
	"400": always(400, "application/json", `{"error":"no","message":"no","title":"no","detail":"no","status":400}`),
	"429": always(429, "application/json", `{"error":"too many"}`),
}

func always(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// serve serves for one test.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// A server that does nothing is told off within seconds, in one line that says
// which request it failed, and keeps nothing.
func TestDoNothingServers(t *testing.T) {
	for name, handler := range dull {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, handler)
			for i, target := range []conformance.Target{
				{BaseURL: url, Key: "the-key", Local: true},
				{BaseURL: url, Key: "the-key"},
				{QueueURL: url, Key: "the-key", Endpoint: "our-endpoint"},
			} {
				if name == "hangs" && i > 0 {
					break // it is waited for
				}
				began := time.Now()
				r := judge(t, conformance.Options{Target: target})
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("it takes %s", took)
				}
				var text strings.Builder
				report.Terminal(&text, r, false)
				first, rest, _ := strings.Cut(text.String(), "\n")
				asked := "GET " + url + "/"
				if r.Exit != conformance.ExitInconclusive || !strings.Contains(first, asked) || rest != "" {
					t.Errorf("exit code %d, and told:\n%s", r.Exit, &text)
				}
				if kept := passes(r); len(kept) > 0 {
					t.Errorf("it keeps %s", kept)
				}
			}
		})
	}
}

// passes are the clauses that are kept.
func passes(r *report.Report) (musts []string) {
	for _, x := range r.Results {
		if x.Verdict == report.Pass && x.Level == string(suite.Must) {
			musts = append(musts, x.Clause)
		}
	}
	return musts
}

// liar answers what the suite asks before it judges, and else does nothing. Or
// it makes whatever it is asked to make, too, and lists none of it.
func liar(then http.Handler, makes bool) http.Handler {
	var made atomic.Int64
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	mux.Handle("/", then)
	mux.HandleFunc("GET /v2/{endpoint}/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{
			"jobs":    map[string]any{"completed": 0, "failed": 0, "inProgress": 0, "inQueue": 0, "retried": 0},
			"workers": map[string]any{"idle": 0, "running": 0},
		})
	})
	mux.HandleFunc("/conf-nothing-is-here", http.NotFound)
	if !makes {
		return mux
	}
	lists := map[string]string{"templates": "templates", "serverless": "endpoints", "network-volumes": "networkVolumes", "registries": "registries"}
	for path, key := range lists {
		mux.HandleFunc("GET /v2/"+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]any{key: []any{}}) })
	}
	mux.HandleFunc("GET /v1/containerregistryauth", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, []any{}) })
	mux.HandleFunc("GET /v2/catalog/datacenters", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"dataCenters": []any{map[string]any{"id": "HERE-1"}}})
	})
	create := func(w http.ResponseWriter, r *http.Request) {
		body := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&body)
		body["id"] = fmt.Sprintf("thing-%d", made.Add(1))
		answer(w, 201, body)
	}
	for _, path := range []string{
		"/v1/templates", "/v1/endpoints", "/v1/networkvolumes", "/v1/containerregistryauth",
		"/v2/templates", "/v2/serverless", "/v2/network-volumes", "/v2/registries",
	} {
		mux.HandleFunc("POST "+path, create)
	}
	mux.HandleFunc("DELETE /v1/{kind}/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("DELETE /v2/{kind}/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	return mux
}

// true of a liar: what it answers before anything is judged.
var known = []string{"JOB-01", "OPS-23", "VER-03"}

// done are the clauses that a liar keeps that makes things: it does answer with
// what it made and an id, does remove it, has all lists where they belong, and
// nothing else there.
var done = []string{
	"T-01", "T-07", "T-17", "T-21", "V-02", "R-03", "P-01", "VER-01", "VER-02", "VER-06", "VER-07", "VER-08", "VER-09", "VER-26",
	"VER-31", "VER-32", "VER-33", "VER-34", "VER-35", "VER-40",
}

// Who gets through the preflight and then answers everything alike keeps
// nothing but what it really does.
func TestLiars(t *testing.T) {
	if len(known) > 6 {
		t.Error("too much is taken for kept")
	}
	names := []string{"200 {}", "200 []", "echo", "401", "400", "404", "429", "500"}
	if testing.Short() {
		names = []string{"200 {}", "echo", "429"}
	}
	for _, name := range names {
		for _, makes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, makes things %v", name, makes), func(t *testing.T) {
				t.Parallel()
				may := known
				if makes {
					may = slices.Concat(known, done)
				}
				synctest.Test(t, func(t *testing.T) {
					network := pipenet.Listen()
					server := &http.Server{Handler: liar(dull[name], makes)}
					go server.Serve(network)
					transport := network.Transport()
					target := conformance.Target{
						BaseURL: "http://liar", Key: "the-key", OtherKey: "the-other-key", UserKey: "the-user's-key",
						Client: &http.Client{Transport: transport}, Virtual: true, Local: makes,
					}
					if !makes {
						target.Endpoint = "our-endpoint"
					}
					r := judge(t, conformance.Options{Target: target, Allow: ^conformance.Allow(0)})
					if r.Preflight != "" || r.Counts[report.Fail] < 40 || r.Exit != conformance.ExitFailed {
						t.Errorf("preflight %q, %v, exit code %d", r.Preflight, r.Counts, r.Exit)
					}
					for _, clause := range passes(r) {
						if !slices.Contains(may, clause) {
							t.Errorf("it keeps %s", clause)
						}
					}
					transport.CloseIdleConnections()
					server.Close()
				})
			})
		}
	}
}
