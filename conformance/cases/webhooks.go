package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// webhookCases judge the section "Events".
var webhookCases = section(suite.Case{Level: suite.Must, Source: "Events, 1", Needs: suite.AnyEndpoint | suite.Webhooks, Allow: suite.Queue}, []suite.Case{
	{ID: "WEB-01", Statement: "The webhook of a /run is called when the job ends.", Jobs: 5, WaitTime: 5 * time.Second, Seconds: 5, Run: func(c *suite.C) {
		for _, suffix := range []string{"", "?job=1&word=two%20words", "/below/it", "/below?a=b&a=c&e=%C3%A9%26", "/?x"} {
			box := c.Box()
			c.Run(suite.Echo(), suite.M{"webhook": box.URL + suffix}).AwaitCompleted()
			called := firstCallAfter(c, box, 0).URI
			c.Expect(strings.HasSuffix(called, suffix), "a call of the address with "+suffix, "a call of %s", called)
		}
	}},
	// The webhook is called after the job's end, and (next case) again after the end of a retry.
	{ID: "WEB-01-not-before", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 45 * time.Second, Seconds: 32, Run: func(c *suite.C) {
		box := c.Box()
		blocker := c.Blocker(12 * time.Second)
		j := c.Run(suite.Sleep(20*time.Second), suite.M{"webhook": box.URL})
		c.Until(blocker.StartedBefore.Add(12*time.Second + c.Grace()))
		j.Await(suite.InProgress, suite.Completed)
		expectCallBetween(c, box, blocker.StartedAfter.Add(32*time.Second), blocker.StartedBefore.Add(32*time.Second))
		j.AwaitCompleted()
	}},
	{ID: "WEB-01-retried", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 2 * time.Minute, Seconds: 2, Run: func(c *suite.C) {
		box := c.Box()
		j := c.Run(suite.Fail(suite.M{"times": 1}), suite.M{"webhook": box.URL}).Reach(suite.Failed)
		c.Sleep(40 * time.Second) // the description leaves open which ends call the webhook
		earlierCalls := countCalls(c, box)
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.AwaitCompleted()
		firstCallAfter(c, box, earlierCalls)
		c.Sleep(40 * time.Second)
		expectCalls(c, box, earlierCalls+1)
	}},
	{ID: "WEB-02", Statement: "The webhook of a /runsync is called, too.", Jobs: 1, WaitTime: 5 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box()
		c.RunSync(suite.Echo(), suite.M{"webhook": box.URL})
		firstCallAfter(c, box, 0)
	}},
	// The webhook is called, although the client sends no further request.
	{ID: "WEB-02-elapsed", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 60 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		box, begin := c.Box(), c.Now()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(10*time.Second), suite.M{"webhook": box.URL}))
		c.Sleep(time.Second + c.Grace())
		p.Answer()
		expectCallBetween(c, box, begin.Add(10*time.Second), begin.Add(10*time.Second))
		c.Sleep(25 * time.Second)
		expectCalls(c, box, 1)
	}},
	{ID: "WEB-03", Statement: "A job without a webhook causes no call.",
		Needs: suite.OwnEndpoint | suite.Webhooks, Jobs: 2, WaitTime: 40 * time.Second, Seconds: 1, Run: func(c *suite.C) {
			box := newCalledBox(c)
			c.Run(suite.Echo()).AwaitCompleted()
			c.Sleep(35 * time.Second)
			expectCalls(c, box, 1)
		}},
	{ID: "WEB-04", Statement: "A response of 200 ends the calls.", Jobs: 1, WaitTime: 50 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := newCalledBox(c)
		for range 4 {
			c.Sleep(11 * time.Second)
		}
		expectCalls(c, box, 1)
	}},
	{ID: "WEB-05", Statement: "A webhook that fails is called up to twice more.", Jobs: 9, Requests: 45, WaitTime: 2 * time.Minute, Seconds: 9, Run: func(c *suite.C) {
		boxes := map[int]*env.Box{}
		for _, code := range []int{400, 401, 404, 409, 410, 429, 500, 502, 503} {
			boxes[code] = c.Box(code)
			c.Run(suite.Echo(), suite.M{"webhook": boxes[code].URL}).AwaitCompleted()
		}
		awaitCalls(c, 4)
		for code, box := range boxes {
			n := len(box.Calls())
			c.Expect(n >= 2 && n <= 3, "2 or 3 calls of a webhook that fails", "%d calls of a webhook that answers %d", n, code)
			c.Should(func() { c.Expect(n == 3, "3 calls", "%d calls of a webhook that answers %d", n, code) })
		}
	}},
	{ID: "WEB-05-retried", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 1, WaitTime: 3 * time.Minute, Seconds: 2, Run: func(c *suite.C) {
		box := c.Box(500)
		j := c.Run(suite.Fail(suite.M{"times": 1}), suite.M{"webhook": box.URL}).Reach(suite.Failed)
		awaitCalls(c, 4)
		earlierCalls := len(box.Calls())
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.AwaitCompleted()
		c.Given("WEB-01", func() { firstCallAfter(c, box, earlierCalls) })
		awaitRetries(c, box, earlierCalls)
		n := len(box.Calls()) - earlierCalls
		c.Expect(n <= 3, "3 calls at most", "%d calls", n)
		c.Should(func() { c.Expect(n == 3, "3 calls", "%d calls", n) })
	}},
	// The end of the job's ttl causes no further calls.
	{ID: "WEB-05-short-ttl", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: time.Minute, Seconds: 2, Run: func(c *suite.C) {
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		box := c.Box(500)
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}, suite.TTL(15*time.Second)).AwaitCompleted()
		c.Given("WEB-01", func() { firstCallAfter(c, box, 0) })
		awaitRetries(c, box, 0)
		n := len(box.Calls())
		c.Expect(n <= 3, "3 calls at most", "%d calls", n)
	}},
	{ID: "WEB-06", Statement: "The calls are 10 seconds apart.", Jobs: 1, WaitTime: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		box := newCalledBox(c, 500)
		for n := 2; n <= 3; n++ {
			previous := box.Calls()[n-2].At
			earliest := previous.Add(hookGap - c.EarlyMargin(time.Second))
			c.Until(earliest)
			awaitCallsInFlight(c)
			calls := box.Calls()
			early := len(calls) >= n && (c.ControlsClock() || calls[n-1].At.Before(earliest)) // the case may be woken late
			c.Expect(!early, "no call before 10 s have passed", "call %d before that", n)
			c.Until(previous.Add(hookGap + c.LateMargin(6*time.Second)))
			nthCall(c, box, n)
		}
	}},
	{ID: "WEB-07", Statement: "A webhook that fails once and then answers 200 is called twice.", Jobs: 1, WaitTime: 45 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := newCalledBox(c, 500, 200)
		c.Sleep(hookGap + c.Grace() + time.Second)
		nthCall(c, box, 2)
		c.Sleep(25 * time.Second)
		expectCalls(c, box, 2)
	}},
	{ID: "WEB-08", Level: suite.Should, Statement: "A webhook that closes the connection without a response counts as failed.",
		Jobs: 1, WaitTime: 20 * time.Second, Seconds: 1, Run: func(c *suite.C) {
			box := newCalledBox(c, 0, 200) // the first connection is closed
			c.Sleep(hookGap + c.Grace() + time.Second)
			nthCall(c, box, 2)
		}},
	{ID: "WEB-09", Level: suite.Should, Statement: "A failed webhook doesn't change the job.", Jobs: 1, WaitTime: 40 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box, nonce := c.Box(500), c.Nonce()
		j := c.Run(suite.Echo(suite.M{"nonce": nonce}), suite.M{"webhook": box.URL}).Reach(suite.Completed)
		c.Given("WEB-01", func() { firstCallAfter(c, box, 0) })
		c.Sleep(35 * time.Second)
		j.Status().Is(200).Equal("status", suite.Completed).Equal("output.nonce", nonce)
	}},
	{ID: "WEB-10", Level: suite.Unspec, Source: "Events, 2", Statement: "The method and Content-Type of the call, and whether its body contains the job's id.",
		Jobs: 1, WaitTime: 5 * time.Second, Seconds: 1, Run: func(c *suite.C) {
			box := c.Box()
			j := c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Reach(suite.Completed)
			call := firstCallAfter(c, box, 0)
			c.Observe("%s, %s", call.Method, call.Header.Get("Content-Type"))
			c.Observe("the id of the job in the body: %v", bytes.Contains(call.Body, []byte(j.ID)))
		}},
	// The job has the same times in the webhook call and in its status.
	{ID: "WEB-10-times", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		box := c.Box()
		a, _, _ := runAfterWait(c, suite.Completed, suite.Sleep(runTime), suite.M{"webhook": box.URL})
		call := firstCallAfter(c, box, 0)
		var shown suite.M
		_ = json.Unmarshal(call.Body, &shown) // another body has no fields
		for _, name := range []string{"delayTime", "executionTime"} {
			value, ok := shown[name]
			c.Observe("%s: %v", name, ok)
			if ok {
				c.Should(func() { a.Equal(name, value) })
			}
		}
	}},
	{ID: "WEB-11", Level: suite.Unspec, Source: "Events, 2", Statement: "Which final states call the webhook.",
		Needs: suite.OwnEndpoint | suite.Webhooks, Requests: 40, Jobs: 3, WaitTime: 30 * time.Second, Seconds: 10, Run: func(c *suite.C) {
			failed, cancelled, timedOut := c.Box(), c.Box(), c.Box()
			c.Run(suite.Fail(), suite.M{"webhook": failed.URL}).AwaitFailed()
			j := c.Run(suite.Sleep(time.Minute), suite.M{"webhook": cancelled.URL}).Reach(suite.InProgress)
			j.Cancel()
			c.Run(suite.Sleep(time.Minute), suite.M{"webhook": timedOut.URL}, suite.ExecutionTimeout(5*time.Second)).AwaitRunning()
			c.Sleep(10 * time.Second)
			awaitCallsInFlight(c)
			c.Observe("FAILED: %d, CANCELLED: %d, TIMED_OUT: %d", len(failed.Calls()), len(cancelled.Calls()), len(timedOut.Calls()))
		}},
	// Observes whether the webhook is called for a job that never ran, or whose time to live ends while it runs.
	{ID: "WEB-11-without-run", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 5, WaitTime: time.Minute, Seconds: 30, Run: func(c *suite.C) {
		blocker := c.Blocker(time.Hour)
		expired, cancelled, purged, expiredRunning := c.Box(), c.Box(), c.Box(), c.Box()
		c.Run(suite.Echo(), suite.M{"webhook": expired.URL}, suite.TTL(10*time.Second))
		c.Run(suite.Echo(), suite.M{"webhook": cancelled.URL}).Cancel()
		c.Sleep(10*time.Second + c.Grace())
		c.Run(suite.Echo(), suite.M{"webhook": purged.URL})
		c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
		blocker.Cancel()
		c.Run(suite.Sleep(time.Minute), suite.M{"webhook": expiredRunning.URL}, suite.TTL(10*time.Second)).AwaitRunning()
		c.Sleep(20 * time.Second)
		awaitCallsInFlight(c)
		c.Observe("ttl passed in the queue: %d, while running: %d, cancelled in the queue: %d, purged: %d", len(expired.Calls()), len(expiredRunning.Calls()), len(cancelled.Calls()), len(purged.Calls()))
	}},
	{ID: "WEB-12", Level: suite.Unspec, Statement: "Whether another 2xx or a redirect ends the calls.", Jobs: 2, WaitTime: 40 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		noContent, redirect := c.Box(204), c.Box(302)
		for _, box := range []*env.Box{noContent, redirect} {
			c.Run(suite.Echo(), suite.M{"webhook": box.URL}).AwaitCompleted()
		}
		awaitCalls(c, 3)
		c.Observe("204: %d calls; 302: %d calls", len(noContent.Calls()), len(redirect.Calls()))
	}},
	{ID: "WEB-13", Level: suite.Should, Statement: "The receiver gets no API key and no secret of s3Config.", Jobs: 1, WaitTime: 5 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box, s3 := c.Box(), s3Config(c)
		c.Run(suite.Echo(), suite.M{"webhook": box.URL, "s3Config": s3}).AwaitCompleted()
		call := firstCallAfter(c, box, 0)
		sent := fmt.Sprint(call.Header) + string(call.Body)
		for _, secret := range []string{c.Target.Key, fmt.Sprint(s3["accessSecret"])} {
			c.Expect(!strings.Contains(sent, secret), "a call without secrets", "a call with a secret")
		}
	}},
})

