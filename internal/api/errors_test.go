package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestErrorTexts(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		headers []string
		body    string
		want    string // after the method and URL
	}{
		"RFC 9457": {400, []string{"X-Request-Id", "r-1"}, `{"title":"Bad Request","status":400,"detail":"size must grow"}`,
			"400 Bad Request: size must grow (request id r-1)"},
		"RFC 9457 with fields": {422, nil, `{"title":"Validation failed","status":422,"detail":"2 problems","errors":["$: missing property 'name'","$.size: too small"]}`,
			"422 Validation failed: 2 problems [$: missing property 'name'; $.size: too small]"},
		"title alone":     {409, []string{"Location", "/v2/pods/a"}, `{"title":"In use"}`, "409 In use"},
		"v1 message":      {400, nil, `{"message":"name is taken"}`, "400 Bad Request: name is taken"},
		"v1 message list": {400, nil, `{"message":["a","b"]}`, "400 Bad Request: a; b"},
		"error text":      {400, nil, `{"error":"no such pool","status":400}`, "400 Bad Request: no such pool"},
		"error object":    {400, nil, `{"error":{"code":7,"message":"no such pool"}}`, "400 Bad Request: no such pool"},
		"strange object":  {400, nil, `{"error":{"code":7}}`, `400 Bad Request: {"code":7}`},
		"null members":    {404, nil, `{"title":null,"detail":null,"errors":null}`, `404 Not Found: {"title":null,"detail":null,"errors":null}.` + notTheAPI("another API")},
		"no body":         {404, nil, ``, "404 Not Found." + notTheAPI("a server that answers without a body")},
		"text":            {404, nil, "404 page\x1b[31m\n\tnot   found", "404 Not Found: 404 page not found." + notTheAPI("a server that answers in plain text")},
		"HTML": {404, []string{"Server", "nginx"}, "<html><title>404 &amp; gone</title><body>nginx</body></html>",
			"404 Not Found: an HTML page, so this may not be the address of the API." + notTheAPI(`a web site (page title "404 & gone"), served by nginx`)},
		"absence":     {404, nil, `{"title":"Not Found","status":404,"detail":"no such volume"}`, "404 Not Found: no such volume"},
		"array":       {400, nil, `[{"error":"bad"}]`, `400 Bad Request: [{"error":"bad"}]`},
		"long text":   {404, nil, strings.Repeat("ü", 300), "404 Not Found: " + strings.Repeat("ü", 200) + "…." + notTheAPI("a server that answers in plain text")},
		"401":         {401, nil, ``, "401 Unauthorized. The API key from GPUCLOUD_API_KEY is wrong or was revoked: set a valid one. A jobrunner with --ephemeral prints a new key at each start."},
		"403":         {403, nil, `{"message":"no."}`, "403 Forbidden: no. The API key from GPUCLOUD_API_KEY has no access to this: use a key that has access."},
		"403, a page": {403, nil, `<html>`, "403 Forbidden: an HTML page, so this may not be the address of the API." + looksLike("a web site")},
		"403, a scope": {403, nil, `{"title":"Forbidden","status":403,"detail":"no.","requiredScope":"billing:read"}`,
			"403 Forbidden: no. The API key from GPUCLOUD_API_KEY lacks the scope billing:read: add it to the key, or use a key that has it."},
		"403, scopes": {403, nil, `{"errors":[{"message":"no.","required_scopes":["b:read","a:write","b:read"],"scope":7}]}`,
			"403 Forbidden [no.]. The API key from GPUCLOUD_API_KEY lacks the scope a:write, b:read: add it to the key, or use a key that has it."},
		"403, a challenge": {403, []string{"WWW-Authenticate", `Bearer realm="x", error="insufficient_scope", scope="account:read pods:write"`}, `{"title":"Forbidden","status":403,"scope":"other"}`,
			"403 Forbidden. The API key from GPUCLOUD_API_KEY lacks the scope account:read, pods:write: add it to the key, or use a key that has it."},
		"403, no scope": {403, nil, `{"title":"Forbidden","status":403,"scope":"<b>none</b>"}`,
			"403 Forbidden. The API key from GPUCLOUD_API_KEY has no access to this: use a key that has access."},
		"429":               {429, []string{"Retry-After", "3600"}, ``, "429 Too Many Requests. The rate limit is exceeded. The deployment asks to wait 1h0m0s, which exceeds the longest wait of 5m0s: apply again later."},
		"501":               {501, nil, ``, "501 Not Implemented. The deployment doesn't have this operation."},
		"unreadable":        {200, nil, `<html>`, "200 OK: the response doesn't match this API: invalid character '<' looking for beginning of value." + looksLike("a web site")},
		"no id":             {200, nil, `{"name":"x"}`, "200 OK: the response doesn't match this API: $ has no id." + looksLike("another API")},
		"success, no body":  {204, nil, ``, "204 No Content: the response doesn't match this API: unexpected end of JSON input." + looksLike("a server that answers without a body")},
		"moved":             {308, []string{"Location", "https://user:pw@elsewhere/v2?token=x#y"}, ``, "308 Permanent Redirect: redirected to https://elsewhere/v2. Set base_url to the address that answers without a redirect: the API key is never sent to another host."},
		"moved, no address": {308, nil, ``, "308 Permanent Redirect. Set base_url to the address that answers without a redirect: the API key is never sent to another host."},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(&deployment{answers: []http.HandlerFunc{answer(c.status, c.body, c.headers...)}})
			defer server.Close()
			client := client(t, api.Settings{BaseURL: server.URL, KeySource: "GPUCLOUD_API_KEY"})
			_, err := client.NetworkVolumes.Get(t.Context(), "a")
			must.Equal(t, fmt.Sprint(err), "GET "+server.URL+"/v2/network-volumes/a: "+c.want)
			must.Equal(t, api.IsNotFound(err), name == "absence", "IsNotFound")
		})
	}
}

