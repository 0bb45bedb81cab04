package suite

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// parallelRequests is how many of n requests are in flight at a time: fewer than
// any operation allows. Operations with a low rate allow few.
func parallelRequests(n int) int {
	switch {
	case n < 100:
		return 1
	case n < 1000:
		return 8
	}
	return 48
}

// Flood sends as many requests as the limit allows, none of which may be
// answered 429, and then more, of which the first must be; where time passes
// meanwhile, one of so many as a bucket would have given back by then. The
// requests are those of Post and Get.
func (c *C) Flood(limit int, method, path string, body any) {
	begin := c.Now()
	c.Given("RAT-09", func() { c.Burst(limit, method, path, body) })
	for n := 0; ; n++ {
		a := c.Job(method, c.Endpoint, path, body, Quiet())
		if a.Code == http.StatusTooManyRequests {
			return
		}
		if refill := a.Received.Sub(begin) * time.Duration(limit) / rateWindow; n >= int(refill) {
			a.Is(http.StatusTooManyRequests)
		}
	}
}

// JudgeWindow expects of a limit that a Flood has used up, which began at a time, that
// the window is 10 seconds. How a window moves on, or a bucket is filled again,
// is open: so as many requests as the limit allows are sent a little more often
// than each 10 seconds, until one is refused.
func (c *C) JudgeWindow(begin time.Time, limit int, method, path string, body any) {
	interval, bursts := 9*time.Second, 11 // so many windows of 10 s, however they lie, have fewer
	if c.Exact() {
		interval, bursts = 9600*time.Millisecond, 26
	}
	lastAccepted, bucketEmptied := c.Now(), false // when the last request was accepted
	for n := 1; ; n++ {
		c.Until(begin.Add(time.Duration(n) * interval))
		accepted := 0
		for ; accepted < limit; accepted++ {
			a := c.Job(method, c.Endpoint, path, body, Quiet())
			if a.Code == http.StatusTooManyRequests {
				break
			}
			lastAccepted = a.Received
		}
		if late := c.Now().Sub(begin.Add(time.Duration(n) * 10 * time.Second)); accepted == limit && late > 0 && n == 1 {
			c.Inconclusive("%d requests took %s too long to judge the limit", limit, late)
		}
		if accepted < limit {
			bucketEmptied = accepted > 0 // of a bucket
			break
		}
		if n == bursts {
			c.Fail(fmt.Sprintf("%d requests in each %s, %d times, and no 429", limit, interval, n+1), fmt.Sprintf("429 to those above %d in 10 s", limit))
		}
	}
	c.Until(lastAccepted.Add(rateWindow + c.Grace()/4))
	if late := c.Now().Sub(lastAccepted) - rateWindow; late > c.Grace() {
		c.Inconclusive("the end of the window was checked %s too late to judge it", late.Round(time.Millisecond))
	}
	next := 1
	switch {
	case limit > 100: // it takes as many requests again
	case bucketEmptied:
		next = limit
	default: // where refusals count, too, fewer are accepted now
		c.expectAccepted(1, method, path, body)
		c.Sleep(rateWindow + c.Grace()/4)
		next = limit
	}
	c.expectAccepted(next, method, path, body)
}

// expectAccepted expects that n requests are not answered 429, 10 s after others.
func (c *C) expectAccepted(n int, method, path string, body any) {
	for i := range n {
		if a := c.Job(method, c.Endpoint, path, body, Quiet()); a.Code == http.StatusTooManyRequests {
			a.fail(fmt.Sprintf("no 429 to %d of %d, 10 s after the requests before", i+1, n))
		}
	}
}

// Burst sends so many requests within a window, none of which may be answered
// 429.
func (c *C) Burst(n int, method, path string, body any) {
	begin := c.Now()
	r := c.request(method, c.QueueURL()+"/v2/"+c.Endpoint+path, body, []Option{Quiet()})
	var remaining atomic.Int64
	remaining.Store(int64(n))
	var unexpected atomic.Pointer[wire.Exchange]
	var group sync.WaitGroup
	for range parallelRequests(n) {
		group.Go(func() {
			for remaining.Add(-1) >= 0 && c.ctx.Err() == nil {
				x := c.exchange(c.ctx, c.nextExchange(), r)
				if x.Status == 0 || x.Status == http.StatusTooManyRequests {
					unexpected.Store(x)
				}
			}
		})
	}
	group.Wait()
	if took := c.Now().Sub(begin); took > rateWindow-time.Second {
		c.Inconclusive("%d requests took %s, and the window is %s", n, took, rateWindow)
	}
	if x := unexpected.Load(); x != nil {
		c.failWith(x, c.describeAnswer(x), fmt.Sprintf("no 429 to the first %d", n))
	}
}

// SendSimultaneously sends requests to these paths at the same moment, and counts
// those that are not answered 429. overlapped tells that all had been sent for a
// while before the first of these was answered.
func (c *C) SendSimultaneously(method string, paths []string) (accepted int, overlapped bool) {
	var mu sync.Mutex
	var sent, answered time.Time // the last on its way; the first that was accepted
	// Each has its connection before any is sent: to open one takes the sender
	// longer than an answer takes the target.
	var connecting, group sync.WaitGroup
	connecting.Add(len(paths))
	for _, path := range paths {
		r := c.request(method, c.QueueURL()+"/v2/"+c.Endpoint+path, nil, []Option{Quiet()})
		group.Go(func() {
			connected := sync.OnceFunc(connecting.Done)
			defer connected() // also without a connection
			var wrote, first time.Time
			ctx := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) {
					connected()
					connecting.Wait()
				},
				WroteRequest:         func(httptrace.WroteRequestInfo) { wrote = time.Now() },
				GotFirstResponseByte: func() { first = time.Now() },
			})
			x := c.exchange(ctx, c.nextExchange(), r)
			mu.Lock()
			defer mu.Unlock()
			if wrote.After(sent) {
				sent = wrote
			}
			if x.Status == http.StatusTooManyRequests {
				return
			}
			accepted++
			if answered.IsZero() || first.Before(answered) {
				answered = first
			}
		})
	}
	group.Wait()
	return accepted, answered.Sub(sent) > minimumOverlap
}

// minimumOverlap is that while: a deployment that answers sooner may have had few
// requests in flight at a time.
const minimumOverlap = 10 * time.Millisecond

// rateWindow is the window of the rate limits (Limits).
const rateWindow = 10 * time.Second