const hookGap = 10 * time.Second // between two calls of a webhook (Events, 1)

// callPatience is how long, in real time, a case waits for an immediate webhook call.
const callPatience = 300 * time.Millisecond

// newCalledBox runs a job with a webhook, and returns the receiver once it has been called. The receiver
// answers with the status codes in turn and then with the last one, or without codes always with 200.
func newCalledBox(c *suite.C, answers ...int) *env.Box {
	box := c.Box(answers...)
	c.Run(suite.Echo(), suite.M{"webhook": box.URL}).AwaitCompleted()
	c.Given("WEB-01", func() { firstCallAfter(c, box, 0) })
	return box
}

// countCalls counts the calls of a receiver, with those in flight.
func countCalls(c *suite.C, box *env.Box) int {
	awaitCallsInFlight(c)
	return len(box.Calls())
}

func expectCalls(c *suite.C, box *env.Box, n int) {
	got := countCalls(c, box)
	c.Expect(got == n, fmt.Sprintf("calls of the webhook: %d", n), "calls of the webhook: %d", got)
}

// nthCall expects n calls of a receiver, and returns the last of them.
func nthCall(c *suite.C, box *env.Box, n int) env.Call {
	calls := c.Calls(box, n)
	c.Expect(len(calls) >= n, fmt.Sprintf("%d calls of the webhook", n), "%d calls", len(calls))
	return calls[n-1]
}

