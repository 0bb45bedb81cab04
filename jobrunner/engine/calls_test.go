package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func testCalls(t *tester) {
	const claim = 15 * time.Second
	claimNext := func(busy ...string) (*engine.Call, time.Time) {
		t.Helper()
		var hosts []engine.OwnerHost
		for _, host := range busy {
			hosts = append(hosts, engine.OwnerHost{Host: host})
		}
		queues := t.CallQueues(hosts)
		if len(queues) == 0 {
			return nil, time.Time{}
		}
		first := slices.MinFunc(queues, func(a, b engine.CallQueue) int { return a.Next.Compare(b.Next) })
		return must.Do(t.ClaimCall(t.ctx, first, hosts, claim))(t), first.Next
	}
	// expectNone expects that no call is due now. The next call is due after want, or no call waits if want is 0.
	expectNone := func(want time.Duration, busy ...string) {
		t.Helper()
		call, at := claimNext(busy...)
		must.Hold(t, call == nil && at.IsZero() == (want == 0) && (want <= 0 || time.Until(at) == want), "claimed", call, "the next is due at", at, "want in", want)
	}
	expectCall := func(id string, tries int, busy ...string) *engine.Call {
		t.Helper()
		call, _ := claimNext(busy...)
		must.Require(t, call != nil && call.Job.ID == id && call.Tries == tries, "got", call, "want the call of", id, "after", tries, "tries")
		return call
	}
	expectNone(0)
	a := t.submit(engine.NewJob{Webhook: "http://a.example:8080/x", Input: []byte(`{"n":  1}`), TTL: time.Minute})
	b := t.submit(engine.NewJob{Webhook: "http://b.example/x"})
	expectNone(0)
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`"out"`)), engine.Accepted)
	must.Equal(t, len(t.Calls()), 1, "how often Calls signals the call")
	t.advance(ms)
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no", nil), engine.Accepted)

	call := expectCall(b, 0, "a.example:8080")
	t.RecordCall(call, time.Time{})
	call = expectCall(a, 0)
	must.Equal(t, fmt.Sprintf("%+v", call.Job), fmt.Sprintf("%+v", t.get(a)), "the job of the call")
	must.Hold(t, string(call.Input) == `{"n":  1}` && call.URL == "http://a.example:8080/x" && call.Host == "a.example:8080", "the call is", call)
	expectNone(claim)
	expectNone(0, "a.example:8080")
	t.RecordCall(call, time.Now().Add(10*time.Second))
	expectNone(10 * time.Second)
	t.advance(10 * time.Second)
	call = expectCall(a, 1)
	t.advance(claim) // without an outcome
	expectCall(a, 1)
	t.RecordCall(call, time.Time{}) // after the claim has expired
	expectNone(claim)
	t.advance(time.Minute) // the job has expired, but the call is still due
	t.expectState(a, "")
	call = expectCall(a, 1)
	t.restart()
	expectNone(claim)
	t.RecordCall(call, time.Time{})
	expectNone(0)

	// A client's retry cancels the job's call. When the job ends again, a new call is due.
	c := t.submit(engine.NewJob{Webhook: "http://a.example/x"})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no", nil), engine.Accepted)
	call = expectCall(c, 0)
	must.Do(t.Retry(t.ctx, "ep", c))(t)
	expectNone(0)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(""), engine.Accepted)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(""), engine.Accepted)
	t.RecordCall(call, time.Now().Add(time.Hour)) // the outcome of the cancelled call
	call = expectCall(c, 0)
	must.Hold(t, call.Job.State == engine.Failed && call.Job.Retries == 1, "the call is about", call.Job)
	must.Succeed(t, t.DropEndpoint(t.ctx, "ep"))
	t.RecordCall(call, time.Now())
	expectNone(0)
}

// Each owner and endpoint has a queue of calls. A host can be busy for one owner and free for others.
func testCallQueues(t *tester) {
	const claim = 15 * time.Second
	endJob := func(owner, endpoint, host string) (id string) {
		t.Helper()
		id = t.submit(engine.NewJob{Owner: owner, Endpoint: endpoint, Webhook: "http://" + host + "/x"})
		jobs := must.Do(t.Take(t.ctx, engine.Take{Endpoint: endpoint, Worker: "w", Max: 1}))(t)
		t.report(jobs[0].Ref, engine.Done(nil), engine.Accepted)
		t.advance(ms)
		return id
	}
	start := time.Now()
	expectQueues := func(busy []engine.OwnerHost, want ...string) []engine.CallQueue {
		t.Helper()
		all := t.CallQueues(busy)
		slices.SortFunc(all, func(a, b engine.CallQueue) int {
			return strings.Compare(a.Owner+"/"+a.Endpoint, b.Owner+"/"+b.Endpoint)
		})
		var got []string
		for _, q := range all {
			got = append(got, fmt.Sprintf("%s/%s in %d ms", q.Owner, q.Endpoint, q.Next.Sub(start).Milliseconds()))
		}
		must.Equal(t, strings.Join(got, ", "), strings.Join(want, ", "), "the queues while", busy, "are busy")
		return all
	}
	expectQueues(nil)
	ids := []string{endJob("b", "e2", "h1"), endJob("a", "e1", "h1"), endJob("b", "e1", "h1"), endJob("a", "e1", "h2"), endJob("", "e1", "h1"), endJob("b", "e2", "h2")}
	expectQueues([]engine.OwnerHost{{Owner: "a", Host: "h1"}, {Owner: "b", Host: "h1"}}, "/e1 in 4 ms", "a/e1 in 3 ms", "b/e2 in 5 ms")
	all := expectQueues(nil, "/e1 in 4 ms", "a/e1 in 1 ms", "b/e1 in 2 ms", "b/e2 in 0 ms")
	for i, want := range []int{4, 1, 2, 0} {
		call, err := t.ClaimCall(t.ctx, all[i], nil, claim)
		must.Hold(t, err == nil && call != nil && call.Job.ID == ids[want] && call.Owner == all[i].Owner &&
			call.Job.Endpoint == all[i].Endpoint, "claimed from", all[i], call, err)
	}
	for _, host := range []string{"h2", "h1"} {
		call := must.Do(t.ClaimCall(t.ctx, all[3], []engine.OwnerHost{{Owner: "b", Host: host}}, claim))(t)
		must.Equal(t, call == nil, host == "h2", "whether no call is due while", host, "is busy; claimed", call)
	}
	claimEnd := claim.Milliseconds() + 6
	expectQueues(nil, fmt.Sprintf("/e1 in %d ms", claimEnd), "a/e1 in 3 ms", fmt.Sprintf("b/e1 in %d ms", claimEnd), fmt.Sprintf("b/e2 in %d ms", claimEnd))
}
