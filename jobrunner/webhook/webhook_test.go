package webhook_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
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
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
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
		f.answer = func(call) (*http.Response, error) { return respond(200), nil }
		clk, log := new(clock.Clock), slog.New(slog.NewTextHandler(f.log, nil))
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		f.engine = must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: clk, Logger: log}))(t)
		f.config = webhook.Config{Queue: f.engine, Clock: clk, Memory: httplimit.NewMemory(32 << 20) /* the smallest default */, Logger: log, Transport: f}
		f.sender = webhook.Start(f.config)
		defer func() {
			f.sender.Close()
			f.engine.Close()
			must.Equal(t, db.Close(), nil)
		}()
		test(t, f)
	})
}

func respond(code int) *http.Response {
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

func (f *fixture) allCalls() []call {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// expectCallsAt expects that the calls began at these times, in seconds.
func (f *fixture) expectCallsAt(want ...float64) {
	f.t.Helper()
	var got []float64
	for _, c := range f.allCalls() {
		got = append(got, c.at)
	}
	must.Equal(f.t, fmt.Sprint(got), fmt.Sprint(want), "the seconds at which calls began")
}

const target = "http://receiver.example/hook?token=planted-token"

func (f *fixture) submit(n engine.NewJob) engine.Job {
	f.t.Helper()
	n.Endpoint, n.Webhook = cmp.Or(n.Endpoint, "ep"), cmp.Or(n.Webhook, target)
	if n.Input == nil {
		n.Input = []byte(`{}`)
	}
	return must.Do(f.engine.Submit(f.t.Context(), n))(f.t)
}

func (f *fixture) runJob(n engine.NewJob, r engine.Report) engine.Job {
	f.t.Helper()
	job := f.submit(n)
	jobs := must.Do(f.engine.Take(f.t.Context(), engine.Take{Endpoint: job.Endpoint, Worker: "w1", Max: 1}))(f.t)
	must.Equal(f.t, must.Do(f.engine.Report(f.t.Context(), jobs[0].Ref, r))(f.t), engine.Accepted)
	return job
}

func sleep(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

func TestCallBody(t *testing.T) {
	for name, c := range map[string]struct {
		report engine.Report
		want   string
	}{
		"COMPLETED": {engine.Done([]byte(`{"b":  2}`)), `{"delayTime":0,"executionTime":0,"id":"%s","output":{"b":  2},"status":"COMPLETED","workerId":"w1","input":{"a":  1},"webhook":"` + target + `"}`},
		"FAILED":    {engine.Fail("no luck", nil), `{"delayTime":0,"executionTime":0,"id":"%s","error":"no luck","status":"FAILED","workerId":"w1","input":{"a":  1},"webhook":"` + target + `"}`},
	} {
		bubble(t, func(t *testing.T, f *fixture) {
			job := f.runJob(engine.NewJob{Input: []byte(`{"a":  1}`), Rest: []byte(`{"s3Config":{"accessSecret":"planted"}}`)}, c.report)
			calls := f.allCalls()
			must.Require(t, len(calls) == 1, "made", len(calls), "calls, want 1")
			got := calls[0].request
			must.Hold(t, got.Method == "POST" && got.URL.String() == target && got.Header.Get("Content-Type") == "application/json" &&
				got.Header.Get("Authorization") == "", name, "called", got.Method, got.URL, "with", got.Header)
			want := fmt.Sprintf(c.want, job.ID)
			must.Equal(t, calls[0].body, want, "the body of the call for a job that is", name)
			must.Hold(t, json.Valid([]byte(want)), "this body isn't JSON:", want)
			sleep(3600)
			f.expectCallsAt(0)
		})
	}
}

// A receiver rejects a request line with a space or a character outside ASCII.
func TestQueryIsEscaped(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.runJob(engine.NewJob{Webhook: "http://receiver.example/a b?job=my jób&c=%20+;d?"}, engine.Done([]byte("1")))
		must.Equal(t, f.allCalls()[0].request.URL.RequestURI(), "/a%20b?job=my%20j%C3%B3b&c=%20+;d?", "the called URI")
	})
}

func TestNoCallAfterCancelOrTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		must.Do(f.engine.Cancel(t.Context(), "ep", f.submit(engine.NewJob{}).ID))(t)
		f.submit(engine.NewJob{Timeout: 5 * time.Second})
		must.Do(f.engine.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1}))(t)
		sleep(3600)
		f.expectCallsAt()
	})
}

