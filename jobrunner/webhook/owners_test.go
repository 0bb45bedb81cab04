package webhook_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
)

// hangingReceivers makes receivers hang if their path is /hangs, or hang after the header of their response if it is /stalls, and counts the calls in flight to them. A
// host begins with the endpoint, and an endpoint with the owner: bad-7.example is of endpoint bad-7 of owner bad.
type hangingReceivers struct {
	*fixture
	// open is the current number of calls, maxOpen the highest, by owner, endpoint, owner@host, and "whole" for all.
	open, maxOpen map[string]int
}

func startHangingReceivers(f *fixture) *hangingReceivers {
	h := &hangingReceivers{fixture: f, open: map[string]int{}, maxOpen: map[string]int{}}
	f.answer = func(c call) (*http.Response, error) {
		if c.request.URL.Path == "/answers" {
			return respond(200), nil
		}
		endpoint, _, _ := strings.Cut(c.host, ".")
		owner, _, _ := strings.Cut(endpoint, "-")
		names := []string{owner, endpoint, owner + "@" + c.host, "whole"}
		h.count(1, names)
		if c.request.URL.Path == "/hangs" {
			defer h.count(-1, names)
			return hang(c)
		}
		answer := respond(200)
		r, w := io.Pipe()
		answer.Body = r
		context.AfterFunc(c.request.Context(), func() {
			h.count(-1, names)
			w.CloseWithError(context.DeadlineExceeded)
		})
		return answer, nil
	}
	return h
}

func (h *hangingReceivers) count(n int, names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		h.open[name] += n
		h.maxOpen[name] = max(h.maxOpen[name], h.open[name])
	}
}

// measureDelay submits a job of an owner with a responding receiver, and returns the delay of its call in seconds.
func (h *hangingReceivers) measureDelay(owner, endpoint, host string) float64 {
	h.t.Helper()
	start, callsBefore := time.Since(h.start).Seconds(), len(h.allCalls())
	h.runJob(engine.NewJob{Owner: owner, Endpoint: endpoint, Webhook: "http://" + host + "/answers"}, engine.Done(nil))
	for range 100 {
		for _, c := range h.allCalls()[callsBefore:] {
			if c.host == host && c.request.URL.Path == "/answers" {
				return c.at - start
			}
		}
		sleep(1)
	}
	h.t.Errorf("the call of %s to %s didn't come within 100 s", owner, host)
	return -1
}

// If all receivers of an owner hang, calls of other owners aren't delayed. Every call is made, within the limits.
func TestOwnerWithHangingReceivers(t *testing.T) {
	for name, host := range map[string]func(i int) string{
		"a name for each call":     func(i int) string { return fmt.Sprintf("bad-%d.host%d.example", i%100, i) },
		"a name for each endpoint": func(i int) string { return fmt.Sprintf("bad-%d.example", i%100) },
		"one name":                 func(int) string { return "shared.example" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				h := startHangingReceivers(f)
				const calls = 300
				for i := range calls {
					h.runJob(engine.NewJob{Owner: "bad", Endpoint: fmt.Sprint("bad-", i%100), Webhook: "http://" + host(i) + "/hangs"}, engine.Done(nil))
				}
				for round := range 20 {
					// good.example has only this receiver. At the other host, receivers of bad hang, too.
					for _, host := range []string{"good.example", host(round)} {
						must.Equal(t, h.measureDelay("good", "good", host), 0, "the seconds until the call to", host, "in round", round)
					}
					sleep(7)
				}
				sleep(100_000)
				tries := 0
				for _, c := range h.allCalls() {
					if c.request.URL.Path == "/hangs" {
						tries++
					}
				}
				must.Equal(t, tries, 3*calls, "the number of calls that hang")
				for name, n := range h.maxOpen {
					limit := 8
					switch {
					case name == "whole", name == "bad", name == "shared" && host(0) == "shared.example":
						limit = 32
					case strings.Contains(name, "@"):
						limit = 4
					}
					must.Hold(t, n <= limit, name, "had", n, "calls in flight, want at most", limit)
				}
			})
		})
	}
}

