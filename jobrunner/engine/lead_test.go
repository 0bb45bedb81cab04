package engine_test

import (
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// takeBy takes a job under a lead, which may be outdated.
func (n *node) takeBy(l engine.Lead) (got bool) {
	n.Helper()
	jobs := must.Do(n.Take(n.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 1, Lead: l}))(n)
	return len(jobs) > 0
}

func (n *node) claim() (l engine.Lead, ok bool) {
	n.Helper()
	leads := must.Do(n.Claim(n.ctx, "ep"))(n)
	l, ok = leads["ep"]
	return l, ok
}

// One process leads an endpoint. If it releases the lead or dies, another process can claim
// the endpoint with a higher epoch, and the old lead takes no jobs.
func TestLead(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	// A process without a heartbeat for ten polls is removed. With shorter polls a busy machine
	// could cause that, too.
	const poll = 500 * time.Millisecond
	b := startNode(t, sqldb.Config{URL: address}, never) // sends no heartbeat
	a := startNode(t, sqldb.Config{URL: address}, poll)
	first, ok := b.claim()
	must.Require(t, ok && first.Epoch == 1, "the first claim:", first, ok)
	if again, ok := b.claim(); !ok || again != first {
		t.Errorf("the second claim: %+v, %v", again, ok)
	}
	if l, ok := a.claim(); ok {
		t.Errorf("two processes lead at once: %+v", l)
	}
	a.submit(engine.NewJob{})
	must.Hold(t, b.takeBy(first), "the leader took no job")
	var second engine.Lead
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if second, ok = a.claim(); ok {
			break
		}
		must.Require(t, !time.Now().After(deadline), "no process took over from one without a heartbeat")
	}
	must.Hold(t, second.Epoch == 2 && !a.MayScale(first), "the second lead is", second, "and MayScale accepts the first")
	for deadline := time.Now().Add(time.Minute); !a.MayScale(second); time.Sleep(10 * time.Millisecond) { // needs a recent heartbeat
		must.Require(t, !time.Now().After(deadline), "the new leader may not scale")
	}
	a.submit(engine.NewJob{})
	must.Hold(t, !b.takeBy(first), "the former leader took a job")
	_, ok = b.claim()
	must.Hold(t, !ok, "a removed process claimed the endpoint")
	must.Hold(t, a.takeBy(second), "the new leader took no job")
	must.Succeed(t, a.Release(t.Context(), "ep", second))
	a.submit(engine.NewJob{})
	must.Hold(t, !a.takeBy(second), "a released lead took a job")
	c := startNode(t, sqldb.Config{URL: address}, poll)
	third, ok := c.claim()
	must.Hold(t, ok && third.Epoch == 3, "claiming a released endpoint:", third, ok)
	leaders, err := a.Leaders(t.Context())
	l := leaders["ep"]
	must.Hold(t, err == nil && !l.Own && l.Epoch == 3, "the leader is", l, err)
}

// A removed process joins again by itself, with a new id.
func TestRemovedProcessJoinsAgain(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	n := startNode(t, sqldb.Config{URL: address}, 20*time.Millisecond)
	lead, ok := n.claim()
	must.Require(t, ok, "no claim")
	id := n.submit(engine.NewJob{})
	must.Require(t, n.takeBy(lead), "no job")
	pgtest.Exec(t, address, "DELETE FROM processes")
	for deadline := time.Now().Add(time.Minute); n.Process() == lead.Process; time.Sleep(10 * time.Millisecond) {
		must.Require(t, !time.Now().After(deadline), "the process didn't join again")
	}
	must.Hold(t, !n.MayScale(lead) && !n.takeBy(lead), "the lead from before the removal is still valid")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if job, err := n.Get(t.Context(), "ep", id); err == nil && job.State == engine.InQueue && job.Retries == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("its running job was not requeued: %+v, %v", job, err)
		}
	}
	again, ok := n.claim()
	must.Hold(t, ok && again.Epoch == 2, "the second claim:", again, ok)
}