// A call whose response isn't 200 is retried twice, 10 s after each end. No outcome changes the job.
func TestFailedCallIsRetriedTwice(t *testing.T) {
	slow := func(seconds float64, code int) func(call) (*http.Response, error) {
		return func(call) (*http.Response, error) { sleep(seconds); return respond(code), nil }
	}
	answers := func(codes ...int) func(call) (*http.Response, error) {
		return func(call) (*http.Response, error) {
			code := codes[0]
			if len(codes) > 1 {
				codes = codes[1:]
			}
			return respond(code), nil
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
		"second try":     {answers(503, 200), []float64{0, 10}},
		"third try":      {answers(503, 404, 200), []float64{0, 10, 20}},
		"no connection":  {func(call) (*http.Response, error) { return nil, errors.New("refused") }, []float64{0, 10, 20}},
		"a slow 500":     {slow(4, 500), []float64{0, 14, 28}},
		"a slow 200":     {slow(9.9, 200), []float64{0}},
		"no answer":      {hang, []float64{0, 20, 40}},
	} {
		bubble(t, func(t *testing.T, f *fixture) {
			f.answer = c.answer
			job := f.runJob(engine.NewJob{}, engine.Done([]byte(`1`)))
			before := must.Do(f.engine.Get(t.Context(), "ep", job.ID))(t)
			sleep(1000)
			f.expectCallsAt(c.want...)
			after := must.Do(f.engine.Get(t.Context(), "ep", job.ID))(t)
			must.Hold(t, fmt.Sprintf("%+v", after) == fmt.Sprintf("%+v", before), "after", name, "the job is", after, "and was", before)
			log := f.log.String()
			must.Hold(t, !strings.Contains(log, "planted-token"), "after", name, "the log has the token:", log)
		})
	}
}

// An advance of the clock waits for a call's response, so that the next call keeps its gap.
func TestAdvance(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		c := f.config.Clock
		c.Stop()
		var times []time.Duration
		f.answer = func(call) (*http.Response, error) {
			times = append(times, c.Now().Sub(f.start))
			time.Sleep(50 * time.Millisecond)
			return respond(500), nil
		}
		f.runJob(engine.NewJob{}, engine.Done([]byte(`1`)))
		time.Sleep(time.Second)
		c.Advance(time.Hour)
		must.Equal(t, times, []time.Duration{0, 10 * time.Second, 20 * time.Second}, "the times of the calls")
	})
}

// A due call survives a restart and the expiry of its job.
func TestDueCallSurvives(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.answer = func(call) (*http.Response, error) { return respond(500), nil }
		job := f.runJob(engine.NewJob{TTL: 10 * time.Second}, engine.Done([]byte(`1`)))
		sleep(11)
		must.ErrorIs(t, must.Err(f.engine.Get(t.Context(), "ep", job.ID)), engine.ErrNotFound, "the job whose ttl is over")
		sleep(600)
		f.expectCallsAt(0, 10, 20)
		must.Contain(t, f.allCalls()[2].body, job.ID)
	})
	for response, want := range map[*http.Response][]float64{nil: {0, 15, 25, 35}, respond(200): {0}} {
		bubble(t, func(_ *testing.T, f *fixture) {
			f.answer = func(c call) (*http.Response, error) {
				_, err := hang(c)
				if response != nil {
					err = nil
				}
				return response, err
			}
			f.runJob(engine.NewJob{}, engine.Done([]byte(`1`)))
			f.expectCallsAt(0)
			sleep(1)
			f.sender.Close() // during the first call, which doesn't count as a try unless it was answered
			f.answer = func(call) (*http.Response, error) { return respond(500), nil }
			f.sender = webhook.Start(f.config)
			sleep(600)
			f.expectCallsAt(want...)
		})
	}
	bubble(t, func(_ *testing.T, f *fixture) {
		f.sender.Close()
		f.runJob(engine.NewJob{}, engine.Done([]byte(`1`)))
		sleep(100)
		f.sender = webhook.Start(f.config)
		f.expectCallsAt(100)
	})
}

func TestRetryCancelsTheCall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.answer = func(call) (*http.Response, error) { return respond(500), nil }
		job := f.runJob(engine.NewJob{}, engine.Fail("x", nil))
		sleep(5)
		must.Do(f.engine.Retry(t.Context(), "ep", job.ID))(t)
		sleep(100)
		f.expectCallsAt(0)
		jobs := must.Do(f.engine.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w1", Max: 1}))(t)
		must.Do(f.engine.Report(t.Context(), jobs[0].Ref, engine.Done(nil)))(t)
		sleep(100)
		f.expectCallsAt(0, 105, 115, 125)
	})
}

