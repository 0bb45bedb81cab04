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
	if !ok || first.Epoch != 1 {
		t.Fatalf("the first claim: %+v, %v", first, ok)
	}
	if again, ok := b.claim(); !ok || again != first {
		t.Errorf("the second claim: %+v, %v", again, ok)
	}
	if l, ok := a.claim(); ok {
		t.Errorf("two processes lead at once: %+v", l)
	}
	a.submit(engine.NewJob{})
	if !b.takeBy(first) {
		t.Error("the leader took no job")
	}
	var second engine.Lead
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if second, ok = a.claim(); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no process took over from one without a heartbeat")
		}
	}
	if second.Epoch != 2 || a.MayScale(first) {
		t.Errorf("the second lead is %+v, and MayScale accepts the first", second)
	}
	for deadline := time.Now().Add(time.Minute); !a.MayScale(second); time.Sleep(10 * time.Millisecond) { // needs a recent heartbeat
		if time.Now().After(deadline) {
			t.Fatal("the new leader may not scale")
		}
	}
	a.submit(engine.NewJob{})
	if b.takeBy(first) {
		t.Error("the former leader took a job")
	}
	if _, ok := b.claim(); ok {
		t.Error("a removed process claimed the endpoint")
	}
	if !a.takeBy(second) {
		t.Error("the new leader took no job")
	}
	must.Succeed(t, a.Release(t.Context(), "ep", second))
	a.submit(engine.NewJob{})
	if a.takeBy(second) {
		t.Error("a released lead took a job")
	}
	c := startNode(t, sqldb.Config{URL: address}, poll)
	if third, ok := c.claim(); !ok || third.Epoch != 3 {
		t.Errorf("claiming a released endpoint: %+v, %v", third, ok)
	}
	leaders, err := a.Leaders(t.Context())
	if l := leaders["ep"]; err != nil || l.Own || l.Epoch != 3 {
		t.Errorf("the leader is %+v, %v", l, err)
	}
}

// A removed process joins again by itself, with a new id.
func TestRemovedProcessJoinsAgain(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	n := startNode(t, sqldb.Config{URL: address}, 20*time.Millisecond)
	lead, ok := n.claim()
	if !ok {
		t.Fatal("no claim")
	}
	id := n.submit(engine.NewJob{})
	if !n.takeBy(lead) {
		t.Fatal("no job")
	}
	pgtest.Exec(t, address, "DELETE FROM processes")
	for deadline := time.Now().Add(time.Minute); n.Process() == lead.Process; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process didn't join again")
		}
	}
	if n.MayScale(lead) || n.takeBy(lead) {
		t.Error("the lead from before the removal is still valid")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if job, err := n.Get(t.Context(), "ep", id); err == nil && job.State == engine.InQueue && job.Retries == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("its running job was not requeued: %+v, %v", job, err)
		}
	}
	if again, ok := n.claim(); !ok || again.Epoch != 2 {
		t.Errorf("the second claim: %+v, %v", again, ok)
	}
}
