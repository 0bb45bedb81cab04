package suite

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Flood sends limit requests and expects no 429. Then it expects a 429, after at most as many
// further requests as a token bucket has refilled meanwhile. The path is relative to the endpoint,
// as in Post and Get.
func (c *C) Flood(limit int, method, path string, body any) {
	begin := c.Now()
	c.Given("RAT-09", func() { c.Burst(limit, method, path, body) })
	// More and more requests are sent at a time, since a bucket may refill faster than single requests empty it.
	for sent, n := 0, 1; ; n = min(2*n, maxSimultaneous(limit)) {
		list := c.sendAll(n, n, method, path, body)
		if slices.ContainsFunc(list, func(x *wire.Exchange) bool { return x.Status == http.StatusTooManyRequests }) {
			return
		}
		sent += n
		last := list[n-1]
		if refill := c.Now().Sub(begin) * time.Duration(limit) / rateWindow; sent > int(refill) {
			c.answer(last).Is(http.StatusTooManyRequests)
		}
	}
}

// JudgeWindow expects that the window of a limit is 10 seconds. begin is when a Flood used
// up the limit. The description doesn't say whether a window is fixed or slides, or whether
// a bucket refills. So JudgeWindow sends limit requests at intervals of slightly less than 10
// seconds until one is refused. Then it waits for a window and expects no 429.
func (c *C) JudgeWindow(begin time.Time, limit int, method, path string, body any) {
	interval, bursts := 9*time.Second, 11 // with the Flood, 12 bursts in 99 s, which touch at most 11 windows of 10 s
	if c.ControlsClock() {
		interval, bursts = 9600*time.Millisecond, 26
	}
	lastAcceptedAt, acceptedSome := c.Now(), false // acceptedSome: the burst with the refusal had accepted requests
	for n := 1; ; n++ {
		c.Until(begin.Add(time.Duration(n) * interval))
		accepted := 0
		for ; accepted < limit; accepted++ {
			a := c.Job(method, c.Endpoint, path, body, Quiet())
			if a.Code == http.StatusTooManyRequests {
				break
			}
			lastAcceptedAt = a.Received
		}
		if late := c.Now().Sub(begin.Add(time.Duration(n) * 10 * time.Second)); accepted == limit && late > 0 && n == 1 {
			c.Inconclusive("%d requests took %s too long to judge the limit", limit, late)
		}
		if accepted < limit {
			acceptedSome = accepted > 0
			break
		}
		if n == bursts {
			c.Fail(fmt.Sprintf("%d requests in each %s, %d times, and no 429", limit, interval, n+1), fmt.Sprintf("429 above %d requests in 10 s", limit))
		}
	}
	c.Until(lastAcceptedAt.Add(rateWindow + c.Grace()/4))
	if late := c.Now().Sub(lastAcceptedAt) - rateWindow; late > c.Grace() {
		c.Inconclusive("the end of the window was checked %s too late to judge it", late.Round(time.Millisecond))
	}
	expected := 1
	if limit <= 100 { // more requests would take too long
		expected = limit
		if !acceptedSome { // the refusal came after lastAcceptedAt and may count against the limit
			c.expectAccepted(1, method, path, body)
			c.Sleep(rateWindow + c.Grace()/4)
		}
	}
	c.expectAccepted(expected, method, path, body)
}

// expectAccepted sends n requests and expects no 429. The window must have passed since the previous ones.
func (c *C) expectAccepted(n int, method, path string, body any) {
	for i := range n {
		if a := c.Job(method, c.Endpoint, path, body, Quiet()); a.Code == http.StatusTooManyRequests {
			a.fail(fmt.Sprintf("no 429 to %d of %d, 10 s after the previous requests", i+1, n))
		}
	}
}

// Burst sends n requests within a window and expects no 429.
func (c *C) Burst(n int, method, path string, body any) {
	begin := c.Now()
	list := c.sendAll(n, maxSimultaneous(n), method, path, body)
	if took := c.Now().Sub(begin); took > rateWindow-time.Second {
		c.Inconclusive("%d requests took %s, and the window is %s", n, took, rateWindow)
	}
	for _, x := range list {
		if x.Status == 0 || x.Status >= http.StatusBadGateway || x.Status == http.StatusTooManyRequests {
			c.answer(x)
			c.failWith(x, c.describeAnswer(x), fmt.Sprintf("no 429 to the first %d", n))
		}
	}
}

// maxSimultaneous returns how many requests to send at a time: fewer than any operation allows.
func maxSimultaneous(limit int) int { return min(1+limit/20, 48) }

// sendAll sends a request n times, width of them at a time.
func (c *C) sendAll(n, width int, method, path string, body any) []*wire.Exchange {
	r := c.request(method, c.jobURL(c.Endpoint, path), body, []Option{Quiet()})
	list := make([]*wire.Exchange, n)
	var next atomic.Int64
	var group sync.WaitGroup
	for range width {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n) && c.ctx.Err() == nil; i = next.Add(1) {
				list[i-1] = c.exchange(c.ctx, c.nextExchange(), r)
			}
		})
	}
	group.Wait()
	c.stopIfInterrupted()
	return list
}

// SendSimultaneously sends requests to the paths at the same moment, and counts the answers
// other than 429. overlapped reports whether the deployment held all of them at once: after the
// last was sent, it answered several quick requests, and minimumOverlap passed, before it answered
// the first accepted request. Time alone proves nothing, because a busy suite may read late.
func (c *C) SendSimultaneously(method string, paths []string) (accepted int, overlapped bool) {
	var mu sync.Mutex
	var lost *wire.Exchange
	var firstAnswered time.Time // when the first answer other than 429 began
	// All connections are opened first, because opening one may take longer than an answer.
	var connecting, sending, group sync.WaitGroup
	connecting.Add(len(paths))
	sending.Add(len(paths))
	for _, path := range paths {
		r := c.request(method, c.jobURL(c.Endpoint, path), nil, []Option{Quiet()})
		group.Go(func() {
			connected, sent := sync.OnceFunc(connecting.Done), sync.OnceFunc(sending.Done)
			defer sent() // in case the connection fails
			defer connected()
			var first time.Time
			ctx := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) {
					connected()
					connecting.Wait()
				},
				WroteRequest:         func(httptrace.WroteRequestInfo) { sent() },
				GotFirstResponseByte: func() { first = time.Now() },
			})
			x := c.exchange(ctx, c.nextExchange(), r)
			mu.Lock()
			defer mu.Unlock()
			if x.Status == 0 || x.Status >= http.StatusBadGateway {
				lost = x
			}
			if x.Status == http.StatusTooManyRequests {
				return
			}
			accepted++
			if firstAnswered.IsZero() || first.Before(firstAnswered) {
				firstAnswered = first
			}
		})
	}
	sending.Wait()
	begin := time.Now()
	quick := c.request("GET", c.jobURL(c.Endpoint, "/health"), nil, []Option{Quiet()})
	for range 5 {
		c.exchange(c.ctx, c.nextExchange(), quick)
	}
	overlap := max(time.Since(begin), minimumOverlap)
	group.Wait()
	if lost != nil {
		c.answer(lost)
	}
	return accepted, firstAnswered.Sub(begin) > overlap
}

// minimumOverlap is the least time for which all requests must be in flight together.
const minimumOverlap = 10 * time.Millisecond

// rateWindow is the window of the rate limits (section Limits of the description).
const rateWindow = 10 * time.Second
