package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
)

// fixture is an engine with a sender and a simulated network.
type fixture struct {
	t      *testing.T
	engine *engine.Engine
	sender *webhook.Sender
	log    *livelog.Log
	start  time.Time
	config webhook.Config

	mu     sync.Mutex
	calls  []call
	open   int // calls in flight
	answer func(c call) (*http.Response, error)
}

type call struct {
	host    string
	at      float64 // seconds since the start
	request *http.Request
	body    string
}

func bubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, log: new(livelog.Log), start: time.Now()}
		f.answer = func(call) (*http.Response, error) { return status(200), nil }
		time, log := new(clock.Clock), slog.New(slog.NewTextHandler(f.log, nil))
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		f.engine = must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: time, Logger: log}))(t)
		f.config = webhook.Config{Queue: f.engine, Clock: time, Logger: log, Transport: f}
		f.sender = webhook.Start(f.config)
		defer func() {
			f.sender.Close()
			f.engine.Close()
			must.Equal(t, db.Close(), nil)
		}()
		test(t, f)
	})
}

func status(code int) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("x"))}
}

// RoundTrip simulates the network.
func (f *fixture) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	must.Hold(f.t, err == nil, err)
	c := call{r.URL.Host, time.Since(f.start).Seconds(), r, string(body)}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	f.open++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
	}()
	return f.answer(c)
}

// hang returns when the caller gives up.
func hang(c call) (*http.Response, error) {
	<-c.request.Context().Done()
	return nil, c.request.Context().Err()
}

func (f *fixture) seen() []call {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// times returns when the calls began.
func (f *fixture) times(want ...float64) {
	f.t.Helper()
	var got []float64
	for _, c := range f.seen() {
		got = append(got, c.at)
	}
	must.Equal(f.t, fmt.Sprint(got), fmt.Sprint(want), "calls at", got, "s, want", want)
}

const target = "http://receiver.example/hook?token=planted-token"

func (f *fixture) submit(n engine.NewJob) engine.Job {
	f.t.Helper()
	if n.Endpoint == "" {
		n.Endpoint = "ep"
	}
	if n.Input == nil {
		n.Input = []byte(`{}`)
	}
	if n.Webhook == "" {
		n.Webhook = target
	}
	return must.Do(f.engine.Submit(f.t.Context(), n))(f.t)
}

// run submits a job and reports its result.
func (f *fixture) run(n engine.NewJob, r engine.Report) engine.Job {
	f.t.Helper()
	job := f.submit(n)
	jobs, err := f.engine.Take(f.t.Context(), engine.Take{Endpoint: job.Endpoint, Worker: "w1", Max: 1})
	must.Require(f.t, err == nil && len(jobs) == 1, jobs, err)
	got, err := f.engine.Report(f.t.Context(), jobs[0].Ref, r)
	must.Require(f.t, err == nil && got == engine.Accepted, got, err)
	return job
}

func sleep(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

func TestCall(t *testing.T) {
	for name, c := range map[string]struct {
		report engine.Report
		want   string
	}{
		"COMPLETED": {engine.Done([]byte(`{"b":  2}`)), `{"delayTime":0,"executionTime":0,"id":"%s","output":{"b":  2},"status":"COMPLETED","workerId":"w1","input":{"a":  1},"webhook":"` + target + `"}`},
		"FAILED":    {engine.Fail("no luck", nil), `{"delayTime":0,"executionTime":0,"id":"%s","error":"no luck","status":"FAILED","workerId":"w1","input":{"a":  1},"webhook":"` + target + `"}`},
	} {
		bubble(t, func(t *testing.T, f *fixture) {
			job := f.run(engine.NewJob{Input: []byte(`{"a":  1}`), Rest: []byte(`{"s3Config":{"accessSecret":"planted"}}`)}, c.report)
			calls := f.seen()
			must.Require(t, len(calls) == 1, len(calls), "calls")
			got := calls[0].request
			must.Hold(t, got.Method == "POST" && got.URL.String() == target && got.Header.Get("Content-Type") == "application/json" &&
				got.Header.Get("Authorization") == "", name, "called", got.Method, got.URL, "with", got.Header)
			want := fmt.Sprintf(c.want, job.ID)
			must.Hold(t, calls[0].body == want && json.Valid([]byte(want)), name, "the body is", calls[0].body)
			sleep(3600)
			f.times(0)
		})
	}
}

// A receiver rejects a request line with a space or a character outside ASCII.
func TestQueryIsEscaped(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.run(engine.NewJob{Webhook: "http://receiver.example/a b?job=my jób&c=%20+;d?"}, engine.Done([]byte("1")))
		must.Equal(t, f.seen()[0].request.URL.RequestURI(), "/a%20b?job=my%20j%C3%B3b&c=%20+;d?", "called")
	})
}

