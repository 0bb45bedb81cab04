package page

import (
	"net/http"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// The printed link is valid for an hour, a session for a day.
func TestSessionsEnd(t *testing.T) {
	now := &at{time.Unix(1_800_000_000, 0)}
	s := &sessions{keys: apikey.New("the-key"), now: func() time.Time { return now.Time }}
	code := s.newCode()
	now.pass(time.Hour + time.Second)
	if _, refused := s.signIn("", code); refused == nil {
		t.Error("the link works after more than an hour")
	}
	code = s.newCode()
	now.pass(time.Hour)
	token, refused := s.signIn("", code)
	if refused != nil {
		t.Fatalf("the link does not work for an hour: %+v", refused)
	}
	r := &http.Request{Host: "127.0.0.1", Header: http.Header{"Cookie": {"gpucloud-page=" + token}}}
	now.pass(sessionTime)
	if _, refused := s.authorize(r); refused != nil {
		t.Errorf("a session ends before its day: %+v", refused)
	}
	now.pass(time.Second)
	if _, refused := s.authorize(r); refused == nil {
		t.Error("a session lasts longer than a day")
	}
}

// Behind a proxy with TLS, the browser sends the session's cookie only over TLS.
func TestCookieIsSecureBehindTLS(t *testing.T) {
	r := &http.Request{Host: "cloud.example", Header: http.Header{}}
	must.Hold(t, !cookie(r, "token").Secure, "without TLS the browser would drop the cookie")
	r.Header.Set("X-Forwarded-Proto", "https")
	must.Hold(t, cookie(r, "token").Secure, "the browser sends the cookie without TLS")
}
