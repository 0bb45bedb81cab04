package page

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// The printed link is valid for an hour, a session for a day.
func TestSessionsEnd(t *testing.T) {
	now := &testClock{time.Unix(1_800_000_000, 0)}
	s := &sessions{keys: apikey.New("the-key"), ownKey: "the-key", now: func() time.Time { return now.Time }}
	code := s.newCode()
	now.advance(time.Hour + time.Second)
	_, refusal := s.signIn("", code)
	must.Hold(t, refusal != nil, "the link works after more than an hour")
	code = s.newCode()
	now.advance(time.Hour)
	token, refusal := s.signIn("", code)
	must.Require(t, refusal == nil, "the link does not work for an hour:", refusal)
	r := &http.Request{Host: "127.0.0.1", Header: http.Header{"Cookie": {"gpucloud-page=" + token}}}
	now.advance(24 * time.Hour)
	_, refusal = s.authorize(r)
	must.Hold(t, refusal == nil, "a session ends before its day:", refusal)
	now.advance(time.Second)
	_, refusal = s.authorize(r)
	must.Hold(t, refusal != nil, "a session lasts longer than a day")
}

// A session ends with its key, but not while the file of keys can't be read.
func TestSessionOutlivesUnreadableKeys(t *testing.T) {
	folder := t.TempDir()
	file := apikey.FileIn(folder)
	key := must.Do(file.Add(apikey.Key{Name: "a"}))(t)
	s := &sessions{keys: must.Do(apikey.New("the-key").With(file, time.Now, slog.New(slog.DiscardHandler)))(t), now: time.Now}
	token, refusal := s.signIn(key, "")
	must.Require(t, refusal == nil, "the key is rejected:", refusal)
	r := &http.Request{Host: "127.0.0.1", Header: http.Header{"Cookie": {"gpucloud-page=" + token}}}
	name := filepath.Join(folder, apikey.FileName)
	must.Succeed(t, os.Rename(name, name+"-away"))
	must.Succeed(t, os.WriteFile(name, []byte("{"), 0o600))
	_, refusal = s.authorize(r)
	must.Hold(t, refusal != nil, "a session is accepted without its key")
	must.Succeed(t, os.Rename(name+"-away", name))
	_, refusal = s.authorize(r)
	must.Hold(t, refusal == nil, "a session with a valid key is rejected:", refusal)
}

// Behind a proxy with TLS, the browser sends the session's cookie only over TLS.
func TestCookieIsSecureBehindTLS(t *testing.T) {
	r := &http.Request{Host: "cloud.example", Header: http.Header{}}
	must.Hold(t, !newCookie(r, "token").Secure, "without TLS the browser would drop the cookie")
	r.Header.Set("X-Forwarded-Proto", "https")
	must.Hold(t, newCookie(r, "token").Secure, "the browser sends the cookie without TLS")
}

// For any Host and Origin, the page only answers to names of this machine, and never to another site.
func FuzzHost(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, host, origin, site string) {
		if isLoopback(host) {
			name := host
			if h, _, err := net.SplitHostPort(host); err == nil {
				name = h
			}
			name = strings.Trim(name, "[]")
			ip, err := netip.ParseAddr(name)
			lower := strings.ToLower(name)
			must.Hold(t, lower == "localhost" || strings.HasSuffix(lower, ".localhost") || err == nil && ip.IsLoopback(), "the host", host, "counts as this machine")
		}
		r := &http.Request{Host: host, Header: http.Header{"Origin": {origin}, "Sec-Fetch-Site": {site}}}
		must.Hold(t, origin == "" || strings.HasSuffix(origin, "://"+host) || isCrossSite(r), "a page of", origin, "may read", host)
		must.Hold(t, site == "" || site == "none" || site == "same-origin" || isCrossSite(r), "a request with Sec-Fetch-Site", site, "counts as the page's own")
	},
		fuzz.Seed{"127.0.0.1:8420", "http://127.0.0.1:8420", "same-origin"}, fuzz.Seed{"[::1]:8420", "null", "cross-site"}, fuzz.Seed{"LOCALHOST", "", ""},
		fuzz.Seed{"evil.example:80", "http://evil.example:80", "none"}, fuzz.Seed{"a.localhost", "http://b.localhost", ""}, fuzz.Seed{"127.0.0.1.evil.example", "file://", ""},
	)
}

// A call reaches the path of its operation on an endpoint, job, batch or pod: an id can't change the path.
func FuzzCall(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, query string) {
		var called *http.Request
		p := &Page{Config: Config{API: func(_ http.ResponseWriter, r *http.Request) { called = r }}}
		r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/ui/call", strings.NewReader("{}")))(t)
		r.URL.RawQuery = query
		r.Header.Set("Cookie", "gpucloud-page=secret")
		q := r.URL.Query()
		refusal := p.serveCall(nil, r)
		must.Require(t, (refusal == nil) == (called != nil), query, "is rejected with", refusal, "but called", called)
		if called == nil {
			return
		}
		op, method := q.Get("op"), http.MethodPost
		want := "/live/v2/" + q.Get("endpoint") + "/" + op
		if id := q.Get("id"); id != "" {
			want += "/" + id
		}
		switch {
		case strings.HasSuffix(op, "-pod"):
			want = "/v2/pods/" + q.Get("id") + "/action"
		case op == "cancel-batch":
			want = "/v2/" + q.Get("endpoint") + "/batch/" + q.Get("id") + "/cancel"
		case op == "stop-endpoint":
			want, method = "/v2/serverless/"+q.Get("endpoint"), http.MethodPatch
		case op == "status", op == "stream":
			method = http.MethodGet
		}
		if called.Method != method || called.URL.Path != want || strings.Count(want, "/") > 5 || called.URL.RawQuery != "" || called.URL.RawPath != "" || called.Header.Get("Cookie") != "" || strings.ContainsAny(want, ".%?#") {
			t.Errorf("%q calls %s %v", query, called.URL, called.Header)
		}
	},
		fuzz.Seed{"endpoint=ep&op=run"}, fuzz.Seed{"endpoint=ep&op=status&id=0558ca0f-q1"}, fuzz.Seed{"endpoint=ep%2F..&op=cancel&id=x"}, fuzz.Seed{"endpoint=ep&op=stream&id=a%0Ab"}, fuzz.Seed{"op=runsync&endpoint=a_b-c&id="},
		fuzz.Seed{"op=stop-pod&id=p"}, fuzz.Seed{"op=restart-pod&id=p&endpoint=ep"}, fuzz.Seed{"op=stop-endpoint&endpoint=ep"}, fuzz.Seed{"op=purge-queue&endpoint=ep"}, fuzz.Seed{"op=start-pod&id=p%2F.."}, fuzz.Seed{"op=cancel-batch&endpoint=ep&id=b"},
	)
}