func looksLike(what string) string {
	return " The address looks like " + what + ". Check base_url and any proxy in between."
}

func notTheAPI(looks string) string {
	return " This 404 doesn't mean that the object is gone: the address looks like " + looks + ". Check base_url and any proxy in between."
}

func TestFieldErrorsAreKept(t *testing.T) {
	client, d := deploy(t, api.V2, answer(422, `{"title":"t","status":422,"detail":"d","errors":["$.size: small",{"message":"$.name: long"}]}`))
	d.emptyLists = true
	_, err := client.NetworkVolumes.Create(t.Context(), api.NetworkVolume{})
	failure, _ := errors.AsType[*api.Error](err)
	expectEqual(t, failure.Fields, []string{"$.size: small", "$.name: long"})
	expectEqual(t, failure.Method, "POST")
	expectEqual(t, failure.Status, 422)
}

func TestOnly404IsNotFound(t *testing.T) {
	for _, err := range []error{nil, errors.New("404"), &api.Error{Status: 400}, &api.Error{Status: 410}, &api.Error{}} {
		must.Hold(t, !api.IsNotFound(err), err, "counts as not found")
	}
	must.Hold(t, api.IsNotFound(fmt.Errorf("reading: %w", &api.Error{Status: 404})), "a wrapped 404 doesn't count as not found")
}

// The error of a POST that may have created an object says so.
func TestErrorOfAnAmbiguousCreate(t *testing.T) {
	for name, c := range map[string]struct {
		fail      http.HandlerFunc
		ambiguous bool
	}{
		"cut off":     {cutOff, true},
		"unreadable":  {answer(201, `{}`), true},
		"408":         {answer(408, ``), true},
		"see other":   {answer(303, ``), true},
		"redirection": {answer(308, ``), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, d := deployPiped(t, api.V2, c.fail)
			d.emptyLists = true
			_, err := client.NetworkVolumes.Create(t.Context(), api.NetworkVolume{})
			_, unresolved := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, err != nil && unresolved == c.ambiguous, name, "got", err)
		})
	}
	unreachable := client(t, api.Settings{BaseURL: "http://deployment", Transport: &failingDial{err: &net.OpError{
		Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}}})
	_, err := unreachable.NetworkVolumes.Create(t.Context(), api.NetworkVolume{})
	must.Hold(t, !strings.Contains(err.Error(), "look before"), "nothing was sent, and the error says to look:", err)
}

