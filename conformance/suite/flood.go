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
// answered 429, and one more, which must be. The requests are those of Post and
// Get.
func (c *C) Flood(limit int, method, path string, body any) {
	c.Given("RAT-09", func() { c.Burst(limit, method, path, body) })
	c.Job(method, c.E, path, body, Quiet()).Is(http.StatusTooManyRequests)
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

// Together sends requests to these paths at the same moment, and counts their
// answers by status code.
func (c *C) Together(method string, paths []string) map[int]int {
	var mu sync.Mutex
	codes := map[int]int{}
	// Each has its connection before any is sent: to open one takes the sender
	// longer than an answer takes the target.
	var connecting, group sync.WaitGroup
	connecting.Add(len(paths))
	for _, path := range paths {
		r := c.request(method, c.QueueURL()+"/v2/"+c.E+path, nil, []Option{Quiet()})
		group.Go(func() {
			connected := sync.OnceFunc(connecting.Done)
			defer connected() // also without a connection
			ctx := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				connected()
				connecting.Wait()
			}})
			x := c.exchange(ctx, c.place(), r)
			mu.Lock()
			defer mu.Unlock()
			codes[x.Status]++
		})
	}
	group.Wait()
	return codes
}

// window is that of the rates (Limits).
const window = 10 * time.Second
