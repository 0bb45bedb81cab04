package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// scriptedServer answers the n-th request with the n-th answer, and later ones with the last.
type scriptedServer struct {
	answers []http.HandlerFunc

	mu    sync.Mutex
	times []time.Time // of the requests
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := min(len(s.times), len(s.answers)-1)
	s.times = append(s.times, time.Now())
	s.mu.Unlock()
	s.answers[n](w, r)
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// handlerTransport calls a handler without a network, so that time can be virtual.
type handlerTransport struct{ http.Handler }

func (d handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

func newClient(server http.Handler) *httpclient.Client {
	return &httpclient.Client{APIKey: "k", Timeout: 10 * time.Second, RoundTripper: handlerTransport{server}}
}

func read(ctx context.Context, c *httpclient.Client) error { return readFrom(ctx, c, false) }

func readFrom(ctx context.Context, c *httpclient.Client, anotherAPI bool) error {
	var object struct{ ID string }
	_, err := c.Do(ctx, httpclient.Call{Method: http.MethodGet, URL: "http://deployment/a", Untracked: anotherAPI}, &object)
	return err
}

// stall answers too late.
func stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestBackoffDoublesWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scriptedServer{answers: []http.HandlerFunc{answer(500, ``)}}
		read(t.Context(), newClient(server))
		times := server.times
		for i, full := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			pause := times[i+1].Sub(times[i])
			must.Hold(t, pause >= full/2 && pause <= full, "pause", i+1, "was", pause, "want", full/2, "to", full)
		}
	})
}

type refusingTransport struct{}

func (refusingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// Once the API has answered, calls wait about a minute for a deployment that restarts.
func TestRestartIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		failing          http.RoundTripper
		waits, untracked bool
	}{
		"refused": {refusingTransport{}, true, false}, "502": {handlerTransport{answer(502, ``)}, true, false}, "503": {handlerTransport{answer(503, ``)}, true, true},
		"500": {handlerTransport{answer(500, ``)}, false, false}, "504": {handlerTransport{answer(504, ``)}, false, true}, "refused by the job API": {refusingTransport{}, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := newClient(answer(200, `{"id":"a"}`))
			must.ErrorIs(t, readFrom(t.Context(), client, c.untracked), nil)
			client.RoundTripper = c.failing
			began := time.Now()
			must.Hold(t, readFrom(t.Context(), client, c.untracked) != nil, "the read succeeds although each answer is", name)
			took := time.Since(began)
			must.Hold(t, took < time.Minute*5/4 && (took > 30*time.Second) == c.waits, name, "made the read fail after", took, "expected about a minute:", c.waits)
		})
	}
}

func TestContextCapsWaits(t *testing.T) {
	t.Run("a wait beyond the deadline isn't started", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			server := &scriptedServer{answers: []http.HandlerFunc{answer(429, `{"title":"Too Many","status":429,"detail":"slow down"}`, "Retry-After", "30")}}

			began := time.Now()
			err := read(ctx, newClient(server))
			must.Hold(t, time.Since(began) == 0 && len(server.times) == 1, "took", time.Since(began), "and", len(server.times), "requests")
			failure, ok := errors.AsType[*httpclient.Error](err)
			must.Hold(t, ok && failure.Status == 429 && failure.RetryAfter == 30*time.Second, "expected a 429 with Retry-After 30s and got", err)
		})
	})
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		delay  time.Duration // before the interruption
	}{"a wait is interrupted": {answer(429, ``, "Retry-After", "30"), 5 * time.Second}, "a request is interrupted": {stall, time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				server := &scriptedServer{answers: []http.HandlerFunc{c.answer}}
				time.AfterFunc(c.delay, cancel)
				began := time.Now()
				err := read(ctx, newClient(server))
				must.Hold(t, errors.Is(err, context.Canceled) && time.Since(began) == c.delay && len(server.times) == 1,
					"got", err, "after", time.Since(began), "and", len(server.times), "requests")
			})
		})
	}
}

