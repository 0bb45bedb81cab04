package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// recorder answers each request with a new id and records the requests.
type recorder struct {
	mu       sync.Mutex
	requests []string
	count    int
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, fmt.Sprintf("%s %s %s %s %s", req.Method, req.URL, req.Header.Get("Authorization"), req.Header.Get("X-Odd"), body))
	r.count++
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"status": "there", "id": "thing-number-%03d", "gpu": {"id": "L40S"}}`, r.count)
}

func (r *recorder) takeRequests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.requests = nil }()
	return r.requests
}

// A script sends the suite's requests in order, with new objects' ids and without secrets.
func TestScriptRepeats(t *testing.T) {
	for _, program := range []string{"curl", "grep", "seq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " isn't installed")
		}
	}
	deployment := &recorder{}
	server := httptest.NewServer(deployment)
	defer server.Close()
	var secrets wire.Secrets
	secrets.Add("GPUCLOUD_API_KEY", "the-secret-key")
	secrets.Add("PASSWORD", "planted-secret")
	var steps []wire.Step
	send := func(method, path, body string) string {
		r := wire.Request{Method: method, URL: server.URL + path, Header: http.Header{"Authorization": {"Bearer the-secret-key"}, "X-Odd": {"it's"}}}
		if body != "" {
			r.Body = []byte(body)
		}
		x := wire.Do(context.Background(), server.Client(), r, time.Now)
		steps = append(steps, wire.Step{Exchange: x})
		return fmt.Sprint(must.Do(x.JSON())(t).(map[string]any)["id"])
	}
	volume := send("POST", "/v2/network-volumes", `{"password": "planted-secret", "name": "it's"}`)
	endpoint := send("POST", "/v2/serverless?x=1", `{"volume": "`+volume+`", "price": "$5 `+"`"+`"}`)
	send("POST", "/v2/"+endpoint+"/run", `{"pad": "`+strings.Repeat("x", 3_000_000)+`"}`)
	send("GET", "/v2/"+endpoint+"/health", "")
	send("GET", "/v2/"+endpoint+"/health", "")
	second := send("POST", "/v2/serverless", strings.Repeat("[1]", 1000))
	send("GET", "/v2/the-secret-key", "")
	send("PATCH", "/v2/serverless/"+second+"-not", `["`+endpoint+`"]`)
	cleanup := []wire.Request{{Method: "DELETE", URL: server.URL + "/v2/serverless/" + second}}
	want := append(deployment.takeRequests(), "DELETE /v2/serverless/"+second+"   ")
	text := wire.Script(steps, steps[len(steps)-1].Exchange, cleanup, &secrets)
	for _, secret := range []string{"the-secret-key", "planted-secret", "thing-number"} {
		must.Hold(t, !strings.Contains(text, secret), secret, "is in", text)
	}
	must.Hold(t, len(text) <= 5000 && strings.Contains(text, "# The answer to this request was not accepted:\ncurl -sS -i -X PATCH") &&
		strings.Contains(text, "\"Authorization: Bearer $GPUCLOUD_API_KEY\""), "the script is", text)

	deployment.mu.Lock()
	deployment.count = 500
	deployment.mu.Unlock()
	cmd := exec.Command("sh", "-eu", "-c", text)
	cmd.Env = append(cmd.Environ(), "GPUCLOUD_API_KEY=the-secret-key")
	cmd.Dir = t.TempDir()
	must.Succeed(t, os.WriteFile(cmd.Dir+"/body", []byte(strings.Repeat("[1]", 1000)), 0o600))
	out, err := cmd.CombinedOutput()
	must.Require(t, err == nil, err, string(out), text)
	got := deployment.takeRequests()
	for i := range want {
		want[i] = strings.NewReplacer("thing-number-001", "thing-number-501", "thing-number-002", "thing-number-502", "thing-number-006", "thing-number-506",
			"planted-secret", "any-secret-of-your-own").Replace(want[i])
	}
	must.Equal(t, len(got), len(want), text, "sends requests:")
	for i := range min(len(got), len(want)) {
		must.Equal(t, got[i], want[i], "request", i)
	}
}

// Concurrent requests stay concurrent, pauses are kept, and a failed request is marked even if a later one is equal.
func TestScriptKeepsTime(t *testing.T) {
	var secrets wire.Secrets
	start := time.Now()
	stepAt := func(path string, sent, received float64) wire.Step {
		second := float64(time.Second)
		return wire.Step{Exchange: &wire.Exchange{
			Request: wire.Request{Method: "GET", URL: "http://x" + path}, Status: 200,
			Sent: start.Add(time.Duration(sent * second)), Received: start.Add(time.Duration(received * second)),
		}}
	}
	many, unanswered, cancelled := stepAt("/many", 70, 71), stepAt("/unanswered", 72, 0), stepAt("/broken", 60, 64.2)
	many.Count, many.Request.Quiet = 2000, true
	unanswered.Unanswered = true
	cancelled.Status, cancelled.Err = 0, errors.New("cancelled")
	steps := []wire.Step{
		stepAt("/held", 0, 30), stepAt("/look", 9, 9.1), stepAt("/after", 31, 31.1), stepAt("/poll", 40, 40.1), stepAt("/poll", 41, 41.1), stepAt("/poll", 42.1, 42.2), cancelled, many, unanswered,
		stepAt("/last", 73, 73),
	}
	want := strings.Join([]string{
		"curl -sS -i 'http://x/held' &", "sleep 9", "curl -sS -i 'http://x/look'", "wait", "sleep 22", "curl -sS -i 'http://x/after'", "sleep 9",
		"# The answer to this request was not accepted:", `for n in $(seq 3); do curl -sS -w ' %{http_code}\n' 'http://x/poll'; sleep 1; done`, "sleep 18", "curl -sS -i -m 5 'http://x/broken'", "sleep 6",
		`for n in $(seq 2000); do curl -sS -o /dev/null -w '%{http_code}\n' 'http://x/many'; done`, "sleep 1", "curl -sS -i 'http://x/unanswered' &", "sleep 1",
		"curl -sS -i 'http://x/last'", "wait",
	}, "\n")
	must.Equal(t, wire.Script(steps, steps[4].Exchange, nil, &secrets), want, "the script")
}