func TestErrorsSayWhatChanged(t *testing.T) {
	const changedNothing, notDeleted, mayRepeat = "This request changed nothing.", "This object was not deleted.", "doing it again does no harm"
	for name, c := range map[string]struct {
		fail []http.HandlerFunc
		say  map[string]string
	}{
		"refused":            {[]http.HandlerFunc{answer(422, `{"title":"t","status":422}`)}, map[string]string{"PATCH": changedNothing, "DELETE": notDeleted, "POST": changedNothing}},
		"401":                {[]http.HandlerFunc{answer(401, ``)}, map[string]string{"PATCH": changedNothing, "DELETE": notDeleted, "POST": changedNothing}},
		"429":                {[]http.HandlerFunc{answer(429, ``)}, map[string]string{"PATCH": changedNothing, "DELETE": notDeleted, "POST": changedNothing}},
		"500":                {[]http.HandlerFunc{answer(500, ``)}, map[string]string{"PATCH": mayRepeat, "DELETE": mayRepeat, "POST": "probably not created"}},
		"lost, then refused": {[]http.HandlerFunc{hangUp, answer(422, `{"title":"t","status":422}`)}, map[string]string{"PATCH": mayRepeat, "DELETE": mayRepeat}},
		"429, then refused":  {[]http.HandlerFunc{answer(429, ``), answer(422, `{"title":"t","status":422}`)}, map[string]string{"PATCH": changedNothing, "DELETE": notDeleted, "POST": changedNothing}},
		"lost":               {[]http.HandlerFunc{hangUp}, map[string]string{"PATCH": mayRepeat, "DELETE": mayRepeat, "POST": "probably not created"}},
		"late":               {[]http.HandlerFunc{stall}, map[string]string{"PATCH": "no answer within 10s", "DELETE": "raise request_timeout", "POST": "raise request_timeout"}},
	} {
		for method, want := range c.say {
			runInBubble(t, name+"/"+method, func(t *testing.T) {
				client, d := deployPiped(t, api.V2, c.fail...)
				d.emptyLists = true
				must.ErrorContains(t, requestsByMethod[method](t.Context(), client), want)
			})
		}
	}
}

// If a request is interrupted between tries, the error says what the previous try may have changed.
func TestInterruptedBetweenTries(t *testing.T) {
	for name, c := range map[string]struct {
		fail http.HandlerFunc
		say  string
	}{
		"lost": {hangUp, "doing it again does no harm"},
		"500":  {answer(500, ``), "doing it again does no harm"},
		"429":  {answer(429, ``), ""},
	} {
		for _, method := range []string{http.MethodPatch, http.MethodDelete} {
			runInBubble(t, name+"/"+method, func(t *testing.T) {
				client, _ := deployPiped(t, api.V2, c.fail)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Second/10, cancel) // less than the shortest wait before another try
				want := cmp.Or(c.say, map[string]string{"PATCH": "This request changed nothing.", "DELETE": "This object was not deleted."}[method])
				must.ErrorContains(t, requestsByMethod[method](ctx, client), "interrupted", want)
			})
		}
	}
}

func TestRedirectsStayOnTheHost(t *testing.T) {
	otherHost := &deployment{answers: []http.HandlerFunc{answer(200, `{"id":"a"}`)}}
	other := httptest.NewServer(otherHost)
	defer other.Close()
	redirectTo := func(address string) http.HandlerFunc { return answer(307, ``, "Location", address) }
	for method, send := range requestsByMethod {
		client, d := deploy(t, api.V2, redirectTo(other.URL+"/v2/network-volumes/a"))
		d.emptyLists = true
		must.ErrorContains(t, send(t.Context(), client), "redirected to "+other.URL)
		must.Equal(t, len(otherHost.requests()), 0, method, "requests were sent to another host")

		client, d = deploy(t, api.V2, redirectTo("/v2/network-volumes/b"), answer(200, `{"id":"a"}`))
		d.emptyLists = true
		err := send(t.Context(), client)
		must.Hold(t, method != "GET" || err == nil && d.last(t).header.Get("Authorization") != "", "a read within the host is not followed", err)
		must.Hold(t, method == "GET" || err != nil && len(d.requests()) == 1, "a", method, "is followed", err)
	}

	client, d := deploy(t, api.V2, redirectTo("/v2/network-volumes/a"))
	err := requestsByMethod["GET"](t.Context(), client)
	must.Hold(t, err != nil && len(d.requests()) <= 10, "a circle ends with", err, "after", len(d.requests()), "requests")
}

