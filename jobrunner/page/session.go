package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

const (
	sessionTime = 24 * time.Hour
	maxSessions = 64 // a further session replaces the oldest
	codeTime    = time.Hour
	maxSignIn   = 4 << 10 // bytes
)

// sessions signs browsers in with a key, or with the code of a printed link. A browser keeps a random
// token in a cookie that scripts can't read and other sites can't send. Sessions are in memory only: a
// stored session would let readers of the database use its key.
type sessions struct {
	keys     *apikey.Keys
	ownKey   string // the deployment's own key
	now      func() time.Time
	folderID string // this jobrunner's id if there are several, otherwise ""

	mu         sync.Mutex
	all        []session // the oldest first
	code       string    // of the printed link; "" once used
	codeExpiry time.Time
}

type session struct {
	token  string
	key    string // checked at each request: it may be revoked, or its file may be unreadable for a moment
	expiry time.Time
}

// newCode returns a code that signs one browser in, once, for a limited time.
func (s *sessions) newCode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.codeExpiry = rand.Text(), s.now().Add(codeTime)
	return s.code
}

func (s *sessions) signIn(key, code string) (token string, refusal *httpanswer.Refusal) {
	if refusal := s.check(key); code == "" && refusal != nil {
		return "", refusal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if code != "" {
		if s.code == "" || now.After(s.codeExpiry) || subtle.ConstantTimeCompare([]byte(code), []byte(s.code)) != 1 {
			return "", httpanswer.Refuse(http.StatusUnauthorized, "This link was used already, or is too old. Sign in with the API key.")
		}
		s.code, key = "", s.ownKey
	}
	if len(s.all) >= maxSessions {
		s.all = s.all[1:]
	}
	token = rand.Text()
	if s.folderID != "" {
		token += "." + s.folderID
	}
	s.all = append(s.all, session{token, key, now.Add(sessionTime)})
	return token, nil
}

// check rejects keys that don't open the page, which shows all objects and jobs.
func (s *sessions) check(key string) *httpanswer.Refusal {
	caller, err := s.keys.Authorize(&http.Request{Header: http.Header{"Authorization": {"Bearer " + key}}})
	switch {
	case err != nil:
		return httpanswer.Refuse(http.StatusUnauthorized, "The API key is missing, unknown or expired.")
	case !mayOpenPage(caller):
		return httpanswer.Refuse(http.StatusForbidden, "This API key may not read everything. The page shows everything, so it needs a key for both APIs and all endpoints.")
	}
	return nil
}

func mayOpenPage(caller apikey.Identity) bool {
	return caller.MayRead() && len(caller.Endpoints) == 0 && caller.MayUse("", apikey.Read)
}

// authorize accepts a signed-in browser or a key. It returns the Authorization header for the APIs.
func (s *sessions) authorize(r *http.Request) (authorization string, refusal *httpanswer.Refusal) {
	if caller, err := s.keys.Authorize(r); err == nil && mayOpenPage(caller) {
		return r.Header.Get("Authorization"), nil
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return "", httpanswer.Refuse(http.StatusUnauthorized, "Sign in with the API key.")
	}
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, func(candidate session) bool { return s.now().After(candidate.expiry) })
	key := ""
	if i := slices.IndexFunc(s.all, func(candidate session) bool { return candidate.has(cookie) }); i >= 0 {
		key = s.all[i].key
	}
	s.mu.Unlock()
	if key == "" || s.check(key) != nil { // a check may wait for the database
		return "", httpanswer.Refuse(http.StatusUnauthorized, "The session is over: it lasts a day, and ends when its key ends or the jobrunner restarts. Sign in with the API key.")
	}
	return "Bearer " + key, nil
}

func (s session) has(cookie *http.Cookie) bool {
	return subtle.ConstantTimeCompare([]byte(s.token), []byte(cookie.Value)) == 1
}

func (s *sessions) signOut(r *http.Request) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(s.all, func(candidate session) bool { return candidate.has(cookie) })
	}
}

// cookieName contains the port, because browsers send the cookies of one port to all ports of a host.
func cookieName(r *http.Request) string {
	name := "gpucloud-page"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	return name
}

// SignedInAt returns the id of the jobrunner that has a request's session, or "".
func SignedInAt(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	_, folderID, _ := strings.Cut(cookie.Value, ".")
	return folderID
}

func newCookie(r *http.Request, token string) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName(r), Value: token, Path: "/ui", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: httpanswer.UsesTLS(r),
		MaxAge: int(sessionTime.Seconds()),
	}
	if token == "" {
		c.MaxAge = -1
	}
	return c
}

// serveSession serves POST /ui/session {"key"} or {"code"}, and DELETE /ui/session.
func (p *Page) serveSession(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	if r.Method == http.MethodDelete {
		p.sessions.signOut(r)
		http.SetCookie(w, newCookie(r, ""))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	var body struct{ Key, Code string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSignIn)).Decode(&body); errors.Is(err, httplimit.ErrSlowBody) {
		return httpanswer.Refuse(http.StatusRequestTimeout, "The key or code did not arrive in time.")
	} else if err != nil {
		return httpanswer.Refuse(http.StatusBadRequest, `Send {"key": "…"} or {"code": "…"}.`)
	}
	token, refusal := p.sessions.signIn(body.Key, body.Code)
	if refusal != nil {
		return refusal
	}
	http.SetCookie(w, newCookie(r, token))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// RejectOtherHosts rejects requests for other host names than this machine's own, to prevent DNS rebinding:
// another site could resolve its name to this machine, so that its scripts could read the page. If
// remote is true, it rejects nothing, because the deployment doesn't know all its names; /metrics then needs a key.
func RejectOtherHosts(remote bool, next http.Handler) http.Handler {
	if remote {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			httpanswer.ErrorForm.WriteRefusal(w, httpanswer.Refuse(http.StatusMisdirectedRequest, "This deployment only serves this machine: open it as http://127.0.0.1 or http://localhost, with its port."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// isCrossSite reports whether another site's page caused the request. It reads headers that only browsers send,
// so it returns false for other clients.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	_, host, ok := strings.Cut(origin, "://")
	return !ok || host != r.Host
}
