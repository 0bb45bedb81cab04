package httpclient_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// quota is a server that allows a number of requests a minute, in windows that
// begin with their first request, and tells so.
type quota struct {
	allows   int
	enforces bool
	silent   bool // tells nothing but Retry-After

	mu      sync.Mutex
	start   time.Time
	used    int
	served  int
	refused int
}

func (q *quota) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	now := time.Now()
	if now.Sub(q.start) >= time.Minute {
		q.start, q.used = now, 0
	}
	refuse := q.enforces && q.used >= q.allows
	if q.used < q.allows {
		q.used++
	}
	left := int((q.start.Add(time.Minute).Sub(now) + time.Second - 1) / time.Second)
	if !q.silent {
		w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"minute";q=%d;w=60, "day";q=50000;w=86400`, q.allows))
		w.Header().Set("RateLimit", fmt.Sprintf(`"minute";r=%d;t=%d, "day";r=40000;t=5000`, q.allows-q.used, left))
	}
	if refuse {
		q.refused++
	} else {
		q.served++
	}
	q.mu.Unlock()
	if refuse {
		answer(429, ``, "Retry-After", fmt.Sprint(left))(w, r)
		return
	}
	time.Sleep(50 * time.Millisecond)
	answer(200, `{"id":"a","name":"n"}`)(w, r)
}

// TestKeepsToTheServersPace: more requests than a minute allows, ten at a time,
// all succeed in as many minutes as it takes, with few refusals.
func TestKeepsToTheServersPace(t *testing.T) {
	for name, c := range map[string]struct {
		server  *quota
		minutes int
		refused int // at most
	}{
		"told and enforced":     {&quota{allows: 60, enforces: true}, 5, 10},
		"enforced in silence":   {&quota{allows: 60, enforces: true, silent: true}, 5, 60},
		"told and not enforced": {&quota{allows: 60}, 0, 0},
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
							err := read(t.Context(), client)
							must.Hold(t, err == nil, err)
						}
					})
				}
				for i := range 60*c.minutes + 30 {
					jobs <- i
				}
				close(jobs)
				group.Wait()
				took := time.Since(began)
				if took < time.Duration(c.minutes)*time.Minute || took > time.Duration(c.minutes)*time.Minute+30*time.Second || server.refused > c.refused {
					t.Errorf("took %s, %d refused", took, server.refused)
				}
			})
		})
	}
}

// TestOneRefusalHoldsAll: after a refusal nobody asks before its time, but for
// the job API, which has limits of its own.
func TestOneRefusalHoldsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []http.HandlerFunc{answer(429, ``, "Retry-After", "30"), answer(200, `{"id":"a"}`)}}
		c := newClient(server)
		var group sync.WaitGroup
		group.Go(func() { read(t.Context(), c) })
		time.Sleep(time.Second)
		for range 5 {
			group.Go(func() { read(t.Context(), c) })
		}
		began := time.Now()
		untracked := httpclient.Call{Method: http.MethodGet, URL: "http://jobs/v2/e/status/j", Untracked: true}
		if err := c.Do(t.Context(), untracked, nil); err != nil || time.Since(began) != 0 {
			t.Errorf("a job: %v after %s", err, time.Since(began))
		}
		group.Wait()
		if at := server.at; len(at) != 8 || at[2].Sub(at[0]) != 30*time.Second {
			t.Errorf("%d requests, the third after %s", len(at), at[2].Sub(at[0]))
		}
	})
}
