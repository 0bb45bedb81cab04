//go:build unix

package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// result is the result of one process and one operation in one round.
type result struct {
	rate     float64 // requests per second
	p50, p99 time.Duration
	cpu      time.Duration // processor time per request
	resident int64         // resident memory afterwards, in bytes
	failed   int
	failure  error // one of the failures
}

func (s *subject) newRequest(method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// client is one of several concurrent clients. It reuses its buffer, to cost little.
type client struct {
	*subject
	http *http.Client
	buf  bytes.Buffer
}

func newClients(s *subject, n int) (clients []*client, done func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}
	for range n {
		clients = append(clients, &client{subject: s, http: &http.Client{Transport: transport, Timeout: time.Minute}})
	}
	return clients, transport.CloseIdleConnections
}

// ask sends a request and returns the body, which is valid until the next call.
func (c *client) ask(method, path string, body []byte) ([]byte, error) {
	r, err := c.newRequest(method, path, body)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	c.buf.Reset()
	_, err = c.buf.ReadFrom(answer.Body)
	if e := answer.Body.Close(); err == nil {
		err = e
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d %.200s", method, path, answer.StatusCode, c.buf.Bytes())
	}
	return c.buf.Bytes(), err
}

// measureRound measures an operation for roundTime, after a warm-up of a quarter of it. Then it drains the queue.
func measureRound(b *testing.B, s *subject, o operation, size, n int) result {
	b.Helper()
	clients, done := newClients(s, n)
	defer done()
	perform, err := o.prepare(clients[0], size)
	must.Require(b, err == nil, "preparing", o.name, "on", s.name, "failed:", err)
	duration := *roundTime
	if size >= 1<<20 {
		duration /= 4 // state in memory has no space for more
	}
	runClients(clients, duration/4, perform)
	awaitProfile := s.profile(fmt.Sprintf("%s-%s-%d-%s", o.name, bytesName(size), n, s.name))
	before := s.cpuTime()
	r := runClients(clients, duration, perform)
	if requests := r.rate * duration.Seconds(); requests > 0 {
		r.cpu = time.Duration(float64(s.cpuTime()-before) / requests)
	}
	awaitProfile()
	_, err = clients[0].ask(http.MethodPost, "/v2/"+s.endpoints[o.handler]+"/purge-queue", nil)
	must.Require(b, err == nil || errors.Is(err, io.EOF), "purging the queue of", s.name, "failed:", err)
	awaitIdle(b, clients[0], s.endpoints[o.handler])
	r.resident = s.residentMemory()
	s.renew(b, o.handler)
	return r
}

// profile records a profile of the process if -bench.profile is set.
func (s *subject) profile(name string) (done func()) {
	if *profile == "" || s.name == floorName {
		return func() {}
	}
	var group sync.WaitGroup
	group.Go(func() {
		clients, done := newClients(s, 1)
		defer done()
		text, err := clients[0].ask(http.MethodGet, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(roundTime.Seconds()))), nil)
		if err == nil {
			_ = os.WriteFile(filepath.Join(*profile, name+".pprof"), text, 0o600) // the user notices a missing file
		}
	})
	return group.Wait
}

// runClients lets clients send requests in a loop.
func runClients(clients []*client, duration time.Duration, perform func(*client) error) (r result) {
	var mu sync.Mutex
	var times []time.Duration
	var group sync.WaitGroup
	begin := time.Now()
	for _, c := range clients {
		group.Go(func() {
			var own []time.Duration
			failed, failure := 0, error(nil)
			for sent := time.Now(); sent.Sub(begin) < duration; {
				err := perform(c)
				now := time.Now()
				if err != nil {
					failed, failure = failed+1, err
				} else {
					own = append(own, now.Sub(sent))
				}
				sent = now
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			r.failed += failed
			if failure != nil {
				r.failure = failure
			}
		})
	}
	group.Wait()
	r.rate = float64(len(times)) / time.Since(begin).Seconds()
	if slices.Sort(times); len(times) > 0 {
		r.p50, r.p99 = times[len(times)/2], times[len(times)*99/100]
	}
	return r
}
