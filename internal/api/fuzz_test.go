package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
)

const (
	fuzzedKey    = "planted-k3y/of+the=<client>&"
	fuzzedSecret = "planted-<s3cret>&\"pässword\""
)

func newFuzzed(t testing.TB, version Version) *transport {
	t.Helper()
	c, err := New(Settings{BaseURL: "http://deployment", APIKey: fuzzedKey, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return c.transport
}

// planted puts the secrets into what a server says, in the ways in which servers
// write them.
func planted(text string) string {
	plain := func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s) // a string always can be
		return unquoted(strings.TrimSpace(b.String()))
	}
	escaped, _ := json.Marshal(fuzzedSecret)
	return strings.NewReplacer("$KEY", fuzzedKey, "$PLAIN", plain(fuzzedSecret), "$JSON", unquoted(string(escaped)), "$URL", url.QueryEscape(fuzzedKey), "$RAW", fuzzedSecret).Replace(text)
}

// Whatever a server answers an error with: the message for people is one line of
// bounded length, without the key and the secrets of the request.
func FuzzErrorBody(f *testing.F) {
	v1, v2 := newFuzzed(f, V1), newFuzzed(f, V2)
	fuzz.Run(f, func(t *testing.T, status int, header, text string) {
		status = 300 + (status%300+300)%300
		for _, transport := range []*transport{v1, v2} {
			c := call{method: "POST", url: transport.settings.BaseURL + "/v2/registries", secrets: []string{fuzzedSecret}}
			resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {header}, "X-Request-Id": {planted(header)}, "Server": {planted(header)}, "Location": {planted(header)}}, Request: &http.Request{URL: &url.URL{Scheme: "http", Host: "deployment"}}}
			got := transport.refused(c, 1, resp, []byte(planted(text)))
			message := got.Error()
			for _, secret := range []string{fuzzedKey, fuzzedSecret, planted("$PLAIN"), planted("$JSON"), planted("$URL")} {
				if strings.Contains(message, secret) {
					t.Errorf("%q, %q: the message has a secret: %s", header, text, message)
				}
			}
			if !utf8.ValidString(message) || strings.ContainsFunc(message, unicode.IsControl) || len(message) > 4*(limits.fields+4)*(limits.detail+10) {
				t.Errorf("%q is told in %d bytes as %q", text, len(message), message)
			}
		}
	},
		fuzz.Seed{422, "application/problem+json", `{"title":"Validation failed","status":422,"detail":"2 problems with $PLAIN","errors":["$: missing property 'name'","$.size: $JSON"]}`},
		fuzz.Seed{400, "application/json", `{"message":["a","$KEY"]}`}, fuzz.Seed{400, "", `{"error":{"code":7,"message":"no such pool"}}`},
		fuzz.Seed{404, "text/html", "<html><title>404 &amp; $RAW</title><body>nginx</body></html>"}, fuzz.Seed{308, "https://user:$URL@elsewhere/v2?token=$KEY", ""},
		fuzz.Seed{400, "", strings.Repeat(`{"error":`, 2000) + "1" + strings.Repeat("}", 2000)}, fuzz.Seed{400, "", strings.Repeat(`{"error":[`, 500) + "1" + strings.Repeat("]}", 500)},
	)
}

// Whatever a server answers success with: it is read, or the error says that it
// is not what the API answers.
func FuzzAnswer(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, v1 bool, text string) {
		version := V2
		if v1 {
			version = V1
		}
		c, err := New(Settings{BaseURL: "http://deployment", APIKey: fuzzedKey, Version: version, Transport: answering(planted(text))})
		if err != nil {
			t.Fatal(err)
		}
		_, templates := c.Templates.Get(t.Context(), "a")
		_, volumes := c.NetworkVolumes.Get(t.Context(), "a")
		_, endpoints := c.Endpoints.Get(t.Context(), "a")
		_, auths := c.RegistryAuths.List(t.Context())
		_, jobs := c.Jobs.Status(t.Context(), "a", "b")
		for _, err := range []error{templates, volumes, endpoints, auths, jobs} {
			if err != nil && strings.Contains(err.Error(), fuzzedKey) {
				t.Errorf("%q: the key is in %s", text, err)
			}
		}
	},
		fuzz.Seed{false, `{"id":"a","name":"t","image":"i","args":"a 'b","disk":50,"env":{"A":"1"},"ports":["80/http"],"registry":{"id":"r"},"mounts":{"persistent":{"size":1,"path":"/w"}},"category":"CPU"}`},
		fuzz.Seed{true, `{"id":"a","name":"t","imageName":"i","dockerStartCmd":["x"],"env":{"A":"$KEY"},"containerDiskInGb":5,"volumeInGb":20,"volumeMountPath":"/w"}`},
		fuzz.Seed{false, `{"registries":[{"id":"a","name":"$KEY"}],"networkVolumes":[{"id":"a"}]}`}, fuzz.Seed{true, `[{"id":"a","name":"r"}]`},
		fuzz.Seed{false, `{"id":"a","name":"e","type":"QUEUE","gpu":{"pools":["ADA_24"],"count":1},"workers":{"min":0,"max":3},"scaling":{"type":"QUEUE_DELAY","queueDelay":4},"networkVolumes":[{"id":"v"}],"templateId":null}`},
		fuzz.Seed{false, `{"id":"b","status":"COMPLETED","output":{"a":[1]},"delayTime":1,"executionTime":2}`},
	)
}

// answering is a transport that answers each request with a text.
type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// Whatever a server tells of its limits: a wait that is begun has an end that
// people can wait for, and after it a request is sent.
func FuzzRateLimit(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, limit, policy, after string) {
		var p pace
		started := time.Now()
		for _, status := range []int{200, 429, 429, 200} {
			p.flying++
			p.leave(&http.Response{StatusCode: status, Header: http.Header{"Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "Retry-After": {after}}})
		}
		if p.flying != 0 {
			t.Errorf("%d requests are under way", p.flying)
		}
		wait := p.wait(started)
		if wait > limits.longestWait { // the request is sent, and the server says more than we do
			return
		}
		if later := p.wait(started.Add(max(wait, 0) + time.Second)); later > wait && later > time.Second {
			t.Errorf("%q, %q, %q: the wait is %s, and after it %s", limit, policy, after, wait, later)
		}
	},
		fuzz.Seed{`"minute";r=0;t=12`, `"minute";q=100;w=60`, "3"}, fuzz.Seed{`"a";r=1;t=2, "b";r=0;t=99999999999`, `"a";q=9;w=9,"b";q=1;w=9999999999999`, "Wed, 21 Oct 2026 07:28:00 GMT"},
		fuzz.Seed{`"";t=0;r=0`, `"";w=0;q=0`, "-1"}, fuzz.Seed{`"a";r=0;t=9223372036854775807`, ``, "99999999999"},
	)
}

// What is split is joined to what splits alike.
func FuzzArgs(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, args string) {
		words, err := SplitArgs(args)
		if err != nil {
			return
		}
		if again, err := SplitArgs(JoinArgs(words)); err != nil || !slices.Equal(words, again) {
			t.Errorf("%q is %q, which is joined to %q and split into %q, %v", args, words, JoinArgs(words), again, err)
		}
	}, fuzz.Seed{`a 'b c' "d\"e" \ f`}, fuzz.Seed{"--x=\"$HOME\" '' `y`"}, fuzz.Seed{"a\\\nb\tc"})
}
