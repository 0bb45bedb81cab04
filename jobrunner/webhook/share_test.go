package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
)

// hanging makes the receivers whose path is /hangs hang, and counts the calls
// under way at them by owner and endpoint, which the host is to begin with.
type hanging struct {
	*fixture
	open, most map[string]int
}

func hangs(f *fixture) *hanging {
	h := &hanging{fixture: f, open: map[string]int{}, most: map[string]int{}}
	f.answer = func(c call) (*http.Response, error) {
		if c.request.URL.Path != "/hangs" {
			return status(200), nil
		}
		endpoint, _, _ := strings.Cut(c.host, ".")
		owner, _, _ := strings.Cut(endpoint, "-")
		counted := []string{owner, endpoint, owner + "@" + c.host, "whole"}
		h.count(1, counted)
		defer h.count(-1, counted)
		return hang(c)
	}
	return h
}

func (h *hanging) count(n int, names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		h.open[name] += n
		h.most[name] = max(h.most[name], h.open[name])
	}
}

// delay submits a job of an owner, with a receiver that answers, and tells how
// long its call took to come.
func (h *hanging) delay(owner, endpoint, host string) float64 {
	h.t.Helper()
	start, before := time.Since(h.start).Seconds(), len(h.seen())
	h.run(engine.NewJob{Owner: owner, Endpoint: endpoint, Webhook: "http://" + host + "/answers"}, engine.Done(nil))
	for range 100 {
		for _, c := range h.seen()[before:] {
			if c.host == host && c.request.URL.Path == "/answers" {
				return c.at - start
			}
		}
		sleep(1)
	}
	h.t.Errorf("the call of %s at %s does not come", owner, host)
	return -1
}

// An owner whose receivers hang, at whatever names and of however many
// endpoints, delays no call of another owner. Every call is made nevertheless,
// and each bound is kept.
func TestOwnerWithHangingReceivers(t *testing.T) {
	for name, host := range map[string]func(i int) string{
		"a name for each call":     func(i int) string { return fmt.Sprintf("bad-%d.host%d.example", i%100, i) },
		"a name for each endpoint": func(i int) string { return fmt.Sprintf("bad-%d.example", i%100) },
		"one name":                 func(int) string { return "shared.example" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				h := hangs(f)
				const calls = 300
				for i := range calls {
					h.run(engine.NewJob{Owner: "bad", Endpoint: fmt.Sprint("bad-", i%100), Webhook: "http://" + host(i) + "/hangs"}, engine.Done(nil))
				}
				for round := range 20 {
					// A name of its own, and the one that hangs for the other owner.
					for _, good := range []string{"good.example", host(round)} {
						if delay := h.delay("good", "good", good); delay != 0 {
							t.Errorf("round %d: the call at %s came after %g s, expected at once", round, good, delay)
						}
					}
					sleep(7)
				}
				sleep(100_000)
				tries := 0
				for _, c := range h.seen() {
					if c.request.URL.Path == "/hangs" {
						tries++
					}
				}
				if tries != 3*calls {
					t.Errorf("%d calls that hang, expected %d", tries, 3*calls)
				}
				for name, n := range h.most {
					bound := 8
					switch {
					case name == "whole", name == "bad", name == "shared" && host(0) == "shared.example":
						bound = 32
					case strings.Contains(name, "@"):
						bound = 4
					}
					if n > bound {
						t.Errorf("%d calls under way of %s, expected %d at most", n, name, bound)
					}
				}
			})
		})
	}
}

// Owners whose receivers all hang fill the whole room once, for one time-out;
// then they share half of it, and nobody else waits.
func TestManyOwnersWithHangingReceivers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := hangs(f)
		const owners, endpoints, calls = 20, 5, 3
		for i := range owners * endpoints * calls {
			owner := fmt.Sprint("bad", i%owners)
			endpoint := fmt.Sprint(owner, "-", i/owners%endpoints)
			h.run(engine.NewJob{Owner: owner, Endpoint: endpoint, Webhook: fmt.Sprintf("http://%s.host%d.example/hangs", endpoint, i)}, engine.Done(nil))
		}
		for round := range 20 {
			most := 0.0
			if round == 0 {
				most = 10
			}
			if delay := h.delay("good", "good", "good.example"); delay > most {
				t.Errorf("round %d: the call came after %g s, expected %g at most", round, delay, most)
			}
			sleep(3)
		}
		sleep(10_000)
		tries := map[string]int{}
		for _, c := range h.seen() {
			tries[c.host]++
		}
		if len(tries) != owners*endpoints*calls+1 || h.most["whole"] > 128 {
			t.Errorf("%d receivers were called, %d at a time", len(tries), h.most["whole"])
		}
		for host, n := range tries {
			if host != "good.example" && n != 3 {
				t.Errorf("%s was called %d times, expected 3", host, n)
			}
		}
	})
}

// Owners take turns, and so do the endpoints of one, however many calls the
// others have to make.
func TestTurns(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.sender.Close()
		f.answer = func(call) (*http.Response, error) { sleep(1); return status(200), nil }
		submit := func(n int, owner, endpoint string) {
			for i := range n {
				f.run(engine.NewJob{Owner: owner, Endpoint: endpoint, Webhook: fmt.Sprintf("http://%s.%s.host%d.example/", endpoint, owner, i)}, engine.Done(nil))
			}
		}
		for i := range 6 {
			submit(100, fmt.Sprint("many", i), "only")
			sleep(1)
		}
		submit(40, "late", "first")
		submit(10, "late", "second")
		began := time.Since(f.start).Seconds()
		f.sender = webhook.Start(f.config)
		f.seen()
		sleep(0.5)
		round := map[string]int{} // calls of the first second
		for _, c := range f.seen() {
			if c.at-began > 0.5 {
				continue
			}
			labels := strings.Split(c.host, ".")
			round[labels[1]]++
			round[labels[1]+" "+labels[0]]++
		}
		// One endpoint may have eight.
		if round["late"] != 16 || round["late first"] != 8 || round["late second"] != 8 || round["many0"] != 8 || round["many5"] != 8 {
			t.Errorf("the calls at once are %v", round)
		}
	})
}
