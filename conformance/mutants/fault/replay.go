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

// replay carries out what was refused: it serves a request a second time, edited,
// where the first answer had the status.
type replay struct {
	// Which requests are repeated: all conditions that are set must hold.
	Method string `json:"method"`
	Path   string `json:"path"`   // a regular expression
	Status int    `json:"status"` // of the answer
	// RequestLine is a regular expression that a line of the request must match:
	// its method and URL, or a header. $KEY is the deployment's key, $HALF the
	// first half of that key.
	RequestLine string `json:"sent"`

	// Edit changes the request before it is served a second time.
	Edit edit `json:"edit"`
	// ReplaceAnswer sends the second answer to the client in place of the first;
	// otherwise the second is discarded.
	ReplaceAnswer bool `json:"instead"`
}

func (p *replay) handler(next http.Handler) http.Handler {
	path, key := regexp.MustCompile(p.Path), os.Getenv("GPUCLOUD_API_KEY")
	requestLine := regexp.MustCompile(strings.NewReplacer("$KEY", key, "$HALF", key[:len(key)/2]).Replace(p.RequestLine))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.Method != "" && p.Method != r.Method || !path.MatchString(r.URL.Path) || !hasLine(r, requestLine) {
			next.ServeHTTP(w, r)
			return
		}
		repeated := r.Clone(r.Context())
		if body, err := io.ReadAll(r.Body); err == nil {
			r.Body, repeated.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if answer.Code == p.Status {
			second := httptest.NewRecorder()
			p.Edit.applyToRequest(repeated, strings.NewReplacer("$KEY", key))
			next.ServeHTTP(second, repeated)
			if p.ReplaceAnswer {
				answer = second
			}
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// CarryOut serves a request that the caller is about to refuse, where the fault at
// the point is chosen. It waits 100 ms for that at most, so that the refusal is
// not delayed by a long request.
func CarryOut(point string, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
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
