package fault

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"time"
)

// again carries out what was refused: a request that has had an answer with the
// status is served once more, edited.
type again struct {
	// What it is about: all that are set must match.
	Method string `json:"method"`
	Path   string `json:"path"`   // a regular expression
	Status int    `json:"status"` // of the answer
	// Sent is a regular expression that a line of the request must match: its
	// method and address, or a header. $KEY and $HALF are the deployment's key and
	// the first half of it.
	Sent string `json:"sent"`

	// Edit is what becomes of the request before it is served again.
	Edit edit `json:"edit"`
	// Instead has the second answer take the place of the first; else nobody sees
	// it.
	Instead bool `json:"instead"`
}

func (a *again) handler(next http.Handler) http.Handler {
	path, key := regexp.MustCompile(a.Path), os.Getenv("GPUCLOUD_API_KEY")
	sent := regexp.MustCompile(strings.NewReplacer("$KEY", key, "$HALF", key[:len(key)/2]).Replace(a.Sent))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Method != "" && a.Method != r.Method || !path.MatchString(r.URL.Path) || !hasLine(r, sent) {
			next.ServeHTTP(w, r)
			return
		}
		second := r.Clone(r.Context())
		if body, err := io.ReadAll(r.Body); err == nil {
			r.Body, second.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
		}
		got := httptest.NewRecorder()
		next.ServeHTTP(got, r)
		if got.Code == a.Status {
			other := httptest.NewRecorder()
			a.Edit.request(second, strings.NewReplacer("$KEY", key))
			next.ServeHTTP(other, second)
			if a.Instead {
				got = other
			}
		}
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		_, _ = w.Write(got.Body.Bytes())
	})
}

// Acts carries a request out that is refused, where the fault at the point is
// chosen. The refusal does not wait for one that takes long.
func Acts(point string, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
	if !On(point) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r = r.Clone(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(body))
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(httptest.NewRecorder(), r)
	}()
	select {
	case <-done:
	case <-time.After(100 * time.Millisecond):
	}
}

// hasLine tells whether a line of a request matches.
func hasLine(r *http.Request, line *regexp.Regexp) bool {
	if line.String() == "" || line.MatchString(r.Method+" "+r.URL.RequestURI()) || r.ContentLength < 0 && line.MatchString("Transfer-Encoding: chunked") {
		return true
	}
	for name, values := range r.Header {
		for _, value := range values {
			if line.MatchString(name + ": " + value) {
				return true
			}
		}
	}
	return false
}
