package mgmt

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// Two deployments on one database together admit as many requests of each owner as one would.
func TestSharedQuotas(t *testing.T) {
	address := pgtest.Start(t)
	c := new(clock.Clock)
	c.Stop()
	var both []*SharedQuotas
	for range 2 {
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: address, NoHints: true}))(t)
		defer db.Close()
		q := must.Do(NewSharedQuotas(t.Context(), db, c))(t)
		both = append(both, q)
	}
	quota := windows[0].quota
	var admitted, refused atomic.Int64
	var sending sync.WaitGroup
	for i := range 2 * quota {
		sending.Go(func() {
			h := http.Header{}
			switch err := both[i%2].count(context.Background(), "ada", h); {
			case err == nil:
				admitted.Add(1)
			case strings.Contains(err.Error(), "minute window") && h.Get("Retry-After") == "60":
				refused.Add(1)
			default:
				t.Error(err, h)
			}
		})
	}
	sending.Wait()
	if int(admitted.Load()) != quota || int(refused.Load()) != quota {
		t.Errorf("%d were admitted and %d rejected, want %d each", admitted.Load(), refused.Load(), quota)
	}
	h := http.Header{}
	err := both[0].count(context.Background(), "bob", h)
	must.Hold(t, err == nil && strings.HasPrefix(h.Get("RateLimit"), `"minute";r=59;t=60`), "another owner", err, h)
	c.Advance(windows[0].length)
	err = both[1].count(context.Background(), "ada", h)
	must.Hold(t, err == nil && strings.HasPrefix(h.Get("RateLimit"), `"minute";r=59;t=60, "hour";r=2939;t=3540`), "after the minute", err, h)
}
