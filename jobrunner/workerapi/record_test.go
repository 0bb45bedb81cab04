package workerapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// request is a request of a worker, with its answer.
type request struct {
	method, path, query, body string
	header                    http.Header
	status                    int
	answer                    string
	receivedAt, answeredAt    time.Time
}

func (r request) String() string {
	return fmt.Sprintf("%s %s?%s %.200s → %d %.200s", r.method, r.path, r.query, r.body, r.status, r.answer)
}

// recorder records requests and answers, and wakes the tests that wait for them.
type recorder struct {
	next       http.Handler
	workerDone <-chan struct{} // closed when the only worker has ended; nil with several workers

	mu       sync.Mutex
	received []request
	answered []request
	changed  chan struct{}
}

func newRecorder(next http.Handler) *recorder {
	return &recorder{next: next, changed: make(chan struct{})}
}

func (l *recorder) add(list *[]request, r request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, r)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	req := request{method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, body: string(body), header: r.Header.Clone(), receivedAt: time.Now()}
	l.add(&l.received, req)
	response := &responseCopy{ResponseWriter: w, status: http.StatusOK}
	l.next.ServeHTTP(response, r)
	req.status, req.answer, req.answeredAt = response.status, response.text.String(), time.Now()
	l.add(&l.answered, req)
}

type responseCopy struct {
	http.ResponseWriter
	status int
	text   bytes.Buffer
}

func (c *responseCopy) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *responseCopy) Write(b []byte) (int, error) {
	c.text.Write(b)
	return c.ResponseWriter.Write(b)
}

func (c *responseCopy) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// waitTimeout limits a wait for a request. Several processes need many seconds to load the public SDK.
var waitTimeout = 4 * time.Minute

// exitTimeout is how long a test waits for requests after the worker has ended.
const exitTimeout = 15 * time.Second

func init() {
	if os.Getenv("WORKER_SDK_PATH") != "" {
		waitTimeout = 8 * time.Minute
	}
}

// waitForRequest waits until the nth matching request was answered or, if received is true, only received.
func (l *recorder) waitForRequest(t *testing.T, n int, received bool, description string, match func(request) bool) request {
	t.Helper()
	timeout, done := time.NewTimer(waitTimeout), l.workerDone
	defer timeout.Stop()
	for {
		l.mu.Lock()
		list, changed := l.answered, l.changed
		if received {
			list = l.received
		}
		l.mu.Unlock()
		found := 0
		for _, r := range list {
			if match(r) {
				if found++; found == n {
					return r
				}
			}
		}
		select {
		case <-changed:
		case <-done: // only the process that pings may still run
			done = nil
			timeout.Reset(exitTimeout)
		case <-timeout.C:
			t.Fatalf("no request %s: got %d of %d, among\n%s", description, found, n, l.text())
		}
	}
}

func (l *recorder) waitForAnswered(t *testing.T, n int, operation, contains string) request {
	t.Helper()
	return l.waitForRequest(t, n, false, operation+" "+contains, requestMatcher(operation, contains))
}

// waitForReceived waits for the nth received request of an operation, answered or not.
func (l *recorder) waitForReceived(t *testing.T, n int, operation, contains string) request {
	t.Helper()
	return l.waitForRequest(t, n, true, operation+" "+contains, requestMatcher(operation, contains))
}

func requestMatcher(operation, contains string) func(request) bool {
	return func(r request) bool {
		return strings.Contains(r.path+"/", "/"+operation+"/") && strings.Contains(r.path+"?"+r.query+" "+r.body, contains)
	}
}

func (l *recorder) answeredRequests(operation, contains string) (found []request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.answered {
		if requestMatcher(operation, contains)(r) {
			found = append(found, r)
		}
	}
	return found
}

func (l *recorder) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, r := range l.answered {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}
