package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// If the reply to a successful commit is lost, nothing is done twice and nothing is lost.
func TestLostReplyToACommit(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	n := startNode(t, sqldb.Config{URL: proxyURL, NoHints: true}, never) // no poll: it would commit in between
	expectUnknown := func(what string, err error) {
		t.Helper()
		must.FailWith(t, err, sqldb.ErrUnavailable, what)
	}
	for round := range 5 {
		id := n.submit(engine.NewJob{})
		proxy.LoseCommit()
		_, err := n.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1})
		expectUnknown("a take", err)
		job := n.take()
		must.Require(t, job.ID == id && job.Retries == 0, "after a take whose outcome is unknown:", job)
		report := func(lose bool, r engine.Report) {
			t.Helper()
			if lose {
				proxy.LoseCommit()
			}
			got, err := n.Report(t.Context(), job.Ref, r)
			must.Hold(t, err == nil && (!lose || got == engine.SpooledInMemory), "the report returned", got, err)
		}
		for chunk := range 4 {
			report(chunk%2 == 0, engine.Chunk(fmt.Appendf(nil, "%d", chunk), nil))
			if chunk == round%4 { // otherwise the next report is spooled behind it
				must.Equal(t, n.Delivered(t.Context(), job.Ref), nil)
			}
		}
		must.Equal(t, n.Delivered(t.Context(), job.Ref), nil)
		report(true, engine.Done([]byte(`"output"`)))
		must.Equal(t, n.Delivered(t.Context(), job.Ref), nil)
		if job := n.is(id, engine.Completed); string(job.Output) != `"output"` {
			t.Errorf("output %s", job.Output)
		}
		proxy.LoseCommit()
		_, _, _, err = n.Drain(t.Context(), "ep", id)
		expectUnknown("a read of the stream", err)
		_, chunks, _, err := n.Drain(t.Context(), "ep", id)
		got := fmt.Sprintf("%s", chunks)
		must.Hold(t, err == nil && got == `[{"output":0} {"output":1} {"output":2} {"output":3}]`, "the stream has", got, err)
		if _, chunks, _, err := n.Drain(t.Context(), "ep", id); err != nil || len(chunks) > 0 {
			t.Errorf("the stream still has %s, %v", chunks, err)
		}
	}
}

// A result that arrived in time counts, even if the job's timeout passed during an outage of
// the database.
func TestResultIsInTime(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	now := new(clock.Clock)
	e := newTester(t, sqldb.Config{URL: proxyURL, NoHints: true}, func(c *engine.Config) { c.Clock, c.Spool = now, t.TempDir() })
	for round := range 6 {
		e.submit(engine.NewJob{})
		job := e.take(engine.Take{})
		late := round%2 == 1
		if late {
			now.Advance(engine.DefaultTimeout)
		}
		proxy.Cut()
		if got, err := e.Report(t.Context(), job.Ref, engine.Done([]byte("1"))); err != nil || got != engine.Spooled && !late {
			t.Errorf("the report returned %v, %v", got, err)
		}
		now.Advance(2 * engine.DefaultTimeout)
		proxy.Mend(t)
		got, err := e.Get(t.Context(), "ep", job.ID)
		for err != nil && errors.Is(err, sqldb.ErrUnavailable) {
			got, err = e.Get(t.Context(), "ep", job.ID)
		}
		want := engine.Completed
		if late {
			want = engine.TimedOut
		}
		for got.State == engine.InProgress { // the first delivery may have failed
			got, err = e.Get(t.Context(), "ep", job.ID)
			must.Succeed(t, err)
		}
		must.Hold(t, err == nil && got.State == want && got.Execution <= engine.DefaultTimeout, "round", round, "the job is", got.State, "after", got.Execution, err, want)
	}
}
