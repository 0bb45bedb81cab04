package engine_test

import (
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Each transition is observed once, with the job's time in the queue or of execution. Chunks
// and heartbeats aren't observed.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqldb.Open(t.Context(), sqldb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var got []engine.Event
		e, err := engine.Open(t.Context(), engine.Config{
			DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler), Observe: func(ev engine.Event) { got = append(got, ev) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		submit := func() engine.Job {
			t.Helper()
			job, err := e.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(`{}`)})
			if err != nil {
				t.Fatal(err)
			}
			return job
		}
		take := func() engine.Ref {
			t.Helper()
			jobs, err := e.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
			if err != nil || len(jobs) != 1 {
				t.Fatal(jobs, err)
			}
			return jobs[0].Ref
		}
		report := func(ref engine.Ref, r engine.Report) {
			t.Helper()
			if _, err := e.Report(t.Context(), ref, r); err != nil {
				t.Fatal(err)
			}
		}
		first := submit()
		time.Sleep(2 * time.Second)
		report(take(), engine.Lost())
		time.Sleep(time.Second)
		ref := take()
		report(ref, engine.Chunk([]byte(`1`), nil))
		time.Sleep(3 * time.Second)
		report(ref, engine.Done(nil))
		report(ref, engine.Done(nil)) // once more
		second := submit()
		if _, err := e.Cancel(t.Context(), "ep", second.ID); err != nil {
			t.Fatal(err)
		}
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
			want[i].Endpoint, want[i].Job = "ep", first.ID
			if i >= 5 {
				want[i].Job = second.ID
			}
		}
		// Compare the printed events, because waiting isn't exported.
		withoutWaiting := regexp.MustCompile(` waiting:\d+`)
		if withoutWaiting.ReplaceAllString(fmt.Sprintf("%+v", got), "") != withoutWaiting.ReplaceAllString(fmt.Sprintf("%+v", want), "") {
			t.Errorf("observed\n%+v, want\n%+v", got, want)
		}
	})
}