func TestNoCall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		must.Do(f.engine.Cancel(t.Context(), "ep", f.submit(engine.NewJob{}).ID))(t)
		f.submit(engine.NewJob{Timeout: 5 * time.Second})
		jobs, err := f.engine.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
		must.Require(t, err == nil && len(jobs) == 1, jobs, err)
		sleep(3600)
		f.times()
	})
}

// A failed call is retried twice, each time 10 s after the end of the last try, until the
// response is 200. No outcome changes the job.
func TestTries(t *testing.T) {
	slow := func(seconds float64, then func() (*http.Response, error)) func(call) (*http.Response, error) {
		return func(call) (*http.Response, error) { sleep(seconds); return then() }
	}
	answers := func(codes ...int) func(call) (*http.Response, error) {
		return func(call) (*http.Response, error) {
			code := codes[0]
			if len(codes) > 1 {
				codes = codes[1:]
			}
			return status(code), nil
		}
	}
	for name, c := range map[string]struct {
		answer func(call) (*http.Response, error)
		want   []float64
	}{
		"200":            {answers(200), []float64{0}},
		"500":            {answers(500), []float64{0, 10, 20}},
		"201 is not 200": {answers(201), []float64{0, 10, 20}},
		"204 is not 200": {answers(204), []float64{0, 10, 20}},
		"a redirect":     {answers(307), []float64{0, 10, 20}},
		"the second":     {answers(503, 200), []float64{0, 10}},
		"the third":      {answers(503, 404, 200), []float64{0, 10, 20}},
		"no connection":  {func(call) (*http.Response, error) { return nil, errors.New("refused") }, []float64{0, 10, 20}},
		"slow":           {slow(4, func() (*http.Response, error) { return status(500), nil }), []float64{0, 14, 28}},
		"slow and well":  {slow(9.9, func() (*http.Response, error) { return status(200), nil }), []float64{0}},
		"no answer":      {hang, []float64{0, 20, 40}},
	} {
		bubble(t, func(t *testing.T, f *fixture) {
			f.answer = c.answer
			job := f.run(engine.NewJob{}, engine.Done([]byte(`1`)))
			before := must.Do(f.engine.Get(t.Context(), "ep", job.ID))(t)
			sleep(1000)
			f.times(c.want...)
			after := must.Do(f.engine.Get(t.Context(), "ep", job.ID))(t)
			must.Hold(t, fmt.Sprintf("%+v", after) == fmt.Sprintf("%+v", before), name, "the job is", after)
			log := f.log.String()
			must.Hold(t, !strings.Contains(log, "planted-token"), name, "the log names a secret", log)
		})
	}
}

// An advance of the clock waits for a call's response, so that the next call keeps its gap.
func TestAdvance(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		c := f.config.Clock
		c.Stop()
		var at []time.Duration
		f.answer = func(call) (*http.Response, error) {
			at = append(at, c.Now().Sub(f.start))
			time.Sleep(50 * time.Millisecond)
			return status(500), nil
		}
		f.run(engine.NewJob{}, engine.Done([]byte(`1`)))
		time.Sleep(time.Second)
		c.Advance(time.Hour)
		must.Equal(t, at, []time.Duration{0, 10 * time.Second, 20 * time.Second}, "calls after")
	})
}

