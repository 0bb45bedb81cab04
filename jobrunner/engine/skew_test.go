package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// The clocks of processes that share a database differ by some milliseconds. A purge by a
// process whose clock is behind also removes jobs that another process submitted or retried
// before the purge.
func TestPurgeBetweenClocks(t *testing.T) {
	address := pgtest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		const skew = 50 * time.Millisecond
		start := func(wall func() time.Time) *node {
			return &node{newTester(t, sqldb.Config{URL: address, NoHints: true}, func(c *engine.Config) { c.Clock = clock.New(wall) })}
		}
		behind := start(time.Now)
		ahead := start(func() time.Time { return time.Now().Add(skew) })
		for _, c := range []struct {
			name            string
			queued, purging *node
		}{{"purged by the one behind", ahead, behind}, {"purged by the one ahead", behind, ahead}} {
			failed := c.queued.submit(engine.NewJob{})
			job := c.queued.take()
			if d, err := c.queued.Report(t.Context(), job.Ref, engine.Fail("failed", nil)); err != nil || d != engine.Accepted {
				t.Fatal(d, err)
			}
			waiting := []string{c.queued.submit(engine.NewJob{}), c.queued.submit(engine.NewJob{}), failed}
			must.Do(c.queued.Retry(t.Context(), "ep", failed))(t)
			must.Equal(t, must.Do(c.purging.Purge(t.Context(), "ep"))(t), len(waiting), c.name, "removed")
			for _, n := range []*node{c.queued, c.purging} {
				for _, id := range waiting {
					if job, err := n.Get(t.Context(), "ep", id); err == nil {
						t.Errorf("%s: job %s is %s", c.name, id, job.State)
					}
				}
			}
		}
	})
}