// awaitCalls waits until n more calls of a webhook would be due.
func awaitCalls(c *suite.C, n int) {
	for range n {
		c.Sleep(hookGap + c.Grace())
		awaitCallsInFlight(c)
	}
}

// awaitRetries waits for the second and third call after a number of earlier ones, and until a fourth would be due.
func awaitRetries(c *suite.C, box *env.Box, earlierCalls int) {
	for n := 2; n <= 4; n++ {
		c.Sleep(hookGap + c.Grace()/2)
		if n <= 3 {
			c.Calls(box, earlierCalls+n) // the next call is timed from this one
		}
	}
	awaitCallsInFlight(c)
}

// firstCallAfter expects the first call after a number of earlier ones. The description doesn't say how soon it comes.
func firstCallAfter(c *suite.C, box *env.Box, earlierCalls int) env.Call {
	eventually(c, func() bool { return len(box.Await(earlierCalls+1, callPatience)) > earlierCalls })
	return nthCall(c, box, earlierCalls+1)
}

// awaitCallsInFlight waits some milliseconds for calls that a local target has already sent.
func awaitCallsInFlight(c *suite.C) {
	if c.Target.Local {
		time.Sleep(5 * time.Millisecond)
	}
}

// expectCallBetween expects the webhook of a job that ends between two times. It advances the clock in two steps,
// the first to just before the earliest time: a call during an advance of a stopped clock gets the time at which the
// advance began.
func expectCallBetween(c *suite.C, box *env.Box, earliest, latest time.Time) {
	earliest = earliest.Add(-c.EarlyMargin(time.Second))
	c.Until(earliest)
	c.Until(latest.Add(c.Grace()))
	early := earliest.Sub(firstCallAfter(c, box, 0).At).Round(time.Millisecond)
	c.Expect(early <= 0, "no call before the job ends", "a call %s before that", early+c.EarlyMargin(time.Second))
}
