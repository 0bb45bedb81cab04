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

// request is one that a worker sent, with its answer.
type request struct {
	method, path, query, body string
	header                    http.Header
	status                    int
	answer                    string
	at, answered              time.Time
}

func (r request) String() string {
	return fmt.Sprintf("%s %s?%s %.200s → %d %.200s", r.method, r.path, r.query, r.body, r.status, r.answer)
}

// record keeps what goes by, and wakes who waits for it.
type record struct {
	next http.Handler
	dead <-chan struct{} // the only worker has ended; nil where there are several

	mu      sync.Mutex
	begun   []request
	ended   []request
	changed chan struct{}
}

func newRecord(next http.Handler) *record { return &record{next: next, changed: make(chan struct{})} }

func (l *record) note(list *[]request, r request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, r)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *record) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	one := request{method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, body: string(body), header: r.Header.Clone(), at: time.Now()}
	l.note(&l.begun, one)
	copied := &copied{ResponseWriter: w, status: http.StatusOK}
	l.next.ServeHTTP(copied, r)
	one.status, one.answer, one.answered = copied.status, copied.text.String(), time.Now()
	l.note(&l.ended, one)
}

type copied struct {
	http.ResponseWriter
	status int
	text   bytes.Buffer
}

func (c *copied) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copied) Write(b []byte) (int, error) {
	c.text.Write(b)
	return c.ResponseWriter.Write(b)
}

func (c *copied) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// patience is how long a test waits for what must come. The public SDK takes many
// seconds to load where several do at once.
var patience = time.Minute

// afterDeath is how long a test waits for what a dead worker leaves behind.
const afterDeath = 15 * time.Second

func init() {
	if os.Getenv("WORKER_SDK_PATH") != "" {
		patience = 4 * time.Minute
	}
}

// await waits for n requests that begin so, in their path and body, and answers
// the last: those that have been answered, or with begun those that came.
func (l *record) await(t *testing.T, n int, begun bool, what string, match func(request) bool) request {
	t.Helper()
	late, dead := time.NewTimer(patience), l.dead
	defer late.Stop()
	for {
		l.mu.Lock()
		list, changed := l.ended, l.changed
		if begun {
			list = l.begun
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
		case <-dead: // only its pings may go on
			dead = nil
			late.Reset(afterDeath)
		case <-late.C:
			t.Fatalf("%s did not come, %d of %d did, among\n%s", what, found, n, l.text())
		}
	}
}

// asked waits for the nth answered request of an operation.
func (l *record) asked(t *testing.T, n int, operation, contains string) request {
	t.Helper()
	return l.await(t, n, false, operation+" "+contains, matching(operation, contains))
}

// asks waits for the nth request of an operation, answered or not.
func (l *record) asks(t *testing.T, n int, operation, contains string) request {
	t.Helper()
	return l.await(t, n, true, operation+" "+contains, matching(operation, contains))
}

func matching(operation, contains string) func(request) bool {
	return func(r request) bool {
		return strings.Contains(r.path+"/", "/"+operation+"/") && strings.Contains(r.path+"?"+r.query+" "+r.body, contains)
	}
}

// all are the requests that were answered and match.
func (l *record) all(operation, contains string) (found []request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.ended {
		if matching(operation, contains)(r) {
			found = append(found, r)
		}
	}
	return found
}

func (l *record) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, r := range l.ended {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}
