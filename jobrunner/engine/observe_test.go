package engine_test

import (
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Each transition is observed once, with the job's time in the queue or of execution. Chunks
// and heartbeats aren't observed.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []engine.Event
		e := newTester(t, sqldb.Config{}, func(c *engine.Config) { c.Observe = func(ev engine.Event) { got = append(got, ev) } })
		first := e.submit(engine.NewJob{})
		time.Sleep(2 * time.Second)
		e.report(e.take(engine.Take{}).Ref, engine.Lost(), engine.Accepted)
		time.Sleep(time.Second)
		ref := e.take(engine.Take{}).Ref
		e.report(ref, engine.Chunk([]byte(`1`), nil), engine.Accepted)
		time.Sleep(3 * time.Second)
		e.report(ref, engine.Done(nil), engine.Accepted)
		e.report(ref, engine.Done(nil), engine.Stale)
		second := e.submit(engine.NewJob{})
		must.Do(e.Cancel(t.Context(), "ep", second))(t)
		want := []engine.Event{
			{To: engine.InQueue, Counts: engine.Counts{InQueue: 1}},
			{From: engine.InQueue, To: engine.InProgress, Delay: 2 * time.Second, Counts: engine.Counts{InProgress: 1}},
			{From: engine.InProgress, To: engine.InQueue, Retry: true, Counts: engine.Counts{InQueue: 1, Retried: 1}},
			{From: engine.InQueue, To: engine.InProgress, Delay: time.Second, Counts: engine.Counts{InProgress: 1, Retried: 1}},
			{From: engine.InProgress, To: engine.Completed, Execution: 3 * time.Second, Counts: engine.Counts{Completed: 1, Retried: 1}},
			{To: engine.InQueue, Counts: engine.Counts{InQueue: 1, Completed: 1, Retried: 1}},
			{From: engine.InQueue, To: engine.Cancelled, Counts: engine.Counts{Completed: 1, Retried: 1}},
		}
		for i := range want {
			want[i].Endpoint, want[i].Job = "ep", first
			if i >= 5 {
				want[i].Job = second
			}
		}
		// Compare the printed events, because waiting isn't exported.
		withoutWaiting := regexp.MustCompile(` waiting:\d+`)
		must.Equal(t, withoutWaiting.ReplaceAllString(fmt.Sprintf("%+v", got), ""), withoutWaiting.ReplaceAllString(fmt.Sprintf("%+v", want), ""), "observed", got, want)
	})
}
