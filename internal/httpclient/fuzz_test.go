package httpclient

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const (
	fuzzedKey    = "planted-k3y/of+the=<client>&"
	fuzzedSecret = "planted-<s3cret>&\"pässword\""
)

// plantSecrets puts the secrets into what a server says, in the ways in which servers
// write them.
func plantSecrets(text string) string {
	unquoted := func(quoted string) string { return quoted[1 : len(quoted)-1] }
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
	client := &Client{APIKey: fuzzedKey}
	fuzz.Run(f, func(t *testing.T, status int, header, text string) {
		status = 300 + (status%300+300)%300
		for _, own := range []bool{true, false} {
			client.IsAPIError = func(string, int, []byte) bool { return own }
			call := Call{Method: "POST", URL: "http://deployment/registries", secrets: new(redact.Set)}
			call.secrets.Add(fuzzedKey, fuzzedSecret)
			resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {header}, "X-Request-Id": {plantSecrets(header)}, "Server": {plantSecrets(header)}, "Location": {plantSecrets(header)}}, Request: &http.Request{URL: &url.URL{Scheme: "http", Host: "deployment"}}}
			got := client.answerError(call, answer{resp, []byte(plantSecrets(text)), 1})
			message := got.Error()
			for _, secret := range []string{fuzzedKey, fuzzedSecret, plantSecrets("$PLAIN"), plantSecrets("$JSON"), plantSecrets("$URL")} {
				if strings.Contains(message, secret) {
					t.Errorf("%q, %q: the message has a secret: %s", header, text, message)
				}
			}
			if !utf8.ValidString(message) || strings.ContainsFunc(message, unicode.IsControl) || len(message) > 4*(maxFields+4)*(maxDetail+10) {
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

// Whatever a server tells of its limits: a wait that is begun has an end that
// people can wait for, and after it a request is sent.
func FuzzRateLimit(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, limit, policy, after string) {
		var p throttle
		started := time.Now()
		for _, status := range []int{200, 429, 429, 200} {
			p.inFlight++
			p.release(&http.Response{StatusCode: status, Header: http.Header{"Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "Retry-After": {after}}})
		}
		must.Equal(t, p.inFlight, 0, "requests are under way")
		wait := p.wait(started)
		if wait > longestWait { // the request is sent, and the server says more than we do
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
