package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestSecretsAreHiddenByValue(t *testing.T) {
	var s wire.Secrets
	s.Add("KEY", `a"b/c+d`)
	s.Add("LONG", `a"b/c+d-and-more`)
	s.Add("NOTHING", "abc")
	for text, want := range map[string]string{
		`x a"b/c+d y`: `x $KEY y`, `{"k":"a\"b/c+d"}`: `{"k":"$KEY"}`, "?key=a%22b%2Fc%2Bd": "?key=$KEY", "/x/a%22b%2Fc+d": "/x/$KEY",
		`a"b/c+d-and-more`: "$LONG", "abcabc": "abcabc",
	} {
		must.Equal(t, s.Redact(text), want, text)
	}
}

// A cut text contains no part of a secret, wherever it is cut, and n counts the bytes before redaction.
func TestCutRedactsFirst(t *testing.T) {
	const secret, redacted = "the-secret-that-is-long", "$KEY é $KEY and $KEY"
	var s wire.Secrets
	s.Add("KEY", secret)
	text := []byte(secret + " é " + secret + " and " + secret)
	for n := range len(text) + 10 {
		got := s.Cut(text, n)
		for rest := got; rest != ""; rest = rest[1:] {
			must.Require(t, !strings.HasPrefix(rest, secret[:4]), "cut at", n, "bytes, the text shows a part of the secret:", got)
		}
		_, ok := strings.CutPrefix(redacted, got)
		must.Hold(t, ok && (n < len(text) || got == redacted), "cut at", n, "bytes, the text is", got, "instead of the beginning of", redacted)
	}
}

func TestChunkedHasNoContentLength(t *testing.T) {
	length := int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { length = r.ContentLength }))
	defer server.Close()
	x := wire.Do(context.Background(), server.Client(), wire.Request{Method: "POST", URL: server.URL, Body: []byte("abc"), Chunked: true}, time.Now)
	must.Hold(t, x.Err == nil && length == -1, "expected the unknown length -1, got", length, x.Err)
}

// A large body isn't sent if the target refuses it, so that a slow machine can read the refusal.
func TestLargeBodyWaitsForARefusal(t *testing.T) {
	var read int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 3<<20 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		read, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	for size, status := range map[int]int{2 << 20: 200, 4 << 20: 413, 100: 200} {
		read = 0
		x := wire.Do(t.Context(), client, wire.Request{Method: "POST", URL: server.URL, Body: make([]byte, size)}, time.Now)
		must.Hold(t, x.Err == nil && x.Status == status && (status != 200 || read == int64(size)), "a body of", size, "bytes got", x.Status, "instead of", status, "and", read, "bytes were read", x.Err)
	}
}

// However a text contains the key, no text and no command of a report does.
func FuzzSecrets(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, key, before, after string, cut int) {
		const shown = "$GPUCLOUD_API_KEY=any-secret-of-your-own"
		if len(key) < 8 || !utf8.ValidString(key) || strings.Contains(shown, key) {
			return
		}
		var s wire.Secrets
		s.Add("GPUCLOUD_API_KEY", key)
		for name, form := range forms(key) {
			text := before + form + after
			cut := int(uint(cut) % uint(len(text)+1))
			r := wire.Request{Method: "POST", URL: "http://deployment/x?" + url.QueryEscape(key), Header: http.Header{"Authorization": {"Bearer " + key}, "X-Odd": {text}}, Body: []byte(text)}
			for function, got := range map[string]string{"redacted": s.Redact(text), "cut": s.Cut([]byte(text), cut), "script": wire.Script([]wire.Step{{Exchange: &wire.Exchange{Request: r}}}, nil, nil, &s)} {
				// The surrounding text and the placeholder may form the key again.
				if strings.Contains(got, form) && !strings.Contains(before+after, form) && strings.Count(text, form) == 1 && !strings.Contains(before+"$GPUCLOUD_API_KEY"+after, form) {
					t.Errorf("%s: %q with the key %q as %s: %q", function, text, key, name, got)
				}
			}
		}
	}, fuzz.Seed{"the-secret-key", "x ", " y", 7}, fuzz.Seed{`a"b/c+d<e>&f`, `{"k":"`, `"}`, 3}, fuzz.Seed{"schlüssel\\\u2028x", "'", "`$(x)", 20}, fuzz.Seed{`"""""""""`, "", "", 0})
}

// forms returns the encodings of a key in texts.
func forms(key string) map[string]string {
	inner := func(text []byte) string { return string(text[1 : len(text)-1]) }
	escaped, _ := json.Marshal(key) // can't fail for a string
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(key)
	return map[string]string{"itself": key, "JSON": inner(escaped), "plain JSON": inner([]byte(strings.TrimSpace(plain.String()))), "a query": url.QueryEscape(key)}
}

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