// If another host leaves the list of busy hosts while a call waits for memory, the limit of this host still holds.
func TestCallsPerHostWithoutMemory(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := startHangingReceivers(f)
		input := fmt.Appendf(nil, `{"a":"%s"}`, strings.Repeat("x", 1<<20))
		for i := range 60 {
			h.runJob(engine.NewJob{Owner: "bad", Endpoint: fmt.Sprint("bad-", i), Input: input, Webhook: fmt.Sprintf("http://bad-%d.example/hangs", i/20)}, engine.Done(nil))
		}
		sleep(1000)
		synctest.Wait()
		must.Equal(t, h.maxOpen["bad@bad-0.example"], 4, "the highest number of calls in flight to a receiver")
	})
}

// Until the first timeout, owners of hanging receivers use up the limit of all calls; after it, half of the limit.
func TestManyOwnersWithHangingReceivers(t *testing.T) {
	t.Run("hangs", func(t *testing.T) { testManyOwners(t, "hangs", 3) })
	t.Run("stalls", func(t *testing.T) { testManyOwners(t, "stalls", 1) })
}

func testManyOwners(t *testing.T, path string, triesOfEach int) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := startHangingReceivers(f)
		const owners, endpoints, calls = 20, 5, 3
		for i := range owners * endpoints * calls {
			owner := fmt.Sprint("bad", i%owners)
			endpoint := fmt.Sprint(owner, "-", i/owners%endpoints)
			h.runJob(engine.NewJob{Owner: owner, Endpoint: endpoint, Webhook: fmt.Sprintf("http://%s.host%d.example/%s", endpoint, i, path)}, engine.Done(nil))
		}
		for round := range 20 {
			maxDelay := 0.0
			if round == 0 {
				maxDelay = 10
			}
			delay := h.measureDelay("good", "good", "good.example")
			must.Hold(t, delay <= maxDelay, "in round", round, "the call came after", delay, "s, want at most", maxDelay)
			sleep(3)
		}
		sleep(10_000)
		tries := map[string]int{}
		for _, c := range h.allCalls() {
			tries[c.host]++
		}
		must.Hold(t, len(tries) == owners*endpoints*calls+1 && h.maxOpen["whole"] <= 128, len(tries), "receivers were called, at most", h.maxOpen["whole"], "at a time; want at most 128")
		for host, n := range tries {
			must.Hold(t, host == "good.example" || n == triesOfEach, host, "was called", n, "times")
		}
	})
}

// If more calls are due than the limits allow, owners and an owner's endpoints take turns.
func TestOwnersTakeTurns(t *testing.T) {
	for name, c := range map[string]struct{ owners, endpoints int }{
		"owners":                 {150, 1},
		"endpoints of one owner": {1, 50},
		"both":                   {15, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.sender.Close()
				ends := 0
				f.answer = func(call) (*http.Response, error) {
					f.mu.Lock()
					ends++
					length := 1 + float64(ends%7)/10 // calls end at different times
					f.mu.Unlock()
					sleep(length)
					return respond(200), nil
				}
				for i := range c.owners {
					for j := range c.endpoints {
						for n := range 12 {
							f.runJob(engine.NewJob{
								Owner: fmt.Sprint("owner", i), Endpoint: fmt.Sprint("e", i, "-", j), Webhook: fmt.Sprintf("http://host%d.e%d-%d.owner%d/", n, i, j, i),
							}, engine.Done(nil))
						}
						sleep(0.1)
					}
				}
				start := time.Since(f.start).Seconds()
				f.sender = webhook.Start(f.config)
				sleep(5)
				owners, endpoints := map[string]int{}, map[string]int{}
				for _, c := range f.allCalls() {
					if c.at < start+5 {
						_, endpoint, _ := strings.Cut(c.host, ".")
						_, owner, _ := strings.Cut(endpoint, ".")
						owners[owner]++
						endpoints[endpoint]++
					}
				}
				for what, calls := range map[string]map[string]int{"owner": owners, "endpoint": endpoints} {
					all := slices.Sorted(maps.Values(calls))
					least, most := all[0], all[len(all)-1]
					must.Hold(t, most <= least*4/3+2, "in five seconds, each", what, "had", least, "to", most, "calls, want nearly the same number")
				}
				must.Hold(t, len(owners) == c.owners && len(endpoints) == c.owners*c.endpoints, "called receivers of", len(owners), "owners and", len(endpoints), "endpoints, want", c)
			})
		})
	}
}