// Each of the four tries has its own timeout of ten seconds. Three pauses separate them.
func TestTimeoutIsPerTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scriptedServer{answers: []http.HandlerFunc{stall}}
		began := time.Now()
		err := read(t.Context(), newClient(server))
		took := time.Since(began)
		must.Hold(t, took >= 41*time.Second && took <= 44*time.Second && len(server.times) == 4, len(server.times), "tries took", took)
		must.ErrorContains(t, err, "no answer within 10s", "raise request_timeout")
	})
}

// If the caller's own time ends first, the error doesn't name the time-out of a try.
func TestTimeoutOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		client := newClient(http.HandlerFunc(stall))
		for _, want := range []string{"no answer in time. The operation's own time-out expired.", "not sent. The operation's own time-out expired."} {
			must.Equal(t, read(ctx, client).Error(), "GET http://deployment/a: "+want)
		}
	})
}

// quota limits the requests of a minute, which begins with its first request, and announces the limit in headers.
type quota struct {
	limit    int
	enforced bool
	silent   bool // announces nothing: a 429 has only Retry-After

	mu       sync.Mutex
	start    time.Time // of the window
	used     int       // requests in the window
	rejected int
}

func (q *quota) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	now := time.Now()
	if now.Sub(q.start) >= time.Minute {
		q.start, q.used = now, 0
	}
	reject := q.enforced && q.used >= q.limit
	if q.used < q.limit {
		q.used++
	}
	left := int((q.start.Add(time.Minute).Sub(now) + time.Second - 1) / time.Second)
	if !q.silent {
		w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"minute";q=%d;w=60, "day";q=50000;w=86400`, q.limit))
		w.Header().Set("RateLimit", fmt.Sprintf(`"minute";r=%d;t=%d, "day";r=40000;t=5000`, q.limit-q.used, left))
	}
	if reject {
		q.rejected++
	}
	q.mu.Unlock()
	if reject {
		answer(429, ``, "Retry-After", fmt.Sprint(left))(w, r)
		return
	}
	time.Sleep(50 * time.Millisecond)
	answer(200, `{"id":"a","name":"n"}`)(w, r)
}

// Ten callers at a time all succeed in the minutes that the quota needs, with few rejections.
func TestKeepsToTheServersPace(t *testing.T) {
	for name, c := range map[string]struct {
		server   *quota
		minutes  int
		rejected int // at most
	}{
		"announced and enforced":     {&quota{limit: 60, enforced: true}, 5, 10},
		"enforced in silence":        {&quota{limit: 60, enforced: true, silent: true}, 5, 60},
		"announced and not enforced": {&quota{limit: 60}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := c.server
				client, began := newClient(server), time.Now()
				jobs := make(chan int)
				var group sync.WaitGroup
				for range 10 {
					group.Go(func() {
						for range jobs {
							must.ErrorIs(t, read(t.Context(), client), nil)
						}
					})
				}
				for i := range 60*c.minutes + 30 {
					jobs <- i
				}
				close(jobs)
				group.Wait()
				took := time.Since(began)
				must.Hold(t, took >= time.Duration(c.minutes)*time.Minute && took <= time.Duration(c.minutes)*time.Minute+30*time.Second && server.rejected <= c.rejected,
					"took", took, "with", server.rejected, "rejections; expected", c.minutes, "minutes and at most", c.rejected)
			})
		})
	}
}

// After a rejection, all requests wait as long as it says, except those to the job API, which has its own limits.
func TestRejectionDelaysAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scriptedServer{answers: []http.HandlerFunc{answer(429, ``, "Retry-After", "30"), answer(200, `{"id":"a"}`)}}
		c := newClient(server)
		var group sync.WaitGroup
		group.Go(func() { read(t.Context(), c) })
		time.Sleep(time.Second)
		for range 5 {
			group.Go(func() { read(t.Context(), c) })
		}
		began := time.Now()
		_, err := c.Do(t.Context(), httpclient.Call{Method: http.MethodGet, URL: "http://jobs/v2/e/status/j", Untracked: true}, nil)
		must.Hold(t, err == nil && time.Since(began) == 0, "a request to the job API ended with", err, "after", time.Since(began))
		group.Wait()
		times := server.times
		must.Hold(t, len(times) == 8 && times[2].Sub(times[0]) == 30*time.Second, len(times), "requests at", times)
	})
}
