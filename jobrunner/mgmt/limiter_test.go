package mgmt

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

func TestRateLimitWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{clock: new(clock.Clock)}
		countRequests := func(n int) (h http.Header) {
			for range n {
				h = http.Header{}
				must.Succeed(t, l.count(h))
			}
			return h
		}
		countRequests(1)
		time.Sleep(20 * time.Second)
		must.Equal(t, countRequests(59).Get("RateLimit"), `"minute";r=0;t=40, "hour";r=2940;t=3580, "day";r=49940;t=86380`, "RateLimit after a minute's requests")
		h := http.Header{}
		err := l.count(h)
		must.Hold(t, err != nil && h.Get("Retry-After") == "40", "the 61st request of a minute must be rejected for 40 s, got the error", err, "and the headers", h)
		time.Sleep(40*time.Second - time.Millisecond)
		err = l.count(h)
		must.Hold(t, err != nil && h.Get("Retry-After") == "1", "a request just before the minute is over must be rejected for 1 s, got the error", err, "and the headers", h)
		time.Sleep(time.Millisecond)
		got := countRequests(1).Get("RateLimit")
		must.Hold(t, strings.HasPrefix(got, `"minute";r=59;t=60, "hour";r=2939;t=3540`), "after the minute", got)
		countRequests(59)
		for range 48 {
			time.Sleep(time.Minute)
			countRequests(60)
		}
		time.Sleep(time.Minute)
		err = l.count(h)
		must.Hold(t, err != nil && strings.Contains(err.Error(), "hour window") && h.Get("Retry-After") == "600", "after an hour's requests", err, h)
		time.Sleep(600 * time.Second)
		countRequests(60)
		for i := range windows { // as stored by a node whose clock was a year ahead
			l.windowStart[i] = l.windowStart[i].AddDate(1, 0, 0)
		}
		countRequests(60)
	})
}

// Two nodes of a deployment together admit as many requests of each owner as one would.
func TestSharedQuotas(t *testing.T) {
	address := pgtest.Start(t)
	c := new(clock.Clock)
	c.Stop()
	var servers []*server
	for range 2 {
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: address, NoNotify: true}))(t)
		defer db.Close()
		servers = append(servers, must.Do(New(t.Context(), Config{DB: db, Clock: c, Limits: true}))(t).(*server))
	}
	quota := windows[0].quota
	var admitted, rejected atomic.Int64
	var senders sync.WaitGroup
	for i := range 2 * quota {
		senders.Go(func() {
			h := http.Header{}
			switch err := servers[i%2].countAgainstQuotas(context.Background(), "ada", h); {
			case err == nil:
				admitted.Add(1)
			case strings.Contains(err.Error(), "minute window") && h.Get("Retry-After") == "60":
				rejected.Add(1)
			default:
				t.Error("got the error", err, "and the headers", h)
			}
		})
	}
	senders.Wait()
	must.Hold(t, int(admitted.Load()) == quota && int(rejected.Load()) == quota,
		admitted.Load(), "were admitted and", rejected.Load(), "rejected, want", quota, "each")
	h := http.Header{}
	err := servers[0].countAgainstQuotas(context.Background(), "bob", h)
	must.Hold(t, err == nil && strings.HasPrefix(h.Get("RateLimit"), `"minute";r=59;t=60`), "another owner", err, h)
	c.Advance(windows[0].length)
	err = servers[1].countAgainstQuotas(context.Background(), "ada", h)
	must.Hold(t, err == nil && strings.HasPrefix(h.Get("RateLimit"), `"minute";r=59;t=60, "hour";r=2939;t=3540`), "after the minute", err, h)
}