// A due call survives a restart and the expiry of its job.
func TestNothingIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.answer = func(call) (*http.Response, error) { return status(500), nil }
		job := f.run(engine.NewJob{TTL: 10 * time.Second}, engine.Done([]byte(`1`)))
		sleep(11)
		must.FailWith(t, must.Err(f.engine.Get(t.Context(), "ep", job.ID)), engine.ErrNotFound, "the job whose ttl is over")
		sleep(600)
		f.times(0, 10, 20)
		must.Contain(t, f.seen()[2].body, job.ID)
	})
	bubble(t, func(_ *testing.T, f *fixture) {
		f.answer = hang
		f.run(engine.NewJob{}, engine.Done([]byte(`1`)))
		f.times(0)
		sleep(1)
		f.sender.Close() // during the first call, which doesn't count then
		f.answer = func(call) (*http.Response, error) { return status(500), nil }
		f.sender = webhook.Start(f.config)
		sleep(600)
		f.times(0, 15, 25, 35)
	})
	bubble(t, func(_ *testing.T, f *fixture) {
		f.sender.Close()
		f.run(engine.NewJob{}, engine.Done([]byte(`1`)))
		sleep(100)
		f.sender = webhook.Start(f.config)
		f.times(100)
	})
}

// A retry of the job withdraws its call.
func TestRetryWithdraws(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.answer = func(call) (*http.Response, error) { return status(500), nil }
		job := f.run(engine.NewJob{}, engine.Fail("x", nil))
		sleep(5)
		must.Do(f.engine.Retry(t.Context(), "ep", job.ID))(t)
		sleep(100)
		f.times(0)
		jobs, err := f.engine.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w1", Max: 1})
		must.Require(t, err == nil && len(jobs) == 1, jobs, err)
		must.Do(f.engine.Report(t.Context(), jobs[0].Ref, engine.Done(nil)))(t)
		sleep(100)
		f.times(0, 105, 115, 125)
	})
}

// A hanging receiver delays neither other receivers nor the engine, and gets few calls at a time.
func TestSlowReceiver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		most := 0
		f.answer = func(c call) (*http.Response, error) {
			if c.host != "slow.example" {
				return status(200), nil
			}
			f.mu.Lock()
			most = max(most, f.open)
			f.mu.Unlock()
			return hang(c)
		}
		for range 30 {
			f.run(engine.NewJob{Webhook: "http://slow.example/"}, engine.Done(nil))
		}
		f.run(engine.NewJob{Webhook: "http://quick.example/"}, engine.Done(nil))
		calls := f.seen()
		n := slices.IndexFunc(calls, func(c call) bool { return c.host == "quick.example" })
		must.Hold(t, len(calls) == 5 && n >= 0 && calls[n].at == 0, len(calls), "calls at once, that at the quick one in place", n)
		sleep(3600)
		n = len(f.seen())
		must.Hold(t, n == 30*3+1 && most == 4, n, "calls", most, "at a time")
	})
}

// Hanging receivers, at any number of names and endpoints, delay the calls of other endpoints
// by at most one timeout, and only once. Tries and gaps stay as in the contract.
func TestHangingReceivers(t *testing.T) {
	for name, endpoints := range map[string]int{"one endpoint": 1, "many endpoints": 20} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.answer = func(c call) (*http.Response, error) {
					if strings.HasPrefix(c.host, "good") {
						return status(200), nil
					}
					return hang(c)
				}
				for i := range 200 {
					f.run(engine.NewJob{Endpoint: fmt.Sprint("hangs", i%endpoints), Webhook: fmt.Sprintf("http://hangs%d.example/", i)}, engine.Done(nil))
				}
				for round := range 10 {
					start := time.Since(f.start).Seconds()
					host := fmt.Sprintf("good%d.example", round)
					f.run(engine.NewJob{Endpoint: "good", Webhook: "http://" + host + "/"}, engine.Done(nil))
					sleep(11)
					delay := -1.0
					for _, c := range f.seen() {
						if c.host == host {
							delay = c.at - start
						}
					}
					most := map[bool]float64{true: 10, false: 0}[round == 0 && endpoints > 1]
					must.Hold(t, !(delay < 0) && !(delay > most), "round", round, "the call came after", delay, "s, expected", most, "at most")
				}
				sleep(10_000)
				tries := map[string][]float64{}
				for _, c := range f.seen() {
					tries[c.host] = append(tries[c.host], c.at)
				}
				for i := range 200 {
					at := tries[fmt.Sprintf("hangs%d.example", i)]
					// the timeout and ten seconds
					must.Require(t, len(at) == 3 && at[1]-at[0] >= 20 && at[2]-at[1] >= 20, "receiver", i, "was called at", at)
				}
			})
		})
	}
}

