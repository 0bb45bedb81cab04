package cases

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

const hookGap = 10 * time.Second // between the calls of one webhook (Events, 1)

var hooks = []suite.Case{
	{ID: "WEB-01", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 5 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box()
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		called(c, box, 1)
	}},
	{ID: "WEB-02", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 5 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box()
		c.RunSync(suite.Echo(), suite.M{"webhook": box.URL})
		called(c, box, 1)
	}},
	{ID: "WEB-03", Needs: suite.Own | suite.Hooks, Allow: suite.Queue, Jobs: 2, Takes: 40 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box()
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		c.Given("WEB-01", func() { called(c, box, 1) })
		c.Run(suite.Echo()).Completed()
		c.Sleep(35 * time.Second)
		c.Expect(len(box.Calls()) == 1, "no call for a job that has no webhook", "%d calls", len(box.Calls()))
	}},
	{ID: "WEB-04", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 50 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box()
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		c.Given("WEB-01", func() { called(c, box, 1) })
		for range 4 {
			c.Sleep(11 * time.Second)
		}
		settled(c)
		c.Expect(len(box.Calls()) == 1, "one call", "%d calls", len(box.Calls()))
	}},
	{ID: "WEB-05", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box(500)
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		c.Given("WEB-01", func() { called(c, box, 1) })
		for n := 2; n <= 4; n++ {
			c.Sleep(hookGap + c.Grace()/2)
			if n <= 3 {
				c.Calls(box, n) // the next is reckoned from this one
			}
		}
		settled(c)
		n := len(box.Calls())
		c.Expect(n <= 3, "3 calls at most", "%d calls", n)
		c.Should(func() { c.Expect(n == 3, "3 calls", "%d calls", n) })
	}},
	{ID: "WEB-06", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box(500)
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		first := called(c, box, 1)
		for n := 2; n <= 3; n++ {
			before := box.Calls()[n-2].At
			c.Until(before.Add(hookGap - c.Early(time.Second)))
			settled(c)
			c.Expect(len(box.Calls()) == n-1, "no call before 10 s are over", "call %d before that", n)
			c.Until(before.Add(hookGap + c.Late(6*time.Second)))
			called(c, box, n)
		}
		_ = first
	}},
	{ID: "WEB-07", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 45 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box(500, 200)
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		c.Given("WEB-01", func() { called(c, box, 1) })
		c.Sleep(hookGap + c.Grace() + time.Second)
		called(c, box, 2)
		c.Sleep(25 * time.Second)
		settled(c)
		c.Expect(len(box.Calls()) == 2, "2 calls", "%d calls", len(box.Calls()))
	}},
	{ID: "WEB-08", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 20 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box(0, 200) // the first call is broken off
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		called(c, box, 1)
		c.Sleep(hookGap + c.Grace() + time.Second)
		called(c, box, 2)
	}},
	{ID: "WEB-09", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 40 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box, nonce := c.Box(500), c.Nonce()
		j := c.Run(suite.Echo(suite.M{"nonce": nonce}), suite.M{"webhook": box.URL})
		j.Completed()
		c.Given("WEB-01", func() { called(c, box, 1) })
		c.Sleep(35 * time.Second)
		j.Status().Is(200).Equal("status", suite.Completed).Equal("output.nonce", nonce)
	}},
	{ID: "WEB-10", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 5 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box()
		j := c.Run(suite.Echo(), suite.M{"webhook": box.URL})
		j.Completed()
		call := called(c, box, 1)
		c.Observe("%s, %s", call.Method, call.Header.Get("Content-Type"))
		c.Observe("the id of the job in the body: %v", bytes.Contains(call.Body, []byte(j.ID)))
	}},
	{ID: "WEB-11", Needs: suite.Own | suite.Hooks, Allow: suite.Queue, Jobs: 3, Takes: 30 * time.Second, Seconds: 10, Run: func(c *suite.C) {
		failed, stopped, late := c.Box(), c.Box(), c.Box()
		c.Run(suite.Fail(), suite.M{"webhook": failed.URL}).Failed()
		j := c.Run(suite.Sleep(time.Minute), suite.M{"webhook": stopped.URL})
		j.Running()
		j.Cancel()
		c.Run(suite.Sleep(time.Minute), suite.M{"webhook": late.URL}, suite.ExecutionTimeout(5*time.Second)).Running()
		c.Sleep(10 * time.Second)
		settled(c)
		c.Observe("FAILED: %d, CANCELLED: %d, TIMED_OUT: %d", len(failed.Calls()), len(stopped.Calls()), len(late.Calls()))
	}},
	{ID: "WEB-12", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 2, Takes: 40 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		empty, moved := c.Box(204), c.Box(302)
		for _, box := range []*env.Box{empty, moved} {
			c.Run(suite.Echo(), suite.M{"webhook": box.URL}).Completed()
		}
		for range 3 {
			c.Sleep(hookGap + c.Grace())
			settled(c)
		}
		c.Observe("204: %d calls; 302: %d calls", len(empty.Calls()), len(moved.Calls()))
	}},
	{ID: "WEB-13", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 5 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box, s3 := c.Box(), s3Config(c)
		c.Run(suite.Echo(), suite.M{"webhook": box.URL, "s3Config": s3}).Completed()
		call := called(c, box, 1)
		sent := fmt.Sprint(call.Header) + string(call.Body)
		for _, secret := range []string{c.Key(), fmt.Sprint(s3["accessSecret"])} {
			c.Expect(!bytes.Contains([]byte(sent), []byte(secret)), "a call without secrets", "a call with a secret")
		}
	}},
}

// soon is how long, on the wall, a call takes that is made at once.
const soon = 300 * time.Millisecond

// called expects that a box was called so often, and returns the last of these
// calls.
func called(c *suite.C, box *env.Box, n int) env.Call {
	if n == 1 {
		return calledFirst(c, box, 0)
	}
	return nthCall(c, box, n)
}

func nthCall(c *suite.C, box *env.Box, n int) env.Call {
	calls := c.Calls(box, n)
	c.Expect(len(calls) >= n, fmt.Sprintf("%d calls of the webhook", n), "%d calls", len(calls))
	return calls[n-1]
}

// calledFirst is called for the first call of an end, when a box has had some
// before: how soon after the end it comes, nothing says.
func calledFirst(c *suite.C, box *env.Box, before int) env.Call {
	for late := time.Duration(0); late < c.Grace() && len(box.Await(before+1, soon)) <= before; late += time.Second {
		c.Sleep(time.Second)
	}
	return nthCall(c, box, before+1)
}

// settled gives calls that are under way the moment that they need on the wall.
func settled(c *suite.C) {
	if c.Local() {
		time.Sleep(5 * time.Millisecond)
	}
}
