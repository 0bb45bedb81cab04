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

// lanes is how many of n requests are under way at a time: fewer than any
// operation allows. Those with a low rate allow few at a time.
func lanes(n int) int {
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
		a := c.Job(method, c.E, path, body, Quiet())
		if a.Code == http.StatusTooManyRequests {
			return
		}
		if refill := a.Received.Sub(begin) * time.Duration(limit) / window; n >= int(refill) {
			a.Is(http.StatusTooManyRequests)
		}
	}
}

// Window expects of a limit that a Flood has used up, which began at a time, that
// the window is 10 seconds. How a window moves on, or a bucket is filled again,
// is open: so as many requests as the limit allows are sent a little more often
// than each 10 seconds, until one is refused.
func (c *C) Window(begin time.Time, limit int, method, path string, body any) {
	short, bursts := 9*time.Second, 11 // so many windows of 10 s, however they lie, have fewer
	if c.Exact() {
		short, bursts = 9600*time.Millisecond, 26
	}
	free, emptied := c.Now(), false // since when none was accepted
	for n := 1; ; n++ {
		c.Until(begin.Add(time.Duration(n) * short))
		accepted := 0
		for ; accepted < limit; accepted++ {
			a := c.Job(method, c.E, path, body, Quiet())
			if a.Code == http.StatusTooManyRequests {
				break
			}
			free = a.Received
		}
		if late := c.Now().Sub(begin.Add(time.Duration(n) * 10 * time.Second)); accepted == limit && late > 0 && n == 1 {
			c.Inconclusive("%d requests took %s too long to tell", limit, late)
		}
		if accepted < limit {
			emptied = accepted > 0 // of a bucket
			break
		}
		if n == bursts {
			c.Fail(fmt.Sprintf("%d requests in each %s, %d times, and no 429", limit, short, n+1), fmt.Sprintf("429 to those above %d in 10 s", limit))
		}
	}
	c.Until(free.Add(window + c.Grace()/4))
	if late := c.Now().Sub(free) - window; late > c.Grace() {
		c.Inconclusive("the end of the window was looked at %s too late to tell", late.Round(time.Millisecond))
	}
	again := 1
	switch {
	case limit > 100: // it takes as many requests again
	case emptied:
		again = limit
	default: // where refusals count, too, fewer are accepted now
		c.accepts(1, method, path, body)
		c.Sleep(window + c.Grace()/4)
		again = limit
	}
	c.accepts(again, method, path, body)
}

// accepts expects that so many requests are not answered 429, when 10 s are over.
func (c *C) accepts(n int, method, path string, body any) {
	for i := range n {
		if a := c.Job(method, c.E, path, body, Quiet()); a.Code == http.StatusTooManyRequests {
			a.fail(fmt.Sprintf("no 429 to %d of %d, 10 s after those before", i+1, n))
		}
	}
}

// Burst sends so many requests within a window, none of which may be answered
// 429.
func (c *C) Burst(n int, method, path string, body any) {
	begin := c.Now()
	r := c.request(method, c.QueueURL()+"/v2/"+c.E+path, body, []Option{Quiet()})
	var left atomic.Int64
	left.Store(int64(n))
	var odd atomic.Pointer[wire.Exchange]
	var group sync.WaitGroup
	for range lanes(n) {
		group.Go(func() {
			for left.Add(-1) >= 0 && c.ctx.Err() == nil {
				x := c.exchange(c.ctx, c.place(), r)
				if x.Status == 0 || x.Status == http.StatusTooManyRequests {
					odd.Store(x)
				}
			}
		})
	}
	group.Wait()
	if took := c.Now().Sub(begin); took > window-time.Second {
		c.Inconclusive("%d requests took %s, and the window is %s", n, took, window)
	}
	if x := odd.Load(); x != nil {
		c.came(x, c.told(x), fmt.Sprintf("no 429 to the first %d", n))
	}
}

// Together sends requests to these paths at the same moment, and counts those
// that are not answered 429. met tells that all were on their way for a while
// before the first of these was answered.
func (c *C) Together(method string, paths []string) (accepted int, met bool) {
	var mu sync.Mutex
	var sent, answered time.Time // the last on its way; the first that was accepted
	// Each has its connection before any is sent: to open one takes the sender
	// longer than an answer takes the target.
	var connecting, group sync.WaitGroup
	connecting.Add(len(paths))
	for _, path := range paths {
		r := c.request(method, c.QueueURL()+"/v2/"+c.E+path, nil, []Option{Quiet()})
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
			x := c.exchange(ctx, c.place(), r)
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
	return accepted, answered.Sub(sent) > meeting
}

// meeting is that while: a deployment that is quicker may have had few at a time.
const meeting = 10 * time.Millisecond

// window is that of the rates (Limits).
const window = 10 * time.Second
