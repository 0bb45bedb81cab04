package suite

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// lanes is how many requests of a flood are under way at a time: fewer than any
// operation allows.
const lanes = 8

// Flood sends as many requests as the limit allows, none of which may be
// answered 429, and one more, which must be. The requests are those of Post and
// Get.
func (c *C) Flood(limit int, method, path string, body any) {
	begin := c.Now()
	r := c.request(method, c.QueueURL()+"/v2/"+c.E+path, body, []Option{Quiet()})
	var left, refused atomic.Int64
	left.Store(int64(limit))
	var odd atomic.Pointer[wire.Exchange]
	var group sync.WaitGroup
	for range lanes {
		group.Go(func() {
			for left.Add(-1) >= 0 && c.ctx.Err() == nil {
				x := c.exchange(c.ctx, r)
				if x.Status == http.StatusTooManyRequests {
					refused.Add(1)
				}
				if x.Status == 0 || x.Status == http.StatusTooManyRequests {
					odd.Store(x)
				}
			}
		})
	}
	group.Wait()
	if took := c.Now().Sub(begin); took > window-time.Second {
		c.Inconclusive("%d requests took %s, and the window is %s", limit, took, window)
	}
	if x := odd.Load(); x != nil {
		c.Given("RAT-09", func() { c.came(x, told(x), "no 429 before more than the limit was asked for") })
	}
	c.send(r).Is(http.StatusTooManyRequests)
}

// window is that of the rates (Limits).
const window = 10 * time.Second
