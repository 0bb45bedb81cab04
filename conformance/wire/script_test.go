package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
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

func (m *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("X-Odd"), body))
	m.count++
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"status": "there", "id": "thing-number-%03d", "gpu": {"id": "L40S"}}`, m.count)
}

func (m *recorder) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.requests = nil }()
	return m.requests
}

// A script sends the suite's requests in order, with new objects' ids and without secrets.
func TestScriptRepeats(t *testing.T) {
	for _, program := range []string{"curl", "grep", "seq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " isn't installed")
		}
	}
	m := &recorder{}
	server := httptest.NewServer(m)
	defer server.Close()
	var hide wire.Secrets
	hide.Add("GPUCLOUD_API_KEY", "the-secret-key")
	hide.Add("PASSWORD", "planted-secret")
	var steps []wire.Step
	send := func(method, path, body string) string {
		r := wire.Request{Method: method, URL: server.URL + path, Header: http.Header{"Authorization": {"Bearer the-secret-key"}, "X-Odd": {"it's"}}}
		if body != "" {
			r.Body = []byte(body)
		}
		x := wire.Do(context.Background(), server.Client(), r, time.Now)
		steps = append(steps, wire.Step{Exchange: x})
		value := must.Do(x.JSON())(t)
		return fmt.Sprint(value.(map[string]any)["id"])
	}
	volume := send("POST", "/v2/network-volumes", `{"password": "planted-secret", "name": "it's"}`)
	endpoint := send("POST", "/v2/serverless?x=1", `{"volume": "`+volume+`", "price": "$5 `+"`"+`"}`)
	send("POST", "/v2/"+endpoint+"/run", `{"pad": "`+strings.Repeat("x", 3_000_000)+`"}`)
	send("GET", "/v2/"+endpoint+"/health", "")
	send("GET", "/v2/"+endpoint+"/health", "")
	second := send("POST", "/v2/serverless", `{}`)
	send("GET", "/v2/the-secret-key", "")
	send("PATCH", "/v2/serverless/"+second+"-not", `["`+endpoint+`"]`)
	cleanup := []wire.Request{{Method: "DELETE", URL: server.URL + "/v2/serverless/" + second}}
	want := append(m.take(), "DELETE /v2/serverless/"+second+"   ")
	failed := steps[len(steps)-1].Exchange
	text := wire.Script(steps, failed, cleanup, &hide)
	for _, secret := range []string{"the-secret-key", "planted-secret", "thing-number"} {
		must.Hold(t, !strings.Contains(text, secret), secret, "is in", text)
	}
	must.Hold(t, len(text) <= 5000 && strings.Contains(text, "# The answer to this request was not accepted:\ncurl -sS -i -X PATCH") &&
		strings.Contains(text, "\"Authorization: Bearer $GPUCLOUD_API_KEY\""), "the script is", text)

	m.mu.Lock()
	m.count = 500
	m.mu.Unlock()
	cmd := exec.Command("sh", "-eu", "-c", text)
	cmd.Env = append(cmd.Environ(), "GPUCLOUD_API_KEY=the-secret-key")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, text)
	}
	got := m.take()
	for i := range want {
		want[i] = strings.NewReplacer("thing-number-001", "thing-number-501", "thing-number-002", "thing-number-502", "thing-number-006", "thing-number-506",
			"planted-secret", "any-secret-of-your-own").Replace(want[i])
	}
	if !slices.Equal(got, want) {
		for i := range got {
			must.Hold(t, i < len(want) && got[i] == want[i], "request", i, "is", got[i])
		}
		t.Errorf("%d requests, not %d:\n%s", len(got), len(want), text)
	}
}

// Requests that were open at the same time are sent concurrently, and the pauses between requests are kept.
func TestScriptKeepsTime(t *testing.T) {
	var hide wire.Secrets
	start := time.Now()
	at := func(path string, sent, received float64) wire.Step {
		second := float64(time.Second)
		return wire.Step{Exchange: &wire.Exchange{
			Request: wire.Request{Method: "GET", URL: "http://x" + path}, Status: 200,
			Sent: start.Add(time.Duration(sent * second)), Received: start.Add(time.Duration(received * second)),
		}}
	}
	many, unanswered, broken := at("/many", 70, 71), at("/unanswered", 72, 0), at("/broken", 60, 64.2)
	many.Count, many.Request.Quiet = 2000, true
	unanswered.Unanswered = true
	broken.Status, broken.Err = 0, errors.New("cancelled")
	steps := []wire.Step{
		at("/held", 0, 30), at("/look", 9, 9.1), at("/after", 31, 31.1), at("/poll", 40, 40.1), at("/poll", 41, 41.1), at("/poll", 42.1, 42.2), broken, many, unanswered,
		at("/last", 73, 73),
	}
	want := strings.Join([]string{
		"curl -sS -i 'http://x/held' &", "sleep 9", "curl -sS -i 'http://x/look'", "wait", "sleep 22", "curl -sS -i 'http://x/after'", "sleep 9",
		`for n in $(seq 3); do curl -sS -w ' %{http_code}\n' 'http://x/poll'; sleep 1; done`, "sleep 18", "curl -sS -i -m 5 'http://x/broken'", "sleep 6",
		`for n in $(seq 2000); do curl -sS -o /dev/null -w '%{http_code}\n' 'http://x/many'; done`, "sleep 1", "curl -sS -i 'http://x/unanswered' &", "sleep 1",
		"curl -sS -i 'http://x/last'", "wait",
	}, "\n")
	must.Equal(t, wire.Script(steps, nil, nil, &hide), want, "the script")
}