func TestAnswerSizeIsBounded(t *testing.T) {
	client, d := deploy(t, api.V2, func(w http.ResponseWriter, r *http.Request) {
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		for range 65 {
			w.Write(chunk)
		}
		<-r.Context().Done() // the answer never ends
	})
	_, err := client.Templates.Get(t.Context(), "a")
	must.Hold(t, err != nil && strings.HasSuffix(err.Error(), "larger than 64 MiB") && len(d.requests()) == 1,
		"expected an error that ends with the limit, after one request, and got", err, "after", len(d.requests()), "requests")
}

// No error contains the key or a password, wherever the answer repeats them.
func TestSecretsStayOutOfErrors(t *testing.T) {
	const password = `pa55 "wörd"/+<x>`
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	raw := func(head string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprint(conn, head)
				conn.Close()
			}
		}
	}
	echoes := map[string]func(secret string) http.HandlerFunc{
		"detail":         func(s string) http.HandlerFunc { return answer(401, `{"title":"t","detail":`+quoted(s)+`}`) },
		"title":          func(s string) http.HandlerFunc { return answer(401, `{"title":`+quoted(s)+`}`) },
		"message":        func(s string) http.HandlerFunc { return answer(403, `{"message":`+quoted("not "+s+"!")+`}`) },
		"error object":   func(s string) http.HandlerFunc { return answer(400, `{"error":{"key":`+quoted(s)+`}}`) },
		"fields":         func(s string) http.HandlerFunc { return answer(422, `{"title":"t","errors":[`+quoted(s)+`]}`) },
		"text":           func(s string) http.HandlerFunc { return answer(400, s) },
		"text, HTML":     func(s string) http.HandlerFunc { return answer(400, html.EscapeString(s)) },
		"text, query":    func(s string) http.HandlerFunc { return answer(400, url.QueryEscape(s)) },
		"text, path":     func(s string) http.HandlerFunc { return answer(400, url.PathEscape(s)) },
		"text, JSON":     func(s string) http.HandlerFunc { return answer(400, "x"+quoted(s)) },
		"page":           func(s string) http.HandlerFunc { return answer(502, "<html>"+s) },
		"request id":     func(s string) http.HandlerFunc { return answer(400, ``, "X-Request-Id", url.PathEscape(s)) },
		"redirection":    func(s string) http.HandlerFunc { return answer(307, ``, "Location", "http://x/"+url.PathEscape(s)) },
		"status line":    func(s string) http.HandlerFunc { return raw("HTTP/1.1 " + url.PathEscape(s) + " x\r\n\r\n") },
		"no HTTP":        func(s string) http.HandlerFunc { return raw(url.PathEscape(s) + "\r\n\r\n") },
		"header":         func(s string) http.HandlerFunc { return raw("HTTP/1.1 200 OK\r\n" + url.PathEscape(s) + "\r\n\r\n") },
		"success, text":  func(s string) http.HandlerFunc { return answer(200, s) },
		"success, wrong": func(s string) http.HandlerFunc { return answer(200, `{"id":"a","size":`+quoted(s)+`}`) },
	}
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for name, echo := range echoes {
		for _, version := range versions {
			for secret, send := range map[string]func(context.Context, *api.Client) error{
				testKey: requestsByMethod["GET"],
				password: func(ctx context.Context, c *api.Client) error {
					return must.Err(c.RegistryAuths.Create(ctx, api.RegistryAuth{Name: "n", Username: "u", Password: password}))
				},
				`s3-"secret"<&`: func(ctx context.Context, c *api.Client) error {
					return must.Err(c.Jobs.Run(ctx, "e", api.Submission{Input: json.RawMessage(`{}`), S3Config: &api.S3Config{AccessSecret: `s3-"secret"<&`}}))
				},
			} {
				synctest.Test(t, func(t *testing.T) {
					client, d := deployPiped(t, version, answer(429, ``, "Retry-After", "1"), echo(secret))
					d.emptyLists = true // the list that a create reads first, when the secret isn't sent yet, must not echo it
					err := send(t.Context(), client)
					if err == nil && name == "success, wrong" {
						return // not every object has a size
					}
					checkHidden(t, name, err, secret)
				})
			}
		}
	}
	must.Hold(t, logged.Len() == 0, "expected an empty log and got", logged.String())
}