// A hanging receiver delays neither other receivers nor the engine, and gets at most 4 calls at a time.
func TestSlowReceiver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		maxOpen := 0
		f.answer = func(c call) (*http.Response, error) {
			if c.host != "slow.example" {
				return respond(200), nil
			}
			f.mu.Lock()
			maxOpen = max(maxOpen, f.open)
			f.mu.Unlock()
			return hang(c)
		}
		for range 30 {
			f.runJob(engine.NewJob{Webhook: "http://slow.example/"}, engine.Done(nil))
		}
		f.runJob(engine.NewJob{Webhook: "http://quick.example/"}, engine.Done(nil))
		calls := f.allCalls()
		n := slices.IndexFunc(calls, func(c call) bool { return c.host == "quick.example" })
		must.Hold(t, len(calls) == 5 && n >= 0 && calls[n].at == 0, len(calls), "calls began at once, want 5; the call to the quick receiver is number", n)
		sleep(3600)
		n = len(f.allCalls())
		must.Hold(t, n == 30*3+1 && maxOpen == 4, n, "calls were made,", maxOpen, "at a time; want 91, 4 at a time")
	})
}

// Hanging receivers, at any number of names and endpoints, delay the calls of other endpoints
// by at most one timeout, and only once. Each call still has three tries with gaps of 10 s.
func TestHangingReceivers(t *testing.T) {
	for name, endpoints := range map[string]int{"one endpoint": 1, "many endpoints": 20} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.answer = func(c call) (*http.Response, error) {
					if strings.HasPrefix(c.host, "good") {
						return respond(200), nil
					}
					return hang(c)
				}
				for i := range 200 {
					f.runJob(engine.NewJob{Endpoint: fmt.Sprint("hangs", i%endpoints), Webhook: fmt.Sprintf("http://hangs%d.example/", i)}, engine.Done(nil))
				}
				for round := range 10 {
					start := time.Since(f.start).Seconds()
					host := fmt.Sprintf("good%d.example", round)
					f.runJob(engine.NewJob{Endpoint: "good", Webhook: "http://" + host + "/"}, engine.Done(nil))
					sleep(11)
					delay := -1.0
					for _, c := range f.allCalls() {
						if c.host == host {
							delay = c.at - start
						}
					}
					maxDelay := map[bool]float64{true: 10, false: 0}[round == 0 && endpoints > 1]
					must.Hold(t, delay >= 0 && delay <= maxDelay, "in round", round, "the call came after", delay, "s, want at most", maxDelay)
				}
				sleep(10_000)
				calls := map[string][]float64{}
				for _, c := range f.allCalls() {
					calls[c.host] = append(calls[c.host], c.at)
				}
				for i := range 200 {
					times := calls[fmt.Sprintf("hangs%d.example", i)]
					// a timeout of 10 s and a gap of 10 s
					must.Require(t, len(times) == 3 && times[1]-times[0] >= 20 && times[2]-times[1] >= 20, "receiver", i, "was called at", times)
				}
			})
		})
	}
}

// Each of these calls takes half of the memory, so two of them are in flight at a time.
func TestCallsShareMemory(t *testing.T) {
	bubble(t, func(_ *testing.T, f *fixture) {
		f.answer = hang
		input := fmt.Appendf(nil, `{"a":"%s"}`, strings.Repeat("x", 10<<20-8))
		for i := range 5 {
			f.runJob(engine.NewJob{Endpoint: fmt.Sprint(i), Input: input, Webhook: fmt.Sprintf("http://host%d.example/", i)}, engine.Done(nil))
		}
		sleep(19)
		f.expectCallsAt(0, 0, 10, 10)
	})
}

func TestForbiddenTarget(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.runJob(engine.NewJob{Webhook: "http://192.168.0.1/x?planted-token"}, engine.Done(nil))
		f.runJob(engine.NewJob{Webhook: "file:///etc/passwd"}, engine.Done(nil))
		sleep(100)
		f.expectCallsAt()
		log := f.log.String()
		must.Hold(t, strings.Count(log, "could not be delivered") == 1 && !strings.Contains(log, "planted"), "the log says", log)
		job := f.runJob(engine.NewJob{Webhook: target}, engine.Done(nil))
		f.expectCallsAt(100)
		must.Succeed(t, f.engine.DropEndpoint(t.Context(), job.Endpoint))
	})
}

func TestExpiredJobsAreDeletedAfterTheirCalls(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.answer = func(call) (*http.Response, error) { return respond(500), nil }
		for range 5 {
			f.runJob(engine.NewJob{TTL: 10 * time.Second}, engine.Done(nil))
		}
		sleep(100)
		synctest.Wait()
		next := must.Do(f.engine.Sweep(context.Background()))(t)
		must.Equal(t, next, math.MaxInt64, "when the next job expires")
	})
}