func TestForbiddenTarget(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.run(engine.NewJob{Webhook: "http://192.168.0.1/x?planted-token"}, engine.Done(nil))
		f.run(engine.NewJob{Webhook: "file:///etc/passwd"}, engine.Done(nil))
		sleep(100)
		f.times()
		log := f.log.String()
		must.Hold(t, strings.Count(log, "could not be delivered") == 1 && !strings.Contains(log, "planted"), "the log says", log)
		job := f.run(engine.NewJob{Webhook: target}, engine.Done(nil))
		f.times(100)
		must.Succeed(t, f.engine.DropEndpoint(t.Context(), job.Endpoint))
	})
}

// Rows of expired jobs are deleted once their calls are done.
func TestRowsGo(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.answer = func(call) (*http.Response, error) { return status(500), nil }
		for range 5 {
			f.run(engine.NewJob{TTL: 10 * time.Second}, engine.Done(nil))
		}
		sleep(100)
		synctest.Wait()
		next := must.Do(f.engine.Sweep(context.Background()))(t)
		must.Hold(t, next.IsZero(), "there is something left until", next)
	})
}

// hanging makes receivers hang if their path is /hangs, and counts the calls in flight to them
// by owner and endpoint, with which the host must begin.
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

// delay submits a job of an owner with a responding receiver, and returns the delay of its call.
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

// If all receivers of an owner hang, at any number of names and endpoints, calls of other
// owners aren't delayed. Every call is made, within the limits.
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
					// An own name, and the name that hangs for the other owner.
					for _, good := range []string{"good.example", host(round)} {
						must.Equal(t, h.delay("good", "good", good), 0, "round", round, "the call at", good, "came after", "s, expected at once")
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
				must.Equal(t, tries, 3*calls, "calls that hang")
				for name, n := range h.most {
					bound := 8
					switch {
					case name == "whole", name == "bad", name == "shared" && host(0) == "shared.example":
						bound = 32
					case strings.Contains(name, "@"):
						bound = 4
					}
					must.Hold(t, n <= bound, n, "calls under way of", name, bound, "at most")
				}
			})
		})
	}
}

// Owners whose receivers all hang use all calls for one timeout. Then they share half of them,
// and other owners don't wait.
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
			delay := h.delay("good", "good", "good.example")
			must.Hold(t, delay <= most, "round", round, "the call came after", delay, "s, expected", most, "at most")
			sleep(3)
		}
		sleep(10_000)
		tries := map[string]int{}
		for _, c := range h.seen() {
			tries[c.host]++
		}
		must.Hold(t, len(tries) == owners*endpoints*calls+1 && h.most["whole"] <= 128, len(tries), "receivers were called", h.most["whole"], "at a time")
		for host, n := range tries {
			must.Hold(t, host == "good.example" || n == 3, host, "was called", n, "times")
		}
	})
}

// Owners take turns, and so do an owner's endpoints. If more calls are due than the limits
// allow, each gets the same share, whoever was first.
func TestTurns(t *testing.T) {
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
					return status(200), nil
				}
				for i := range c.owners {
					for j := range c.endpoints {
						for n := range 12 {
							f.run(engine.NewJob{
								Owner: fmt.Sprint("owner", i), Endpoint: fmt.Sprint("e", i, "-", j), Webhook: fmt.Sprintf("http://host%d.e%d-%d.owner%d/", n, i, j, i),
							}, engine.Done(nil))
						}
						sleep(0.1)
					}
				}
				began := time.Since(f.start).Seconds()
				f.sender = webhook.Start(f.config)
				sleep(5)
				owners, endpoints := map[string]int{}, map[string]int{}
				for _, c := range f.seen() {
					if c.at < began+5 {
						_, endpoint, _ := strings.Cut(c.host, ".")
						_, owner, _ := strings.Cut(endpoint, ".")
						owners[owner]++
						endpoints[endpoint]++
					}
				}
				for what, calls := range map[string]map[string]int{"owner": owners, "endpoint": endpoints} {
					all := slices.Sorted(maps.Values(calls))
					least, most := all[0], all[len(all)-1]
					must.Hold(t, most <= least*4/3+2, least, "to", most, "calls of each", what, "in five seconds, expected nearly as many of each")
				}
				must.Hold(t, len(owners) == c.owners && len(endpoints) == c.owners*c.endpoints, "calls of", len(owners), "owners and", len(endpoints), "endpoints")
			})
		})
	}
}