func TestKeyStaysOutOfConnectionErrors(t *testing.T) {
	t.Parallel()
	listener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	refusing := "http://" + listener.Addr().String()
	listener.Close()
	// The time is so short that the client doesn't begin to wait before another try.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	checkHidden(t, "refused connection", must.Err(client(t, api.Settings{BaseURL: refusing}).NetworkVolumes.Get(ctx, "a")), testKey)

	_, err := client(t, api.Settings{BaseURL: "http://deployment", Transport: &failingDial{err: errors.New("proxy says " + testKey)}}).
		NetworkVolumes.Create(t.Context(), api.NetworkVolume{})
	checkHidden(t, "broken transport", err, testKey)

	for _, base := range []string{
		"http://" + url.QueryEscape(testKey) + "@host", "http://host/?" + url.QueryEscape(testKey), testKey,
		"http://host:" + testKey, "http://[" + testKey, "http://host/%" + testKey + "/v2", "http://host/" + testKey + "/v2",
	} {
		checkHidden(t, base, must.Err(api.New(api.Settings{BaseURL: base, APIKey: testKey})), testKey)
	}

	_, err = client(t, api.Settings{BaseURL: refusing + "/" + url.PathEscape(testKey)}).NetworkVolumes.Create(ctx, api.NetworkVolume{})
	checkHidden(t, "key in the address", err, testKey)
}

// checkHidden looks for a secret in every form of every error of the chain.
func checkHidden(t *testing.T, name string, err error, secret string) {
	t.Helper()
	must.Hold(t, err != nil, name, "expected an error")
	quoted, _ := json.Marshal(secret)
	for ; err != nil; err = errors.Unwrap(err) {
		shown := fmt.Sprintf("%v\n%+v\n%#v\n%q", err, err, err, err)
		for _, form := range []string{
			secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), url.PathEscape(secret),
			html.EscapeString(secret), base64.StdEncoding.EncodeToString([]byte(secret)),
		} {
			must.Hold(t, !strings.Contains(shown, form), name, "shows the secret:", shown)
		}
	}
}

// Requests have no other headers than these. X-Team-Id isn't needed: it selects a team for sessions of
// RunPod's console, and an API key acts for the team that it was made in.
func TestRequestsHaveNoOtherHeaders(t *testing.T) {
	known := []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent"}
	synctest.Test(t, func(t *testing.T) {
		for _, version := range versions {
			client, d := deployPiped(t, version, answer(200, `{"id":"a","name":"n"}`))
			ctx := t.Context()
			_, _ = client.NetworkVolumes.List(ctx) // the requests matter, not the answers
			_, _ = client.NetworkVolumes.Get(ctx, "a")
			_, _ = client.Templates.Create(ctx, api.Template{})
			_ = client.Endpoints.Delete(ctx, "a")
			_, _, _ = client.Jobs.StartFailure(ctx, "a")
			n := len(d.requests())
			must.Hold(t, n >= 5, n, "requests")
			for _, r := range d.requests() {
				for name := range r.header {
					must.Hold(t, slices.Contains(known, name), r.method, r.path, "has the header", name)
				}
			}
		}
	})
}
